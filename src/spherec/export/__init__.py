"""Export of a model to other programs: Parquet, .npz, an index of usearch, pgvector, Ray.

import spherec.export
spherec.export.write("books.parquet", model)                        # by the file's ending, or format="parquet"
spherec.export.write("books.sql", model, format="pgvector", what="both")

On the sphere the nearest by cosine, by dot product and by Euclidean distance are the same; in the ball only the
Euclidean distance is right.
"""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, check_choice, quote
from spherec.export.index import IDS, write_usearch
from spherec.export.npz import write_npz
from spherec.export.parquet import write_parquet
from spherec.export.pgvector import write_pgvector
from spherec.export.table import ExportBlock, ExportFormat, ExportProgress, ExportTable
from spherec.geometry import check_finite

__all__ = ["EXPORT_FORMATS", "ExportBlock", "ExportFormat", "ExportProgress", "ExportTable", "find_format", "write"]

EXPORT_FORMATS = (
    ExportFormat("parquet", ".parquet", write_parquet),
    ExportFormat("npz", ".npz", write_npz),
    ExportFormat("usearch", ".usearch", write_usearch, ids_suffix=IDS),
    ExportFormat("pgvector", ".sql", write_pgvector),
)
"""The built-in formats; names, endings and help texts come from here."""


def write(
    path: str | PathLike[str],
    model: Any,
    data: Interactions | None = None,
    *,
    format: str | ExportFormat | None = None,
    what: Literal["items", "users", "both"] = "items",
    names: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write vectors with their external ids, block by block. The formats of this package write atomically.

    Args:
        path: File to write.
        model: A trained model, or vectors of users and items.
        data: Ids and names of the users and items, in the order of the vectors; by default those of the model.
        format: Name of a format, or an object like an `ExportFormat`; by default it goes by the ending of the file.
        what: "items", "users" or "both".
        names: Include the names of items.
        progress: Called with the number of rows done and of all rows.
    """
    chosen = find_format(path, format) if isinstance(format, str | None) else format
    vectors, data = getattr(model, "vectors", model), getattr(model, "data", None) if data is None else data
    check_choice("what", what, ("items", "users", "both"))
    if data is None or (vectors.n_users, vectors.n_items) != (data.n_users, data.n_items):
        ids = "no ids" if data is None else f"ids of {data.n_users:,} and {data.n_items:,}"
        raise ArgumentError(
            f"there are vectors of {vectors.n_users:,} users and {vectors.n_items:,} items, but {ids}; give the data "
            "that the model was trained on"
        )
    check_finite(vectors)
    items = ExportTable("item", data.item_ids, data.item_names if names else None, vectors)
    users = ExportTable("user", data.user_ids, None, vectors)
    tables = [table for table in (items, users) if what in ("both", f"{table.kind}s")]
    chosen.write(Path(path), tables, vectors.constraint, ExportProgress(sum(map(len, tables)), progress))


def find_format(path: str | PathLike[str], name: str | None = None) -> ExportFormat:
    """Return the format of this name or, without one, that which the ending of a file stands for."""
    for known in EXPORT_FORMATS:
        if name == known.name or (name is None and known.suffix == Path(path).suffix):
            return known
    allowed = ", ".join(f"{known.name} ({known.suffix})" for known in EXPORT_FORMATS)
    given = f"the ending of {Path(path).name}" if name is None else quote(name)
    raise ArgumentError(f"format must be one of {allowed}, or an object of your own; {given} names none")
