"""Files of item features: tables of items, lists of words or tags, matrices. Importing this brings no polars."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from spherec.data.archive import is_archive, is_scipy_archive, read_array
from spherec.data.feature_columns import CountsColumn, Kind
from spherec.data.features import Features
from spherec.data.read.formats import FORMATS, detect_format, refuse_without_polars
from spherec.data.read.names import list_keys, read_item_ids, recognise_item_table
from spherec.data.read.options import Reading
from spherec.errors import ArgumentError, DataError, quote

if TYPE_CHECKING:
    import polars as pl

FeatureFormat = Literal[
    "auto", "delimited", "json-lines", "parquet", "word-counts", "tag-items", "item-tags", "scipy", "npy"
]
"""Format of a file of item features; "auto" goes by its content."""

_OPTIONS = "item= (--features-id-column) names the column of item ids, header= all columns if the first line has none"
_MAGIC = b"\x93NUMPY"


def read_features(
    path: str | PathLike[str],
    *,
    item: str | None = None,
    kinds: Mapping[str, Kind] | None = None,
    format: FeatureFormat = "auto",
    header: Sequence[str] | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
    items: str | PathLike[str] | Iterable[Hashable] | None = None,
    like: Features | None = None,
    dims: int = 300,
    min_items: int = 2,
    seed: int = 0,
    max_unpacked: float | None = None,
) -> Features:
    """Read features of items from a file, and fit their transformation; or use one that was fitted before.

    Args:
        path: A table (CSV, TSV or JSON lines, plain or gzipped, or Parquet) with a row for each item; CiteULike's
            mult.dat, tag-item.dat or item-tag.dat; a sparse matrix that scipy saved; a dense one that NumPy saved
            (.npy); or a file that `Features.save` wrote.
        item: The column with the external ids of items; by default recognised, as in `read_names`.
        kinds: The kinds of a table's columns; see `Features.from_frame`.
        format: "auto" goes by the file's content. Of lists of numbers only the name tells whether they are of tags or
            of items.
        header: The names of all columns, for delimited text that has none in its first line.
        separator: The separator of columns; tab, comma, semicolon, | and :: are recognised by default.
        encoding: The encoding of a text file.
        items: The ids of a matrix's rows, or a file with them; by default their positions.
        like: Features with a transformation that was fitted: the items of this file go through the same. What it does
            not know is ignored, and counted in `left_out`.
        dims: The largest number of numbers that a column of categories, tags or words gives.
        min_items: Words and tags that fewer items have are left out; such categories share one place.
        seed: The seed of the truncated SVD.
        max_unpacked: The largest unpacked size in GB; by default 200 times the size of the file.
    """
    if format not in get_args(FeatureFormat):
        raise ArgumentError(f"format must be one of {', '.join(get_args(FeatureFormat))}, got {quote(format)}")
    if not isinstance(like, Features | None):
        raise ArgumentError(f"like must be Features, got {quote(like)}; make them with read_features")
    path = Path(path)
    if format == "auto" and is_archive(path):
        features = Features.load(path, max_unpacked=max_unpacked)
        if like is not None and not features.transformation.is_same(like.transformation):
            raise DataError(
                f"{path} has features of another transformation; give the table itself, or what transform(…) returned"
            )
        return features
    if like is not None and len(like.transformation.sources) != 1:
        raise ArgumentError("like must be Features of one source; of joined ones give a part: features.split()[0]")
    refuse_without_polars()
    reading = Reading(
        header=tuple(header) if header else None, separator=separator, encoding=encoding, max_unpacked=max_unpacked
    )
    known = _find_format(path, reading) if format == "auto" else format
    name = path.name.partition(".")[0]
    try:
        if known in ("delimited", "json-lines", "parquet"):
            if items is not None:
                raise ArgumentError(f"a table has ids in a column; leave out items, and name it: {_OPTIONS}")
            frame, column = _read_table(path, known, item, reading)
            if like is None:
                return Features.from_frame(frame, item=column, kinds=kinds, dims=dims, min_items=min_items, seed=seed)
            return like.transform(frame.rename({column: like.transformation.sources[0].item or column}))
        if item is not None or kinds is not None:
            raise ArgumentError(f"{path} is read as {known}, which has no columns; leave out item and kinds")
        matrix, ids = _read_matrix(path, known, reading)
        ids = ids if items is None else _list_ids(items)
        if like is None:
            return Features.from_matrix(matrix, ids, name=name, dims=dims, min_items=min_items, seed=seed)
        matrix, unknown = _fit_width(matrix, like)
        features = like.transform(matrix, item_ids=ids)
        beyond = ((f"{name}: unknown words", unknown),) if unknown else ()
        return replace(features, left_out=(*features.left_out, *beyond), unknown=(*features.unknown, *beyond))
    except DataError as error:
        raise error if str(error).startswith(str(path)) else DataError(f"{path}: {error}") from None


def read_item_columns(path: str | PathLike[str]) -> tuple[list[str], dict[str, list[Any]]]:
    """Read a table of items as it is: the ids (n,) as text, and the cells (n,) of all other columns, None where empty.

    CSV, TSV and JSON lines, plain or gzipped, and Parquet; the column of ids is recognised, as in `read_names`.
    """
    refuse_without_polars()
    path = Path(path)
    known = _find_format(path, Reading())
    if known not in ("delimited", "json-lines", "parquet"):
        raise DataError(f"{path} is read as {known}, which has no columns; give a table with a row for each item")
    frame, column = _read_table(path, known, None, Reading())
    frame = frame.drop_nulls(column)
    cells = {name: [None if cell == "" else cell for cell in frame[name].to_list()] for name in frame.columns}
    return [str(one) for one in cells.pop(column)], cells


def list_columns(path: str | PathLike[str]) -> list[str]:
    """Return the names of the columns of a table of items; none for lists, matrices and files of `Features.save`."""
    from spherec.data.read import delimited, parquet, streaming

    path = Path(path)
    known = "features" if is_archive(path) else _find_format(path, Reading())
    if known == "parquet":
        return parquet.column_names(path)
    if known not in ("delimited", "json-lines"):
        return []
    lines = streaming.first_lines(path)
    if known == "json-lines":
        return list_keys(lines)
    first = lines[0] if lines else ""
    return max((delimited.split_fields(first, separator, Reading()) for separator in delimited.SEPARATORS), key=len)


def to_item_frame(item: str, ids: Sequence[Hashable], rows: Sequence[Mapping[str, Any]]) -> "pl.DataFrame":
    """Return a table of items with the ids (n,) in the column `item`; a cell that a row does not have is empty."""
    refuse_without_polars()
    import polars as pl

    names = dict.fromkeys(name for row in rows for name in row if name != item)
    columns = {item: list(ids)} | {name: [row.get(name) for row in rows] for name in names}
    try:
        return pl.DataFrame(columns)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        raise DataError(f"the features cannot be made a table ({error}); give values of one kind in a column") from None


def _find_format(path: Path, reading: Reading) -> FeatureFormat:
    """Return the format that the content of a file shows."""
    found = detect_format(path)
    if found in ("parquet", "json-lines"):
        return "parquet" if found == "parquet" else "json-lines"
    if is_scipy_archive(path):
        return "scipy"
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) == _MAGIC:
            return "npy"
    from spherec.data.read import number_lists, streaming

    lines = streaming.first_lines(path, encoding=reading.encoding)
    if lines and lines[0].lstrip().startswith("{"):
        return "json-lines"
    if reading.header or reading.separator:
        return "delimited"
    return number_lists.recognise_lists(path, [line.split() for line in lines[:100]]) or "delimited"


# --- Tables ----------------------------------------------------------------------------------------------------------


def _read_table(path: Path, format: FeatureFormat, item: str | None, reading: Reading) -> "tuple[pl.DataFrame, str]":
    """Return all columns of a table, and the name of the column of item ids."""
    from spherec.data.read import delimited, json_lines, parquet

    table = recognise_item_table(path, reading, item, _OPTIONS)
    if table is None:
        known = FORMATS["book-crossing"].known or Reading()
        table = replace(known, max_unpacked=reading.max_unpacked), "ISBN"
    reading, column = table
    if format == "parquet":
        return parquet.read_parquet_frame(path, column, _OPTIONS), column
    if format == "json-lines":
        return json_lines.read_json_frame(path, column, reading), column
    first = next(iter(delimited.read_tables(path, {column: column}, reading, options=_OPTIONS)), None)
    if first is None:
        raise DataError(f"{path} has no rows; give a table with items")
    every = {name: name for name in first.layout.names}
    return delimited.join_tables(delimited.read_tables(path, every, reading, options=_OPTIONS)), column


# --- Matrices ---------------------------------------------------------------------------------------------------------


def _read_matrix(path: Path, format: FeatureFormat, reading: Reading) -> tuple[Any, list[str] | None]:
    """Return a matrix with a row for each item, and the ids of the rows; None for their positions."""
    match format:
        case "scipy":
            from spherec.data.read import scipy_matrix

            return scipy_matrix.read_scipy_matrix(path, reading), None
        case "word-counts" | "tag-items" | "item-tags":
            from spherec.data.read import number_lists

            return number_lists.read_number_lists(path, format, reading)
        case _:
            return read_array(path, remedy="save it again with numpy.save"), None


def _fit_width(matrix: Any, like: Features) -> tuple[Any, int]:
    """Return a sparse matrix as wide as the fitted one, and the number of entries that lay beyond."""
    source = like.transformation.sources[0]
    column = source.columns[0]
    if source.item is not None or not isinstance(column, CountsColumn) or not isinstance(matrix, sp.csr_array):
        return matrix, 0
    inside = matrix.indices < column.n_columns
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    entries = matrix.data[inside], (rows[inside], matrix.indices[inside])
    return sp.csr_array(entries, shape=(matrix.shape[0], column.n_columns)), int((~inside).sum())


def _list_ids(items: str | PathLike[str] | Iterable[Hashable]) -> list[Any]:
    return list(read_item_ids(items) if isinstance(items, str | PathLike) else items)
