"""Readers of files that others wrote, one format a file. polars is imported when a file is read, not before."""

from spherec.data.read.item_tables import read_features, read_names
from spherec.data.read.reading import read, read_events, read_interactions

__all__ = ["read", "read_events", "read_features", "read_interactions", "read_names"]
