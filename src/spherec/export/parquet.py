"""Export as Parquet: columns id, name (items only) and vector, a fixed-size list of float32.

Users and items in one file have a column `kind` in front: "item" or "user".
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from spherec.data.output_files import atomic_write
from spherec.errors import require_polars
from spherec.export.table import ExportProgress, ExportTable
from spherec.geometry import Constraint

_ROW_GROUP = 1 << 16  # rows that a reader takes at once


def write_parquet(path: Path, tables: Sequence[ExportTable], _constraint: Constraint, progress: ExportProgress) -> None:
    """Write the rows of all tables, one table after the other."""
    require_polars("writing Parquet")
    import polars as pl  # a machine that only trains has none
    from polars.io.plugins import register_io_source

    integers = all(table.ids_are_integers for table in tables)
    schema: dict[str, Any] = {"kind": pl.String} if len(tables) > 1 else {}
    schema["id"] = pl.Int64 if integers else pl.String
    if any(table.kind == "item" for table in tables):
        schema["name"] = pl.String
    schema["vector"] = pl.Array(pl.Float32, tables[0].dim)

    def frames(*_: object) -> Iterator[Any]:
        for table, block in ((each, block) for each in tables for block in each.blocks()):
            columns = {
                "kind": [table.kind] * len(block),
                "id": block.ids if integers else list(map(str, block.ids)),
                "name": block.names,
                "vector": block.vectors,
            }
            yield pl.DataFrame({name: columns[name] for name in schema}, schema=schema)
            progress.add(len(block))

    with atomic_write(path) as file:
        register_io_source(frames, schema=schema).sink_parquet(file, row_group_size=_ROW_GROUP)
