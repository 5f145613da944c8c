"""DenseVectors as an index of usearch whose keys are positions, and beside it the ids and names of those positions."""

import json
from os import PathLike
from pathlib import Path

import torch

from spherec.data.files import atomic_write, refuse_unwritable
from spherec.export.progress import Progress
from spherec.export.rows import Rows
from spherec.geometry import Constraint, DenseVectors
from spherec.ranking.usearch import UsearchRanker


def ids_path(path: str | PathLike[str]) -> Path:
    """Where the ids of an index are: those of books.usearch in books.ids.jsonl."""
    return Path(path).with_suffix(".ids.jsonl")


def write(path: str | PathLike[str], rows: Rows, progress: Progress | None, constraint: Constraint) -> None:
    """Write the ids, a line of JSON each, and the index."""
    for target in (path, ids_path(path)):
        refuse_unwritable(target)
    table = torch.as_tensor(rows.vectors)
    index = UsearchRanker.build(DenseVectors(table[:0], table, constraint), progress=progress)
    with atomic_write(ids_path(path)) as file:
        for part in rows.blocks():
            keys, ids, names = range(part.start, part.stop), rows.plain_ids(part), rows.names_of(part)
            for key, one, name in zip(keys, ids, names, strict=True):
                line = {"key": key, "id": one} | ({} if name is None else {"name": name})
                file.write(json.dumps(line).encode() + b"\n")
    index.save(path)
