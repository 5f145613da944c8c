"""Readers of foreign files. The only part of spherec that imports polars."""

from spherec.errors import MissingPackageError

try:
    import polars as _polars  # noqa: F401
except ModuleNotFoundError:
    raise MissingPackageError(
        "reading raw files needs polars: pip install polars; a file prepared elsewhere loads without it"
    ) from None

from spherec.data.readers.formats import read, read_events, read_interactions
from spherec.data.readers.names import read_book_crossing_names, read_names

__all__ = ["read", "read_book_crossing_names", "read_events", "read_interactions", "read_names"]
