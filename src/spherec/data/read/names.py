"""Item tables next to the events: names of items, and which items there are. Importing this brings no polars."""

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path

from spherec.data.archive import is_archive
from spherec.data.read.book_crossing import read_book_crossing_names
from spherec.data.read.formats import detect_format, recognise, refuse_without_polars
from spherec.data.read.options import Paths, Reading, list_files
from spherec.errors import ArgumentError, DataError, EmptyFileError

_ID_NAMES = ({"id"},)
_NAME_NAMES = (
    {"name", "title"},
    {"itemname", "itemtitle", "movietitle", "moviename", "booktitle", "artistname", "trackname", "songname"}
    | {"producttitle", "productname", "filmtitle", "gamename", "label", "orgid"},
)
_OPTIONS = (
    "columns are named by id= and name= (--names-id-column, --names-column), or all by header= (--names-header) if the "
    "first line has none"
)
_MOVIES_DAT = r"\d+::[^:].*::.*"
_U_ITEM = r"\d+\|[^|]+\|[^|]*\|[^|]*\|.*"


def read_names(
    path: str | PathLike[str],
    *,
    id: str | None = None,
    name: str | None = None,
    header: Sequence[str] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> dict[str, str]:
    """Read item names by external id, both as strings, from two columns of a file.

    Where an id is repeated, its last name counts. MovieLens' movies.dat, movies.csv and u.item, LightGCN's
    item_list.txt, Book-Crossing's BX-Books.csv, movie_titles.csv of the Netflix Prize and tables with usual names of
    columns are recognised.

    Args:
        path: CSV, TSV and JSON lines, plain or gzipped, or Parquet.
        id: The column with the external ids of items; by default recognised.
        name: The column with their names; by default recognised.
        header: The names of all columns, for delimited text that has none in its first line.
        separator: The separator of columns; tab, comma, semicolon, |, :: and space are recognised by default.
        encoding: The encoding of a text file. By default UTF-8, or what a recognised format has.
    """
    refuse_without_polars()
    path = Path(path)
    reading = Reading(
        header=tuple(header) if header else None,
        separator=separator,
        encoding="utf-8" if encoding is None else encoding,
    )
    if reading == Reading() and id is None and name is None and detect_format(path) == "delimited":
        from spherec.data.read import netflix

        if netflix.is_netflix_titles(path):
            return netflix.read_netflix_names(path)
    table = _recognise_table(path, reading, id, name, encoding)
    if table is None:
        return read_book_crossing_names(path)
    reading, *columns = table
    names = {external: text for external, text in _rows(path, columns, reading) if external and text}
    if not names:
        shown = " and ".join(map(repr, columns))
        raise DataError(f"{path} has no names: columns {shown} are empty; name the right ones")
    return names


def read_names_inside(path: Paths, reading: Reading, name: str) -> dict[str, str]:
    """Read item names from a column of the files of events themselves, next to the column of items that they have."""
    refuse_without_polars()
    names: dict[str, str] = {}
    for file in list_files(path):
        if is_archive(file):
            raise ArgumentError(f"{file} is prepared, with the names that it has; leave out name= (--name-column)")
        with suppress(EmptyFileError):  # whoever reads the events says so
            found = recognise(file, replace(reading, report=None, progress=None))
            if found.format in ("adjacency", "citeulike", "scipy"):
                raise DataError(f"{file}: {found.format} has no columns, and none of names; give a table of names")
            options = "--name-column names the column of item names"
            texts = _rows(file, [found.columns.item, name], found, options=options)
            names |= {external: text for external, text in texts if external and text}
    return names


def read_item_ids(path: str | PathLike[str]) -> Iterable[str]:
    """Read the external ids of all items, as strings, from a file.

    It may be a table of names (see `read_names`), a table with a column of items, a file with one id a line, or
    CiteULike's mult.dat, where line k is item k.
    """
    refuse_without_polars()
    from spherec.data.read import recognition, streaming

    path = Path(path)
    if detect_format(path) not in ("json-lines", "parquet"):
        lines = streaming.first_lines(path)
        words = [line.split() for line in lines[:100]]
        is_table = any(mark in line for line in lines[:100] for mark in "\t,;|")
        if words and not is_table and all(recognition.WORD_COUNT.fullmatch(word) for row in words for word in row[1:]):
            is_id = all(len(row) == 1 for row in words)
            texts = (line for block in streaming.read_text(path, Reading()) for line in _lines(block.text))
            if not is_id:
                return [str(number) for number, _ in enumerate(texts)]
            ids = [text.strip() for text in texts if text.strip()]
            return ids[1:] if recognition.item_column(ids[:1]) else ids
    options = "call it item_id, or give a file with one id a line"
    table = _recognise_table(path, Reading(), None, None, None, needs_name=False, options=options)
    if table is None:
        return read_book_crossing_names(path)
    reading, column, _ = table
    return [external for (external,) in _rows(path, [column], reading) if external]


def _lines(text: bytes) -> list[str]:
    return text.decode().removesuffix("\n").split("\n")


def _rows(
    path: Path, columns: Sequence[str], reading: Reading, options: str = _OPTIONS
) -> Iterable[tuple[str | None, ...]]:
    """Return the cells of these columns, row by row; `options` say in errors how columns are named."""
    from spherec.data.read import delimited, json_lines, parquet

    match reading.format:
        case "json-lines" | "amazon-reviews":
            return json_lines.read_json_texts(path, tuple(columns), reading)
        case "parquet":
            return parquet.read_parquet_texts(path, tuple(columns), options)
        case _:
            tables = delimited.read_tables(path, {name: name for name in columns}, reading, options=options)
            return (row for table in tables for row in table.frame.iter_rows())


def _recognise_table(
    path: Path,
    reading: Reading,
    id: str | None,
    name: str | None,
    encoding: str | None,
    *,
    needs_name: bool = True,
    options: str = _OPTIONS,
) -> tuple[Reading, str, str] | None:
    """Return how to read an item table, its column of ids and that of names ("" if none); None for Book-Crossing.

    `options` say in errors how columns are named.
    """
    from spherec.data.read import delimited, parquet, recognition, streaming

    reading = replace(reading, format=detect_format(path))
    if reading.format == "parquet":
        candidates = [parquet.column_names(path)]
    else:
        lines = streaming.first_lines(path, encoding=reading.encoding)
        first = lines[0] if lines else ""
        is_plain = id is None and name is None and not reading.header and not reading.separator
        if is_plain and first.startswith('"ISBN";"Book-Title";"Book-Author"'):
            return None
        if is_plain and re.fullmatch(_MOVIES_DAT, first):
            return _headless(path, reading, first, "::", encoding), "id", "name"
        if is_plain and re.fullmatch(_U_ITEM, first):
            return _headless(path, reading, first, "|", encoding), "id", "name"
        if reading.format == "json-lines" or re.match(r'\s*\{\s*"', first):
            reading = replace(reading, format="json-lines")
            candidates = [list_keys(lines)]
        elif reading.header:
            candidates = [list(reading.header)]
        else:
            separators = (reading.separator,) if reading.separator else delimited.SEPARATORS
            candidates = [delimited.split_fields(first, separator, reading) for separator in separators]
    if id is not None and (name is not None or not needs_name):
        return reading, id, name or ""  # the reader names what is missing
    for columns in candidates:
        ids = [id] if id in columns else _id_columns(columns) if id is None else []
        names = [name] if name in columns else recognition.find_columns(columns, _NAME_NAMES) if name is None else []
        names = [one for one in names if one not in ids]
        if len(ids) == 1 and (len(names) == 1 or not needs_name):
            return reading, str(ids[0]), str(names[0]) if names else ""
    best = max(candidates, key=len)
    shown = ", ".join(repr(one[:30]) for one in best[:12])
    wanted = "the id and the name" if needs_name else "the id"
    raise DataError(f"{path}: none of its columns ({shown}) is plainly {wanted} of items; {options}")


def recognise_item_table(path: Path, reading: Reading, id: str | None, options: str) -> tuple[Reading, str] | None:
    """Return how to read a table of items, and its column of ids; None for Book-Crossing's BX-Books.csv.

    `options` say in errors how columns are named.
    """
    encoding = None if reading.encoding == "utf-8" else reading.encoding
    table = _recognise_table(path, reading, id, None, encoding, needs_name=False, options=options)
    return None if table is None else table[:2]


def _id_columns(columns: Sequence[str]) -> list[str]:
    from spherec.data.read import recognition

    remapped = [one for one in columns if one == "remap_id"]  # LightGCN: org_id remap_id
    return remapped or recognition.item_column(columns) or recognition.find_columns(columns, _ID_NAMES)


def list_keys(lines: list[str]) -> list[str]:
    """Return the keys of the first objects among lines of JSON."""
    keys: dict[str, None] = {}
    for line in lines[:100]:
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            break
        keys |= dict.fromkeys(content) if isinstance(content, dict) else {}
    return list(keys)


def _headless(path: Path, reading: Reading, first: str, separator: str, encoding: str | None) -> Reading:
    """Return how to read a table of MovieLens that has no header: id, name, and more."""
    from spherec.data.read import streaming

    header = ("id", "name", *(str(column) for column in range(2, len(first.split(separator)))))
    found = encoding or ("utf-8" if streaming.is_utf8(path) else "latin-1")
    return replace(reading, header=header, separator=separator, quotes=False, encoding=found)
