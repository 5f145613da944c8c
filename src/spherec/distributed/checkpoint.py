"""The checkpoint of a run of several processes: a part for each, and one file that names them.

Parts are written as the shards of a model are: each next to the checkpoint, with a name that ends in its checksum, so
that none is replaced. Once all are on disk, process 0 replaces the checkpoint itself, which names them, and removes
those of the one before. So there is a whole set at every moment. Any number of processes may continue from it: each
reads the rows that it holds from all parts.
"""

from math import gcd
from pathlib import Path
from typing import Any

import numpy as np

from spherec.data.container import Arrays, read_manifest, remove_parts, write_container
from spherec.distributed.group import ProcessGroup
from spherec.distributed.shards import join_rows, numbers_of, read_part, write_part, write_together
from spherec.training.checkpoint import CHECKPOINT_KIND, PRIVATE, CheckpointFile, Standing, collect_arrays
from spherec.training.step import Run

_PART = "spherec-checkpoint-part"  # kind of the files of processes
_OF_ROWS = ("table", "mean", "square", "last")  # arrays with P entries for each number that a process holds


class CheckpointSet(CheckpointFile):
    """The checkpoint of one run of several processes at a path that all of them reach."""

    def __init__(self, path: Path, identity: dict[str, Any], group: ProcessGroup) -> None:
        super().__init__(path, {**identity, "processes": "one or more, under torchrun or from partitions"})
        self._group = group

    def _save(self, run: Run, standing: Standing) -> None:
        """Write the part of this process and, in process 0, the file that names them."""
        group = self._group

        def write_own() -> str:
            portion = group.rank, group.size
            return write_part(self.path, _PART, portion, collect_arrays(run, standing), mode=PRIVATE)

        def write_rest(names: list[str]) -> None:
            write_container(self.path, CHECKPOINT_KIND, {}, self._describe(standing) | {"shards": names}, mode=PRIVATE)

        try:
            write_together(group, write_own, write_rest)
        finally:
            if group.rank == 0:  # all have written, or failed
                self._remove_others()

    def _remove_others(self) -> None:
        """Remove the parts that the checkpoint does not name: those of the one before, or of a set that failed."""
        is_there = self.path.exists()
        manifest = read_manifest(self.path, CHECKPOINT_KIND, remedy="start anew") if is_there else {}
        remove_parts(self.path, keep=manifest.get("shards", ()))

    def _read(self, run: Run) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays of this process, out of all parts, and the manifest."""
        _, manifest = super()._read(run)
        names, rank, size = manifest["shards"], self._group.rank, self._group.size
        n, subspaces = len(names), run.embedding.subspaces
        # Rows of a part and of this process have numbers in common if these leave the same remainders.
        near = [one for one in range(n) if (one - rank) % gcd(n, size) == 0]
        # Sums are of one process. In another number of processes, the first takes those of all.
        summed = near if n == size else range(n) if rank == 0 else ()
        parts = {one: read_part(self.path, _PART, names, one) for one in sorted({*near, *summed})}
        arrays: Arrays = dict(parts[near[0]])
        for name, array in arrays.items():
            begin, past = 0, run.n_items if name in ("best_items", "best_reach") else len(run.embedding)
            if name == "best_users":
                begin = run.n_items
            elif name not in (*_OF_ROWS, "best_items", "best_reach"):
                continue
            each, shape = subspaces if name in _OF_ROWS else 1, array.shape[1:]  # entries of a number
            sources = []
            for one in near:
                held = numbers_of((one, n), begin, past)
                sources.append(({name: parts[one][name].reshape(len(held), each, *shape)}, held))
            arrays[name] = join_rows(name, sources, numbers_of((rank, size), begin, past)).reshape(-1, *shape)
        arrays["sums"] = sum((parts[one]["sums"] for one in summed), np.zeros(3))
        return arrays, manifest
