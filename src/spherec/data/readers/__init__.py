"""Readers of foreign files. The only part of spherec that imports polars."""

from spherec.errors import MissingPackageError

try:
    import polars as _polars  # noqa: F401
except ModuleNotFoundError:
    raise MissingPackageError(
        "reading raw files needs polars: pip install polars; a file prepared elsewhere loads without it"
    ) from None

from spherec.data.readers.formats import natural_duplicates, read, read_events
from spherec.data.readers.names import read_book_crossing_names, read_names

__all__ = ["natural_duplicates", "read", "read_book_crossing_names", "read_events", "read_names"]
