"""Files of item features: tables of items, matrices. Importing this brings no polars."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spherec.data.container import kind_of
from spherec.data.feature_columns import Kind
from spherec.data.features import Features
from spherec.data.input_files import reading_file, refuse_unreadable
from spherec.data.read.formats import refuse_without_polars
from spherec.data.read.names import list_item_columns, recognise_item_table
from spherec.data.read.options import Reading
from spherec.errors import ArgumentError, DataError, quote

if TYPE_CHECKING:
    import polars as pl

_OPTIONS = (
    "item= (--features-id-column) names the column of item ids; for a table of another layout, read it with "
    "polars or pandas and give Features.from_frame(frame, item=…)"
)


def read_features(
    path: str | PathLike[str],
    *,
    item: str | None = None,
    kinds: Mapping[str, Kind] | None = None,
    like: Features | None = None,
    dims: int = 300,
    min_items: int = 2,
    seed: int = 0,
) -> Features:
    """Read features of items from a file, and fit their transformation; or use one that was fitted before.

    Args:
        path: A table (CSV, TSV or JSON lines, plain or gzipped, or Parquet) with a row for each item; a sparse matrix
            that scipy saved, or a dense one that NumPy saved (.npy), whose rows have their positions as ids; or a file
            that `Features.save` wrote.
        item: The column with the external ids of items; by default recognised, as in `read_names`.
        kinds: The kinds of a table's columns; see `Features.from_frame`.
        like: Features of one source: the items of this file go through their transformation. What it does not know is
            ignored, and counted in `left_out`.
        dims: The largest number of numbers that a column of categories, tags or words gives.
        min_items: Words and tags that fewer items have are left out; such categories share one place.
        seed: The seed of the truncated SVD.
    """
    if not isinstance(like, Features | None):
        raise ArgumentError(f"like must be Features, got {quote(like)}; make them with read_features")
    path = Path(path)
    if kind_of(path) is not None:
        features = Features.load(path)
        if like is not None and not features.transformation.is_same(like.transformation):
            raise DataError(f"{path} has features of another transformation; give what features.transform(…) returned")
        return features
    content, column = read_content(path, item, rename=like.transformation.sources[0].item if like else None)
    try:
        if like is not None:
            return like.transform(content)
        if column is not None:
            return Features.from_frame(content, item=column, kinds=kinds, dims=dims, min_items=min_items, seed=seed)
        if item is not None or kinds is not None:
            raise ArgumentError(f"{path} is a matrix, which has no columns; leave out item and kinds")
        name = path.name.partition(".")[0]
        return Features.from_matrix(content, name=name, dims=dims, min_items=min_items, seed=seed)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def read_content(
    path: str | PathLike[str], item: str | None = None, *, rename: str | None = None
) -> tuple[Any, str | None]:
    """Return the table of items in a file, and its column of ids, which gets another name; or a matrix, and None."""
    refuse_without_polars()
    path = Path(path)
    from spherec.data.read import scipy_matrix

    if scipy_matrix.is_scipy_matrix(path):
        return scipy_matrix.read_scipy_matrix(path).tocsr(), None
    if _is_array(path):
        with reading_file(path, damage=Exception, remedy="save it again with numpy.save, as plain numbers"):
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)  # a forged shape takes no memory
            return np.ascontiguousarray(mapped), None
    frame, column = _read_table(path, item)
    return (frame, column) if rename is None else (frame.rename({column: rename}), rename)


def read_item_columns(path: str | PathLike[str]) -> tuple[list[str], dict[str, list[Any]]]:
    """Read a table of items as it is: the ids (n,) as text, and the cells (n,) of all other columns, None where empty.

    CSV, TSV and JSON lines, plain or gzipped, and Parquet; the column of ids is recognised, as in `read_names`.
    """
    frame, column = read_content(path)
    if column is None:
        raise DataError(f"{path} is a matrix, which has no columns; give a table with a row for each item")
    frame = frame.drop_nulls(column)
    cells = {name: [None if cell == "" else cell for cell in frame[name].to_list()] for name in frame.columns}
    return [str(one) for one in cells.pop(column)], cells


def list_columns(path: Path) -> list[str]:
    """Return the names of the columns of a table of items; none for matrices and files of `Features.save`."""
    from spherec.data.read.scipy_matrix import is_scipy_matrix

    is_table = not (kind_of(path) is not None or is_scipy_matrix(path) or _is_array(path))
    return list_item_columns(path) if is_table else []


def _is_array(path: Path) -> bool:
    refuse_unreadable(path)
    with path.open("rb") as file:
        return file.read(6) == b"\x93NUMPY"


def _read_table(path: Path, item: str | None) -> "tuple[pl.DataFrame, str]":
    """Return all columns of a table, and the name of the column of item ids."""
    import polars as pl

    from spherec.data.read import delimited, json_lines, parquet

    reading, column, _ = recognise_item_table(path, Reading(), item, needs_name=False, options=_OPTIONS)
    if reading.format == "parquet":
        with parquet.open_parquet(path, (column,), _OPTIONS) as table:
            return table.collect(), column
    if reading.format == "json-lines":
        return json_lines.read_json_frame(path, column, reading), column
    every = {name: name for name in delimited.find_table(path, reading, [column], _OPTIONS).names}
    frames = [rows.frame for rows in delimited.read_rows(path, reading, every, options=_OPTIONS)]
    if not frames:
        raise DataError(f"{path} has no rows; give a table with items")
    return pl.concat(frames), column
