"""Tables of items: their names, their ids, their features. Importing this brings no polars."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from spherec.data.feature_columns import Kind
from spherec.data.features import Features
from spherec.data.frames import list_entries
from spherec.data.input_files import reading_file, refuse_unreadable
from spherec.data.read.formats import (
    FORMATS,
    FilePlan,
    Reading,
    is_parquet,
    reader_of,
    refuse_without_polars,
)
from spherec.errors import DataError, EmptyFileError

if TYPE_CHECKING:
    import polars as pl

_NAME_NAMES = (
    {"name", "title"},
    {"itemname", "itemtitle", "movietitle", "moviename", "booktitle", "artistname", "trackname", "songname"}
    | {"producttitle", "productname", "filmtitle", "gamename", "label", "orgid"},
)
# How columns are named, for errors about each kind of table:
_NAMES = (
    "columns are named by id= and name= (--names-id-column, --names-column), or all by header= (--names-header) if the "
    "first line has none"
)
_FEATURES = (
    "item= (--feature-kind NAME=id) names the column of item ids; for another layout, read the table yourself and give "
    "Features.from_frame(frame, item=…)"
)
_BOOKS = '"ISBN";"Book-Title";"Book-Author"'
_HEADLESS = {"::": r"\d+::[^:].*::.*", "|": r"\d+\|[^|]+\|[^|]*\|[^|]*\|.*"}  # MovieLens' movies.dat and u.item

_LONGEST = 2**31 - 1  # rows or columns of a matrix
_PLAIN = Reading()


def read_names(
    path: str | PathLike[str],
    *,
    id: str | None = None,
    name: str | None = None,
    header: Sequence[str] | None = None,
    encoding: str | None = None,
) -> dict[str, str]:
    """Read item names by external id, both as strings, from two columns of a file.

    Where an id is repeated, its last name counts. MovieLens' movies.dat, movies.csv and u.item, LightGCN's
    item_list.txt, Book-Crossing's BX-Books.csv and tables with usual names of columns are recognised.

    Args:
        path: CSV, TSV and JSON lines, plain or gzipped, or Parquet.
        id: The column with the external ids of items; by default recognised.
        name: The column with their names; by default recognised.
        header: The names of all columns, for delimited text that has none in its first line.
        encoding: The encoding of a text file. By default UTF-8, or what a recognised format has.
    """
    refuse_without_polars()
    import polars as pl

    path = Path(path)
    plan = _recognise(path, _NAMES, Reading(header=header, encoding=encoding or "utf-8"), id, name)
    tables = (rows.frame.cast(pl.String).iter_rows() for rows in reader_of(plan.format)(path, plan))
    names = {external: text for table in tables for external, text in table if external and text}
    if not names:
        shown = " and ".join(map(repr, plan.roles.values()))
        raise DataError(f"{path} has no names: columns {shown} are empty; name the right ones")
    return names


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
    if not (kind := _matrix_kind(path)):
        return read_item_table(path, item)
    with reading_file(path, "save it again with scipy.sparse.save_npz, or numpy.save as plain numbers"):
        if kind == "dense":
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)  # a forged shape takes no memory
            return np.ascontiguousarray(mapped), None
        matrix = sp.load_npz(path)
        if max(matrix.shape) > _LONGEST:
            raise ValueError(f"{matrix.shape} is too large")
        return list_entries(matrix).tocsr(), None


def read_item_table(path: str | PathLike[str], item: str | None = None) -> "tuple[pl.DataFrame, str]":
    """Return a table with a row for each item, and its column of ids, recognised as in `read_names`."""
    import polars as pl

    from spherec.data.read.json_lines import read_json_frame

    path = Path(path)
    plan = _recognise(path, _FEATURES, id=item)
    column = plan.roles["id"]
    if plan.format == "json-lines":
        return read_json_frame(path, column, plan), column
    names = next((names for names in _list_columns(path, plan)[1] if column in names), [column])
    every = replace(plan, columns={name: name for name in names})
    frames = [rows.frame for rows in reader_of(plan.format)(path, every)]
    if not frames:
        raise EmptyFileError(f"{path} has no rows; give a table with a row for each item")
    return pl.concat(frames), column


def list_columns(path: Path) -> list[str]:
    """Return the names of the columns of a table of items; none for a matrix."""
    return [] if _matrix_kind(path) else max(_list_columns(path, _PLAIN)[1], key=len)


def _matrix_kind(path: Path) -> str:
    """Return "sparse" or "dense" for a file that scipy or NumPy saved, and an empty text for a table."""
    refuse_unreadable(path)
    with path.open("rb") as file:
        return {b"PK\x03\x04": "sparse", b"\x93NUM": "dense"}.get(file.read(4), "")


def _recognise(
    path: Path, options: str, reading: Reading = _PLAIN, id: str | None = None, name: str | None = None
) -> FilePlan:
    """Return how to read the column of ids of an item table, and that of names if the options are those of names."""
    from spherec.data.read.recognition import find_columns, item_column

    needs_name = options == _NAMES
    plan, candidates = _list_columns(path, reading, may_lack_header=id is None and name is None)
    given = {role: column for role, column in (("id", id), ("name", name)) if column}
    if len(given) == 1 + needs_name:  # the reader says what is missing
        return replace(plan, columns=given, options=options)
    for columns in candidates:
        remapped = [one for one in columns if one == "remap_id"]  # LightGCN: org_id remap_id
        ids = [id] if id else remapped or item_column(columns) or find_columns(columns, ({"id"},))
        names = [name] if name else [one for one in find_columns(columns, _NAME_NAMES) if one not in ids]
        found = {"id": ids, "name": names} if needs_name else {"id": ids}
        chosen = {role: hits[0] for role, hits in found.items() if len(hits) == 1}
        if chosen.keys() == found.keys() and set(chosen.values()) <= set(columns):
            return replace(plan, columns=chosen, options=options)
    shown = ", ".join(repr(one[:30]) for one in max(candidates, key=len)[:12])
    wanted = "the id and the name" if needs_name else "the id"
    raise DataError(f"{path}: none of its columns ({shown}) is plainly {wanted} of items; {options}")


def _list_columns(path: Path, reading: Reading, *, may_lack_header: bool = False) -> tuple[FilePlan, list[list[str]]]:
    """Return how to read an item table, and its columns under each separator."""
    from spherec.data.read import delimited, json_lines, parquet, streaming

    plan = FilePlan(**{**vars(reading), "format": "delimited"})
    if is_parquet(path):
        return replace(plan, format="parquet"), [list(parquet.first_cells(path, 0))]
    lines = streaming.first_lines(path, encoding=plan.encoding)
    if json_lines.looks_like_json(lines):
        keys = dict.fromkeys(key for content in json_lines.read_objects(lines) for key in content)
        return replace(plan, format="json-lines"), [list(keys)]
    if lines and lines[0].startswith(_BOOKS):
        plan = FORMATS["book-crossing"].layouts[0].apply(plan)
    first = lines[0] if lines and may_lack_header and plan.is_plain else ""
    for separator, pattern in _HEADLESS.items():
        if re.fullmatch(pattern, first):
            header = ("id", "name", *(str(column) for column in range(2, len(first.split(separator)))))
            encoding = "latin-1" if any("\ufffd" in line for line in lines) else plan.encoding
            plan = replace(plan, header=header, separator=separator, quotes=False, encoding=encoding)
    return plan, [table.names for table in delimited.list_tables(path, plan)]
