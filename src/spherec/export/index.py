"""Export as an index of usearch whose keys are positions; a second file has the ids and names of these positions."""

import json
from collections.abc import Sequence
from pathlib import Path

import torch

from spherec.data.output_files import atomic_write, refuse_unwritable
from spherec.errors import ArgumentError
from spherec.export.table import ExportProgress, ExportTable
from spherec.geometry import Constraint, DenseVectors

IDS = ".ids.jsonl"
"""Ending of the file with the ids."""


def write_usearch(path: Path, tables: Sequence[ExportTable], constraint: Constraint, progress: ExportProgress) -> None:
    """Write the index, and the ids as a line of JSON each."""
    from spherec.ranking.usearch import UsearchRanker  # an extra

    if len(tables) > 1:
        raise ArgumentError("an index holds items or users, not both; export one after the other")
    (table,) = tables
    ids, vectors = path.with_suffix(IDS), table.model
    refuse_unwritable(path)
    refuse_unwritable(ids)
    if table.kind == "user":
        rows = torch.cat(list(vectors.user_blocks()))  # (U, D)
        vectors = DenseVectors(rows[:0], rows, constraint)  # as items
    index = UsearchRanker.build(vectors, progress=lambda done, _: progress.add(done - progress.done))
    named = (row for block in table.blocks() for row in zip(block.ids, block.names, strict=True))
    with atomic_write(ids) as out:
        for key, (plain, name) in enumerate(named):
            line = {"key": key, "id": plain} | ({} if name is None else {"name": name})
            out.write(json.dumps(line).encode() + b"\n")
        index.save(path)  # inside the block: if it fails, the old ids stay with the old index
