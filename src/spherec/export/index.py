"""Export as an index of usearch whose keys are positions; a second file has the ids and names of these positions."""

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import torch

from spherec.data.output_files import atomic_write, refuse_unwritable
from spherec.errors import ArgumentError
from spherec.export.table import ExportProgress, ExportTable
from spherec.geometry import Constraint, DenseVectors, Vectors


class UsearchFormat:
    """An index of nearest neighbours, with the ids in a second file. Needs the extra "ann"."""

    name = "usearch"
    suffix = ".usearch"

    def write(
        self, path: str | PathLike[str], tables: Sequence[ExportTable], constraint: Constraint, progress: ExportProgress
    ) -> None:
        """Write the index, and the ids as a line of JSON each."""
        from spherec.ranking.usearch import UsearchRanker  # an extra

        if len(tables) > 1:
            raise ArgumentError("an index holds items or users, not both; export one after the other")
        (table,) = tables
        for target in (path, ids_path(path)):
            refuse_unwritable(target)
        index = UsearchRanker.build(_as_items(table, constraint), progress=lambda done, _: progress.reach(done))
        with atomic_write(ids_path(path)) as file:
            for block in table.blocks():
                for key, plain, name in zip(range(block.first, block.last), block.ids, block.names, strict=True):
                    line = {"key": key, "id": plain} | ({} if name is None else {"name": name})
                    file.write(json.dumps(line).encode() + b"\n")
            index.save(path)  # inside the block: if it fails, the old ids stay with the old index


def ids_path(path: str | PathLike[str]) -> Path:
    """Return the path of the ids of an index: books.ids.jsonl for books.usearch."""
    return Path(path).with_suffix(".ids.jsonl")


def _as_items(table: ExportTable, constraint: Constraint) -> Vectors:
    """Return vectors whose items are the rows of the table."""
    if table.kind == "item":
        return table.vectors
    rows = torch.cat(list(table.vectors.user_blocks()))  # (U, D)
    return DenseVectors(rows[:0], rows, constraint)
