"""The checkpoint of a run of several processes: a file for each, and one file that names them.

Each process writes its part next to the checkpoint, as `NAME.SET.RANK-of-N`, where SET is a random number, so that no
part of another set is replaced. Once all are on disk, process 0 replaces the checkpoint itself, which names the set,
and removes the parts of the one before. So there is a whole set at every moment. Any number of processes may continue
from it: each reads the rows that it holds from all parts.
"""

import secrets
from contextlib import suppress
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.distributed.group import ProcessGroup
from spherec.distributed.table import count_held
from spherec.errors import DataError
from spherec.training.checkpoint import CheckpointFile, Standing, remove_parts
from spherec.training.step import Run

_OF_ROWS = ("table", "mean", "square", "last")  # arrays with P entries for each number that a process holds


class CheckpointSet(CheckpointFile):
    """The checkpoint of one run of several processes at a path that all of them reach."""

    def __init__(self, path: Path, identity: dict[str, Any], group: ProcessGroup) -> None:
        super().__init__(path, {**identity, "processes": "one or more, under torchrun or from partitions"})
        self._group = group

    def _commit(self, run: Run, standing: Standing) -> tuple[bool, str | None]:
        """Write the part of this process and, in process 0, the file that names them.

        Return whether it worked in all processes, and what went wrong in this one.
        """
        group = self._group
        facts = {"set": _draw_number(group), "parts": group.size}
        part = self._part(facts["set"], group.rank, group.size)
        problem = self._try_write(part, run, standing, rank=group.rank, **facts)
        if group.agree(problem is not None)[0]:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            return False, problem
        if group.rank == 0:
            try:
                self._write(self.path, {}, {**self._describe(standing), **facts})
                remove_parts(self.path, keep=f".{facts['set']}.")
            except (DataError, MemoryError) as error:  # it may be on disk nevertheless: the parts stay
                problem = str(error) or "memory is short"
        return not group.agree(problem is not None)[0], problem

    def _part(self, number: int, rank: int, n: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}.{rank}-of-{n}")

    def _read(self, run: Run) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the arrays of this process, out of all parts, and the manifest."""
        held = run.held
        _, manifest = self._read_own(self.path)
        n, number = int(manifest["parts"]), int(manifest["set"])
        own_rank, size = self._group.rank, self._group.size
        is_resized = n != size
        arrays: dict[str, NDArray[Any]] = {}
        sums = np.zeros(0)
        for rank in range(n):
            # Rows of a part and of this process have numbers in common if these leave the same remainders.
            has_rows = (rank - own_rank) % gcd(n, size) == 0
            if not has_rows and not (is_resized and own_rank == 0):  # process 0 takes the sums of all
                continue
            path = self._part(number, rank, n)
            part, described = self._read_own(path)
            if [described[name] for name in ("set", "rank", "parts")] != [number, rank, n]:
                raise DataError(f"{path} is another part than its name says; put the right one there, or start anew")
            sums = part["sums"] + (sums if len(sums) else 0)
            if "best_users" in part:  # items before users, as in the table
                part["best"] = np.concatenate((part.pop("best_items"), part.pop("best_users")))
            for name, array in part.items():
                if name in _OF_ROWS or name in ("best", "best_reach"):
                    of_items = name == "best_reach"
                    total = held.n_items if of_items else len(held.embedding)
                    count = count_held(run.n_items if of_items else len(run.embedding), rank, n)
                    grouped = array.reshape(count, -1 if count else 1, *array.shape[1:])
                    whole = arrays.setdefault(name, np.empty((total, *grouped.shape[1:]), array.dtype))
                    _deal(grouped, whole, (rank, n), self._group)
                else:
                    arrays[name] = array
        if "best" in arrays:
            best = arrays.pop("best")[:, 0]
            arrays["best_items"], arrays["best_users"] = best[: held.n_items], best[held.n_items :]
        if "best_reach" in arrays:
            arrays["best_reach"] = arrays["best_reach"][:, 0]
        for name in _OF_ROWS:
            arrays[name] = arrays[name].reshape(-1, *arrays[name].shape[2:])
        # Sums are of one process. In another number of processes, the first takes those of all.
        arrays["sums"] = sums * 0 if is_resized and own_rank else sums
        return arrays, manifest


def _deal(rows: NDArray[Any], whole: NDArray[Any], holder: tuple[int, int], group: ProcessGroup) -> None:
    """Copy the rows that process `holder` of a run before held, and this one holds now, to their places."""
    rank, n = holder
    numbers = np.arange(len(rows)) * n + rank
    mine = numbers % group.size == group.rank
    whole[numbers[mine] // group.size] = rows[mine]


def _draw_number(group: ProcessGroup) -> int:
    """Return a random number, the same in all processes."""
    drawn = secrets.randbits(32) if group.rank == 0 else 0
    return int(group.add_up(torch.tensor(drawn, device=group.device)))
