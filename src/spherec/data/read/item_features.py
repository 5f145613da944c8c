"""Files of item features: tables of items, matrices. Importing this brings no polars."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spherec.data.feature_columns import Kind
from spherec.data.features import Features
from spherec.data.input_files import reading_file, refuse_unreadable
from spherec.data.read.formats import Reading, is_scipy_matrix, refuse_without_polars
from spherec.data.read.names import list_item_columns, recognise_item_table
from spherec.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_OPTIONS = (
    "item= (--features-id-column) names the column of item ids; for another layout, read the table yourself and give "
    "Features.from_frame(frame, item=…)"
)


def read_features(
    path: str | PathLike[str], *, item: str | None = None, kinds: Mapping[str, Kind] | None = None, dims: int = 300
) -> Features:
    """Read features of items from a file.

    Args:
        path: A table (CSV, TSV or JSON lines, plain or gzipped, or Parquet) with a row for each item; or a sparse
            matrix that scipy saved, or a dense one that NumPy saved (.npy), whose rows have their positions as ids.
        item: The column with the external ids of items; by default recognised, as in `read_names`.
        kinds: The kinds of a table's columns; see `Features.from_frame`.
        dims: The largest number of numbers that a column of categories, tags or words gives.
    """
    content, column = read_content(path, item)
    try:
        if column is not None:
            return Features.from_frame(content, item=column, kinds=kinds, dims=dims)
        return Features.from_matrix(content, name=Path(path).name.partition(".")[0], dims=dims)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def read_content(path: str | PathLike[str], item: str | None = None) -> tuple[Any, str | None]:
    """Return the table of items in a file, and its column of ids; or a matrix, and None."""
    refuse_without_polars()
    path = Path(path)
    if is_scipy_matrix(path):
        from spherec.data.read import scipy_matrix

        return scipy_matrix.read_scipy_matrix(path).tocsr(), None
    if _is_array(path):
        with reading_file(path, damage=Exception, remedy="save it again with numpy.save, as plain numbers"):
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)  # a forged shape takes no memory
            return np.ascontiguousarray(mapped), None
    return read_item_table(path, item)


def read_item_table(path: str | PathLike[str], item: str | None = None) -> "tuple[pl.DataFrame, str]":
    """Return a table with a row for each item, and its column of ids, recognised as in `read_names`."""
    import polars as pl

    from spherec.data.read import delimited, json_lines, parquet

    path = Path(path)
    reading, column, _ = recognise_item_table(path, Reading(), item, needs_name=False, options=_OPTIONS)
    if reading.format == "parquet":
        with parquet.open_parquet(path, (column,), _OPTIONS) as table:
            return table.collect(), column
    if reading.format == "json-lines":
        return json_lines.read_json_frame(path, column, reading), column
    every = {name: name for name in delimited.find_table(path, reading, [column], _OPTIONS).names}
    return pl.concat([rows.frame for rows in delimited.read_rows(path, reading, every, options=_OPTIONS)]), column


def list_columns(path: Path) -> list[str]:
    """Return the names of the columns of a table of items; none for a matrix."""
    return [] if is_scipy_matrix(path) or _is_array(path) else list_item_columns(path)


def _is_array(path: Path) -> bool:
    refuse_unreadable(path)
    with path.open("rb") as file:
        return file.read(6) == b"\x93NUMPY"
