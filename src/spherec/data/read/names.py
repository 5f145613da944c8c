"""Item tables next to the events: names of items, and which items there are. Importing this brings no polars."""

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path

from spherec.data.container import kind_of
from spherec.data.read.formats import (
    FORMATS,
    Paths,
    Reading,
    detect_format,
    list_files,
    reader_of,
    refuse_without_polars,
)
from spherec.errors import ArgumentError, DataError, EmptyFileError

_NAME_NAMES = (
    {"name", "title"},
    {"itemname", "itemtitle", "movietitle", "moviename", "booktitle", "artistname", "trackname", "songname"}
    | {"producttitle", "productname", "filmtitle", "gamename", "label", "orgid"},
)
_OPTIONS = (
    "columns are named by id= and name= (--names-id-column, --names-column), or all by header= (--names-header) if the "
    "first line has none"
)
_BOOKS = '"ISBN";"Book-Title";"Book-Author"'
_HEADLESS = {"::": r"\d+::[^:].*::.*", "|": r"\d+\|[^|]+\|[^|]*\|[^|]*\|.*"}  # MovieLens' movies.dat and u.item
_WORD_COUNT = re.compile(r"\d+:\d+(?:\.\d+)?")  # a word and its count, as in CiteULike's mult.dat

# In BX-Books.csv, text beyond ASCII is UTF-8, most of it encoded twice, with bytes 0x80 to 0x9f lost as "?":
_ENCODED_TWICE = re.compile(rb"\xc3\?\xc2([\xa0-\xbf])")  # é came as c3 ? c2 a9
_LOST = re.compile(rb"\xc3\?\xc2\?|[\xc2\xc3]\?")  # characters that cannot be recovered


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
    reading = Reading(header=tuple(header) if header else None, separator=separator, encoding=encoding or "utf-8")
    if reading == Reading() and id is None and name is None and detect_format(path) == "delimited":
        from spherec.data.read import netflix, streaming

        if netflix.is_netflix_titles(path):
            return netflix.read_netflix_names(path)
        if "".join(streaming.first_lines(path)[:1]).startswith(_BOOKS):
            return read_book_crossing_names(path)
    reading, *columns = recognise_item_table(path, reading, id, name)
    names = _by_id(_read_texts(path, columns, reading))
    if not names:
        shown = " and ".join(map(repr, columns))
        raise DataError(f"{path} has no names: columns {shown} are empty; name the right ones")
    return names


def read_book_crossing_names(path: str | PathLike[str]) -> dict[str, str]:
    """Read "Title — Author" by ISBN from BX-Books.csv, and repair its accents where that can be done."""
    refuse_without_polars()
    reading = FORMATS["book-crossing"].layouts[0].apply(Reading(format="book-crossing"))
    rows = _read_texts(Path(path), ["ISBN", "Book-Title", "Book-Author"], reading)
    return {
        isbn: " — ".join(_repair(text) for text in (title, author) if text)
        for isbn, title, author in rows
        if isbn and title
    }


def read_names_inside(path: Paths, reading: Reading, name: str) -> dict[str, str]:
    """Read item names from a column of the files of events themselves, next to the column of items that they have."""
    refuse_without_polars()
    from spherec.data.read.recognition import recognise

    names: dict[str, str] = {}
    for file in list_files(path):
        if kind_of(file) is not None:
            raise ArgumentError(f"{file} is prepared, with the names that it has; leave out name= (--name-column)")
        with suppress(EmptyFileError):  # whoever reads the events says so
            found = recognise(file, replace(reading, report=None, progress=None))
            if FORMATS[found.format].module not in ("delimited", "json_lines", "parquet"):
                raise DataError(f"{file}: {found.format} has no columns, and none of names; give a table of names")
            options = "--name-column names the column of item names"
            names |= _by_id(_read_texts(file, [found.columns.item, name], found, options))
    return names


