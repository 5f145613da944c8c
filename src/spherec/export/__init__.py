"""Export of a model to other programs: Parquet, .npz, an index of usearch, pgvector, Ray.

import spherec.export
spherec.export.write("books.parquet", model)                        # by the file's ending, or format="parquet"
spherec.export.write("books.sql", model, format="pgvector", what="both")

On the sphere the nearest by cosine, by dot product and by Euclidean distance are the same; in the ball only the
Euclidean distance is right.
"""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Protocol, runtime_checkable

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, quote
from spherec.export.index import UsearchFormat
from spherec.export.npz import NpzFormat
from spherec.export.parquet import ParquetFormat
from spherec.export.pgvector import PgvectorFormat
from spherec.export.table import ExportBlock, ExportProgress, ExportTable, What, make_export_tables
from spherec.geometry import Constraint, Vectors, check_finite

__all__ = [
    "EXPORT_FORMATS",
    "ExportBlock",
    "ExportFormat",
    "ExportProgress",
    "ExportTable",
    "What",
    "find_format",
    "write",
]


class ExportFormat(Protocol):
    """A file format. An object of the user's own class can be passed to `write`."""

    @property
    def name(self) -> str:
        """Name of the format, such as "parquet"."""

    @property
    def suffix(self) -> str:
        """Ending of its files, such as ".parquet"."""

    def write(
        self, path: str | PathLike[str], tables: Sequence[ExportTable], constraint: Constraint, progress: ExportProgress
    ) -> None:
        """Write the tables to one file.

        Args:
            path: File to write.
            tables: The items, the users, or both in this order.
            constraint: "sphere" or "ball": where the vectors live.
            progress: Counts the rows that were written: call `progress.add(len(block))`.
        """


@runtime_checkable
class Exportable(Protocol):
    """A trained model: vectors, and the ids and names of their users and items."""

    @property
    def vectors(self) -> Vectors:
        """Vectors of users and items."""

    @property
    def data(self) -> Interactions:
        """Interactions with the ids and names, in the order of the vectors."""


EXPORT_FORMATS: tuple[ExportFormat, ...] = (ParquetFormat(), NpzFormat(), UsearchFormat(), PgvectorFormat())
"""The formats of this package; names, endings and help texts come from here."""


def write(
    path: str | PathLike[str],
    model: Exportable | Vectors,
    data: Interactions | None = None,
    *,
    format: str | ExportFormat | None = None,
    what: What = "items",
    names: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write vectors with their external ids, block by block. The formats of this package write atomically.

    Args:
        path: File to write.
        model: A trained model, or vectors of users and items.
        data: Ids and names of the users and items, in the order of the vectors; by default those of the model. Vectors
            need them.
        format: Name of a format, or an object with the methods of `ExportFormat`; by default it goes by the ending of
            the file.
        what: "items", "users" or "both".
        names: Include the names of items.
        progress: Called with the number of rows done and of all rows.
    """
    chosen = find_format(path, format) if isinstance(format, str | None) else format
    if isinstance(model, Exportable):
        vectors, data = model.vectors, model.data if data is None else data
    else:
        vectors = model
    if data is None:
        raise ArgumentError("vectors have no ids; pass a model, or the data that the vectors are of as third argument")
    check_finite(vectors)
    tables = make_export_tables(vectors, data, what, names=names)
    chosen.write(path, tables, vectors.constraint, ExportProgress(sum(map(len, tables)), progress))


def find_format(path: str | PathLike[str], name: str | None = None) -> ExportFormat:
    """Return the format of this name or, without one, that which the ending of a file stands for."""
    for known in EXPORT_FORMATS:
        if name == known.name or (name is None and known.suffix == Path(path).suffix):
            return known
    allowed = ", ".join(f"{known.name} ({known.suffix})" for known in EXPORT_FORMATS)
    if name is None:
        raise ArgumentError(f"the ending of {Path(path).name} shows no format; name one of {allowed}")
    raise ArgumentError(f"format must be one of {allowed}, or an object of your own, got {quote(name)}")
