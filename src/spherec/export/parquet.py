"""DenseVectors as Parquet: columns id, name (items only) and vector, a fixed-size list of float32.

Users and items in one file have a column `kind` in front: "item" or "user".
"""

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

try:
    import polars as pl
    from polars.io.plugins import register_io_source
except ImportError as error:
    from spherec.errors import MissingPackageError

    raise MissingPackageError("writing Parquet needs polars; install it with: pip install polars") from error

from spherec.data.files import atomic_write
from spherec.export.progress import Counter
from spherec.export.rows import Rows, refuse_unwritable_ids, writable_name

_ROW_GROUP = 1 << 16  # rows that a reader takes at once


def write(path: str | PathLike[str], tables: Sequence[Rows], counter: Counter) -> None:
    """Write the rows of all tables, one table after the other."""
    integers = all(rows.ids_are_integers for rows in tables)
    schema: dict[str, Any] = {"kind": pl.String} if len(tables) > 1 else {}
    schema["id"] = pl.Int64 if integers else pl.String
    if any(rows.kind == "item" for rows in tables):
        schema["name"] = pl.String
    schema["vector"] = pl.Array(pl.Float32, tables[0].vectors.shape[1])

    def blocks(*_: object) -> Iterator[pl.DataFrame]:
        for rows in tables:
            for part in rows.blocks():
                yield _frame(rows, part, schema)
                counter.add(part)

    with atomic_write(path) as file:
        register_io_source(blocks, schema=schema).sink_parquet(file, row_group_size=_ROW_GROUP)


def _frame(rows: Rows, part: slice, schema: dict[str, Any]) -> pl.DataFrame:
    ids = rows.plain_ids(part)
    refuse_unwritable_ids(ids, rows.kind, "Parquet")
    columns = {
        "kind": [rows.kind] * len(ids),
        "id": ids if schema["id"] == pl.Int64 else list(map(str, ids)),
        "name": [None if name is None else writable_name(name) for name in rows.names_of(part)],
        "vector": rows.vectors[part],
    }
    return pl.DataFrame({name: columns[name] for name in schema}, schema=schema)
