"""A model's vectors for others to serve: Parquet, .npz, an index of usearch, PostgreSQL with pgvector.

import spherec.export
spherec.export.write("books.parquet", vectors, data)                        # by the file's ending, or format="parquet"
spherec.export.write("books.sql", vectors, data, format="pgvector", what="both")

On the sphere the nearest by cosine, by dot product and by Euclidean distance are the same; in the ball only the
Euclidean distance is right.
"""

from os import PathLike
from pathlib import Path
from typing import Literal, get_args

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError
from spherec.export import npz, pgvector
from spherec.export.progress import Counter, Progress
from spherec.export.rows import Rows, What, rows_of
from spherec.geometry import DenseVectors

__all__ = ["Format", "Progress", "What", "format_of", "write"]

Format = Literal["parquet", "npz", "usearch", "pgvector"]

_ENDINGS: dict[str, Format] = {".parquet": "parquet", ".npz": "npz", ".usearch": "usearch", ".sql": "pgvector"}


def write(
    path: str | PathLike[str],
    vectors: DenseVectors,
    data: Interactions,
    *,
    format: Format | None = None,
    what: What = "items",
    names: bool = True,
    progress: Progress | None = None,
) -> None:
    """Write vectors with their external ids, and item names if `names`; whole or not at all, a block at a time.

    `data` has the ids and names of the vectors, in their order. Without a `format` the file's ending says it.
    """
    chosen = format_of(path) if format is None else format
    tables = rows_of(vectors, data, what, names=names)
    counter = Counter(sum(map(len, tables)), progress)
    match chosen:
        case "parquet":
            from spherec.export import parquet  # brings polars, which a machine that only trains may lack

            parquet.write(path, tables, counter)
        case "npz":
            npz.write(path, tables, counter, vectors.constraint)
        case "usearch":
            from spherec.export import index  # brings usearch, an extra

            index.write(path, _one(tables), progress, vectors.constraint)
        case "pgvector":
            pgvector.write(path, tables, counter, vectors.constraint)
        case _:
            raise ArgumentError(f"format must be one of {', '.join(get_args(Format))}, got {chosen!r}")


def format_of(path: str | PathLike[str]) -> Format:
    """By the file's ending."""
    if found := _ENDINGS.get(Path(path).suffix):
        return found
    raise ArgumentError(
        f"the ending of {Path(path).name} says no format; name one of {', '.join(get_args(Format))}, or end the file "
        f"with one of {', '.join(_ENDINGS)}"
    )


def _one(tables: list[Rows]) -> Rows:
    if len(tables) > 1:
        raise ArgumentError("an index holds items or users, not both; export one after the other")
    return tables[0]
