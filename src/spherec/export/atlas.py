"""Export for Embedding Atlas: a Parquet file of the items with their places on the map and their nearest items.

Columns: id, name, users (how many have the item), x, y, and neighbors, {"ids": rows of the file from 0, "distances"}.

    embedding-atlas books.parquet --text name --x x --y y --neighbors neighbors
"""

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from spherec.data.output_files import atomic_write
from spherec.errors import ArgumentError
from spherec.export.table import ExportBlock, ExportProgress, ExportTable, clean_name, refuse_unwritable_ids
from spherec.forks import require_polars
from spherec.geometry import Constraint
from spherec.item_map import ItemMap
from spherec.ranking import ExactRanker

if TYPE_CHECKING:
    import polars as pl  # a machine that only trains has none

_NEIGHBOURS = 10
_SHARE_OF_MAP = 0.2  # of the work, for progress; the rest are the neighbours


class AtlasFormat:
    """A map of the items for Embedding Atlas."""

    name = "atlas"
    suffix = ".parquet"

    def write(
        self,
        path: str | PathLike[str],
        tables: Sequence[ExportTable],
        constraint: Constraint,
        progress: ExportProgress,
    ) -> None:
        """Draw the map, find the neighbours of all items exactly, and write both."""
        require_polars("writing Parquet")
        import polars as pl
        from polars.io.plugins import register_io_source

        if [table.kind for table in tables] != ["item"]:
            raise ArgumentError("the format atlas is of items alone, got users; export with what='items'")
        (table,) = tables
        vectors, n_items = table.vectors, len(table)
        popularity = table.data.users_per_item
        drawn = ItemMap.draw(
            vectors, popularity, progress=lambda done: progress.reach(int(done * _SHARE_OF_MAP * n_items))
        )
        ranker = ExactRanker(vectors)
        neighbours = pl.Struct({"ids": pl.List(pl.Int64), "distances": pl.List(pl.Float32)})
        schema: dict[str, Any] = {
            "id": pl.Int64 if table.ids_are_integers else pl.String,
            "name": pl.String,
            "users": pl.Int64,
            "x": pl.Float32,
            "y": pl.Float32,
            "neighbors": neighbours,
        }

        def frames(*_: object) -> Iterator["pl.DataFrame"]:
            for block in table.blocks():
                refuse_unwritable_ids(block.ids, table.kind, "Parquet")
                rows = slice(block.first, block.last)
                columns = {
                    "id": block.ids,
                    "name": [None if name is None else clean_name(name) for name in block.names],
                    "users": popularity[rows],
                    "x": drawn.places[rows, 0],
                    "y": drawn.places[rows, 1],
                    "neighbors": _find_neighbours(block, ranker, constraint),
                }
                yield pl.DataFrame(columns, schema=schema)
                progress.reach(int((_SHARE_OF_MAP + (1 - _SHARE_OF_MAP) * block.last / n_items) * n_items))

        with atomic_write(path) as file:
            register_io_source(frames, schema=schema).sink_parquet(file)


def _find_neighbours(block: ExportBlock, ranker: ExactRanker, constraint: Constraint) -> list[dict[str, Any]]:
    """Return the rows of the nearest items of each item in the block, and their distances; reach does not count."""
    index = np.arange(block.first, block.last)
    rows = block.item_rows  # (b, D)
    ranking = ranker.top_of(rows, min(_NEIGHBOURS, len(block.table)), without=list(index[:, None]), mainstream=0.0)
    # A ranker's score is u·v, in the ball u·v − |v|²/2.
    lengths = np.square(rows).sum(1, dtype=np.float64)[:, None]  # (b, 1)
    squared = lengths - 2 * ranking.scores.astype(np.float64) + (1 if constraint == "sphere" else 0)
    distances = np.sqrt(np.maximum(squared, 0))
    there = ranking.items >= 0
    return [
        {"ids": items[known].tolist(), "distances": away[known].tolist()}
        for items, away, known in zip(ranking.items, distances, there, strict=True)
    ]
