"""Export as Parquet: columns id, name (items only) and vector, a fixed-size list of float32.

Users and items in one file have a column `kind` in front: "item" or "user".
"""

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from spherec.data.output_files import atomic_write
from spherec.export.table import ExportProgress, ExportTable, clean_name, refuse_unwritable_ids
from spherec.forks import require_polars
from spherec.geometry import Constraint

if TYPE_CHECKING:
    import polars as pl  # a machine that only trains has none

_ROW_GROUP = 1 << 16  # rows that a reader takes at once


class ParquetFormat:
    """A table for polars, pandas, DuckDB."""

    name = "parquet"
    suffix = ".parquet"

    def write(
        self,
        path: str | PathLike[str],
        tables: Sequence[ExportTable],
        constraint: Constraint,  # noqa: ARG002
        progress: ExportProgress,
    ) -> None:
        """Write the rows of all tables, one table after the other."""
        require_polars("writing Parquet")
        import polars as pl
        from polars.io.plugins import register_io_source

        integers = all(table.ids_are_integers for table in tables)
        schema: dict[str, Any] = {"kind": pl.String} if len(tables) > 1 else {}
        schema["id"] = pl.Int64 if integers else pl.String
        if any(table.kind == "item" for table in tables):
            schema["name"] = pl.String
        schema["vector"] = pl.Array(pl.Float32, tables[0].dim)

        def frames(*_: object) -> Iterator["pl.DataFrame"]:
            for block in (block for table in tables for block in table.blocks()):
                refuse_unwritable_ids(block, "Parquet")
                columns = {
                    "kind": [block.table.kind] * len(block),
                    "id": block.ids if integers else list(map(str, block.ids)),
                    "name": [None if name is None else clean_name(name) for name in block.names],
                    "vector": block.vectors,
                }
                yield pl.DataFrame({name: columns[name] for name in schema}, schema=schema)
                progress.add(len(block))

        with atomic_write(path) as file:
            register_io_source(frames, schema=schema).sink_parquet(file, row_group_size=_ROW_GROUP)
