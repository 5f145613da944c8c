"""The checkpoint of a run of several processes: a file for each, and one file that names them.

Each process writes its part next to the checkpoint, as `NAME.SET.RANK-of-N`, where SET is a random number, so that no
part of another set is replaced. Once all are on disk, process 0 replaces the checkpoint itself, which names the set,
and removes the parts of the one before. So there is a whole set at every moment. Any number of processes may continue
from it: each reads the rows that it holds from all parts.
"""

import re
import secrets
import warnings
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.data.archive import read_archive, write_archive
from spherec.embedding import Share
from spherec.embedding.sharded import count_held
from spherec.errors import CheckpointWarning, DataError
from spherec.process_group import ProcessGroup
from spherec.training.checkpoint import FORMAT, VERSION, CheckpointFile, Standing
from spherec.training.step import Run

_PART = re.compile(r"\.\d+\.\d+-of-\d+(\.\w{8}\.part)?")  # the end of a part's name; or of one that was being written
_OF_ROWS = ("table", "mean", "square", "last")  # arrays with P entries for each number that a process holds


class CheckpointSet(CheckpointFile):
    """The checkpoint of one run of several processes at a path that all of them reach."""

    def __init__(self, path: str | PathLike[str], identity: dict[str, Any], pairs: int) -> None:
        super().__init__(path, {**identity, "processes": "one or more under torchrun"}, pairs)

    def try_save(self, run: Run, standing: Standing, remedy: str) -> bool:
        """Write the run, and return whether it worked in all processes; warn where it did not."""
        group = _share_of(run).group
        problem = None
        facts = {"set": _draw_number(group), "parts": group.size}
        part = self._part(facts["set"], group.rank, group.size)
        try:
            self._write(part, run, standing, rank=group.rank, **facts)
        except (DataError, MemoryError) as error:
            problem = str(error) or "memory is short"
        is_lost = group.agree(problem is not None)[0]
        if not is_lost:
            try:
                if group.rank == 0:
                    manifest = {**self._describe(standing), **facts}
                    write_archive(self.path, {}, manifest, compress=False, mode=0o600)
            except (DataError, MemoryError) as error:
                problem = str(error) or "memory is short"
            is_lost = group.agree(problem is not None)[0]
        if problem is not None and problem != self._problem:
            text = f"no checkpoint in epoch {len(standing.history.epochs) + 1}: {problem}; {remedy}"
            warnings.warn(CheckpointWarning(text), stacklevel=3)
        self._problem = problem
        if is_lost:
            with suppress(OSError):
                part.unlink(missing_ok=True)
        elif group.rank == 0:
            _remove_parts(self.path, keep=f".{facts['set']}.")
        return not is_lost

    def remove(self) -> None:
        """Remove the files, if there are any."""
        remove_checkpoint(self.path)

    def _part(self, number: int, rank: int, n: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}.{rank}-of-{n}")

    def _read(self, run: Run) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the arrays of this process, out of all parts, and the manifest."""
        share, held = _share_of(run), run.held
        _, manifest = read_archive(self.path, FORMAT, VERSION, remedy="start anew")
        self._refuse_other(self.path, manifest)
        n, number = int(manifest["parts"]), int(manifest["set"])
        arrays: dict[str, NDArray[Any]] = {}
        sums = []
        for rank in range(n):
            path = self._part(number, rank, n)
            part, described = read_archive(path, FORMAT, VERSION, remedy="start anew")
            self._refuse_other(path, described)
            if [described[name] for name in ("set", "rank", "parts")] != [number, rank, n]:
                raise DataError(f"{path} is another part than its name says; put the right one there, or start anew")
            sums.append(part["sums"])
            items = count_held(run.n_items, rank, n)
            if "best_users" in part:  # items before users, as in the table
                part["best"] = np.concatenate((part.pop("best_items"), part.pop("best_users")))
            for name, array in part.items():
                if name in _OF_ROWS or name in ("best", "best_reach"):
                    total = held.n_items if name == "best_reach" else len(held.embedding)
                    own = items if name == "best_reach" else count_held(len(run.embedding), rank, n)
                    if not own:  # there are fewer rows than processes
                        continue
                    grouped = array.reshape(own, -1, *array.shape[1:])
                    whole = arrays.setdefault(name, np.empty((total, *grouped.shape[1:]), array.dtype))
                    _deal(grouped, whole, (rank, n), share)
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
        rank = share.group.rank
        arrays["sums"] = sums[rank] if n == share.group.size else np.sum(sums, 0) * (rank == 0)
        return arrays, manifest


def remove_checkpoint(path: Path) -> None:
    """Remove the checkpoint of a run of one process or several, if there is one."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
    _remove_parts(path)


def _remove_parts(path: Path, keep: str | None = None) -> None:
    """Remove the parts of all sets of a checkpoint, except those whose names continue with `keep`.

    Those that a killed process left half-written are hidden files.
    """
    for begin in (path.name, f".{path.name}"):
        for part in path.parent.glob(f"{_escape(begin)}.*.*-of-*"):
            end = part.name.removeprefix(begin)
            if _PART.fullmatch(end) and (keep is None or not end.startswith(keep)):
                with suppress(OSError):
                    part.unlink()


def _deal(rows: NDArray[Any], whole: NDArray[Any], holder: tuple[int, int], share: Share) -> None:
    """Copy the rows that process `holder` of a run before held, and this one holds now, to their places."""
    rank, n = holder
    numbers = np.arange(len(rows)) * n + rank
    mine = numbers % share.group.size == share.group.rank
    whole[numbers[mine] // share.group.size] = rows[mine]


def _share_of(run: Run) -> Share:
    assert run.share is not None  # only such runs have a set
    return run.share


def _draw_number(group: ProcessGroup) -> int:
    """Return a random number, the same in all processes."""
    drawn = secrets.randbits(32) if group.rank == 0 else 0
    return int(group.add_up(torch.tensor(drawn, device=group.device)))


def _escape(name: str) -> str:
    """Return the name as a pattern of `glob` that matches it alone."""
    return "".join(f"[{one}]" if one in "*?[" else one for one in name)
