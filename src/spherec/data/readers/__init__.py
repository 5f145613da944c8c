"""Readers of files that others wrote, one format a file. polars is imported when a file is read, not before."""

from spherec.data.readers.book_crossing import read_book_crossing_names
from spherec.data.readers.formats import read, read_events, read_interactions
from spherec.data.readers.item_features import read_features
from spherec.data.readers.names import read_names

__all__ = ["read", "read_book_crossing_names", "read_events", "read_features", "read_interactions", "read_names"]