def read_item_ids(path: str | PathLike[str]) -> Iterable[str]:
    """Read the external ids of all items, as strings, from a file.

    It may be a table of names (see `read_names`), a table with a column of items, a file with one id a line, or
    CiteULike's mult.dat, where line k is item k.
    """
    from spherec.data.read import recognition, streaming

    path = Path(path)
    if detect_format(path) == "delimited":
        words = [line.split() for line in streaming.first_lines(path)[:100]]
        is_table = any(mark in word for row in words for word in row for mark in ",;|")
        if words and not is_table and all(_WORD_COUNT.fullmatch(word) for row in words for word in row[1:]):
            texts = (line.strip() for block in streaming.read_blocks(path, Reading()) for line in block.lines)
            if any(len(row) > 1 for row in words):
                return [str(number) for number, _ in enumerate(texts)]
            ids = list(filter(None, texts))
            return ids[1:] if recognition.item_column(ids[:1]) else ids
    options = "call it item_id, or give a file with one id a line"
    reading, column, _ = recognise_item_table(path, Reading(), needs_name=False, options=options)
    return [external for (external,) in _read_texts(path, [column], reading) if external]


def recognise_item_table(
    path: Path,
    reading: Reading,
    id: str | None = None,
    name: str | None = None,
    *,
    needs_name: bool = True,
    options: str = _OPTIONS,
) -> tuple[Reading, str, str]:
    """Return how to read an item table, its column of ids and that of names ("" if none).

    `options` say in errors how columns are named.
    """
    from spherec.data.read.recognition import find_columns, item_column

    is_plain = id is None and name is None and not reading.header and not reading.separator
    reading, candidates = _list_columns(path, reading, is_plain=is_plain)
    if id is not None and (name is not None or not needs_name):
        return reading, id, name or ""  # the reader names what is missing
    for columns in candidates:
        remapped = [one for one in columns if one == "remap_id"]  # LightGCN: org_id remap_id
        ids = [id] if id else remapped or item_column(columns) or find_columns(columns, ({"id"},))
        names = [name] if name else [one for one in find_columns(columns, _NAME_NAMES) if one not in ids]
        if len(ids) == 1 and (len(names) == 1 or not needs_name) and {*ids, *names} <= set(columns):
            return reading, ids[0], names[0] if names else ""
    shown = ", ".join(repr(one[:30]) for one in max(candidates, key=len)[:12])
    wanted = "the id and the name" if needs_name else "the id"
    raise DataError(f"{path}: none of its columns ({shown}) is plainly {wanted} of items; {options}")


def list_item_columns(path: Path) -> list[str]:
    """Return the names of the columns of an item table."""
    return max(_list_columns(path, Reading(), is_plain=False)[1], key=len)


def _list_columns(path: Path, reading: Reading, *, is_plain: bool) -> tuple[Reading, list[list[str]]]:
    """Return how to read an item table, and its columns under each separator; `is_plain`: the caller names nothing."""
    from spherec.data.read import delimited, json_lines, parquet, streaming

    reading = replace(reading, format=detect_format(path))
    if reading.format == "parquet":
        return reading, [list(parquet.first_cells(path, 0))]
    lines = streaming.first_lines(path, encoding=reading.encoding)
    first = lines[0] if lines else ""
    if reading.format == "json-lines" or re.match(r'\s*\{\s*"', first):
        keys = dict.fromkeys(key for content in json_lines.read_objects(lines) for key in content)
        return replace(reading, format="json-lines"), [list(keys)]
    if is_plain and first.startswith(_BOOKS):
        reading = FORMATS["book-crossing"].layouts[0].apply(reading)
    for separator, pattern in _HEADLESS.items():
        if is_plain and re.fullmatch(pattern, first):
            header = ("id", "name", *(str(column) for column in range(2, len(first.split(separator)))))
            encoding = "latin-1" if any("\ufffd" in line for line in lines) else reading.encoding
            reading = replace(reading, header=header, separator=separator, quotes=False, encoding=encoding)
    return reading, [table.names for table in delimited.list_tables(path, reading)]


def _read_texts(
    path: Path, columns: Sequence[str], reading: Reading, options: str = _OPTIONS
) -> Iterator[tuple[str | None, ...]]:
    """Yield the cells of these columns as texts, row by row; `options` say in errors how columns are named."""
    import polars as pl

    roles = {f"column {place}": name for place, name in enumerate(columns)}
    for rows in reader_of(reading.format)(path, reading, roles, options=options):
        yield from rows.frame.cast(pl.String).iter_rows()


def _by_id(rows: Iterable[tuple[str | None, ...]]) -> dict[str, str]:
    return {external: text for external, text in rows if external and text}


def _repair(text: str) -> str:
    raw = _LOST.sub("\ufffd".encode(), _ENCODED_TWICE.sub(b"\xc3\\1", text.encode("latin-1")))
    with suppress(UnicodeDecodeError):
        text = raw.decode()
    return html.unescape(text).strip()
