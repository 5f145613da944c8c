"""The checkpoint of a run of several processes: a part for each, and one file that names them.

Parts are written as the shards of a model are: each next to the checkpoint, with a name that ends in its checksum, so
that none is replaced. Once all are on disk, process 0 replaces the checkpoint itself, which names them, and removes
those of the one before. So there is a whole set at every moment. Any number of processes may continue from it: each
reads the rows that it holds from all parts.
"""

from collections.abc import Callable, Mapping
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np

from spherec.data.container import Arrays, read_container, read_manifest, remove_parts, write_container
from spherec.distributed.group import ProcessGroup
from spherec.distributed.shards import join_rows, numbers_of, read_part, write_part, write_together
from spherec.training.crew import CHECKPOINT_KIND, PRIVATE
from spherec.training.step import Run

_PART = "spherec-checkpoint-part"  # kind of the files of processes
_OF_ROWS = ("table", "mean", "square", "last")  # arrays with P entries for each number that a process holds


def write_parts(path: Path, group: ProcessGroup, collect: Callable[[], Arrays], facts: Mapping[str, Any]) -> None:
    """Write the part of this process, of which `collect` returns the arrays; in process 0 also the file that names all.

    Parts that it does not name are removed then: those of the one before, or of a set that failed.
    """

    def write_own() -> str:
        return write_part(path, _PART, (group.rank, group.size), collect(), mode=PRIVATE)

    def write_rest(names: list[str]) -> None:
        write_container(path, CHECKPOINT_KIND, {}, {**facts, "shards": names}, mode=PRIVATE)

    try:
        write_together(group, write_own, write_rest)
    finally:
        if group.rank == 0:  # all have written, or failed
            manifest = read_manifest(path, CHECKPOINT_KIND, remedy="start anew") if path.exists() else {}
            remove_parts(path, keep=manifest.get("shards", ()))


def read_parts(path: Path, group: ProcessGroup, run: Run) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of this process, out of all parts, and the manifest."""
    _, manifest = read_container(path, CHECKPOINT_KIND, remedy="start anew")
    names, rank, size = manifest["shards"], group.rank, group.size
    n, subspaces = len(names), run.embedding.subspaces
    # Rows of a part and of this process have numbers in common if these leave the same remainders.
    near = [one for one in range(n) if (one - rank) % gcd(n, size) == 0]
    # Sums are of one process. In another number of processes, the first takes those of all.
    summed = near if n == size else range(n) if rank == 0 else ()
    parts = {one: read_part(path, _PART, names, one) for one in sorted({*near, *summed})}
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
