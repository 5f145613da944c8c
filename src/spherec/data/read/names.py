"""Item tables next to the events: names of items, and which items there are. Importing this brings no polars."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path

from spherec.data.container import kind_of
from spherec.data.read.book_crossing import read_book_crossing_names
from spherec.data.read.formats import FORMATS, detect_format, reader_of, refuse_without_polars
from spherec.data.read.options import Paths, Reading, list_files
from spherec.data.read.reading import recognise
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
    names = {external: text for external, text in _read_texts(path, columns, reading) if external and text}
    if not names:
        shown = " and ".join(map(repr, columns))
        raise DataError(f"{path} has no names: columns {shown} are empty; name the right ones")
    return names


def read_names_inside(path: Paths, reading: Reading, name: str) -> dict[str, str]:
    """Read item names from a column of the files of events themselves, next to the column of items that they have."""
    refuse_without_polars()
    names: dict[str, str] = {}
    for file in list_files(path):
        if kind_of(file) is not None:
            raise ArgumentError(f"{file} is prepared, with the names that it has; leave out name= (--name-column)")
        with suppress(EmptyFileError):  # whoever reads the events says so
            found = recognise(file, replace(reading, report=None, progress=None))
            if FORMATS[found.format].module not in ("delimited", "json_lines", "parquet"):
                raise DataError(f"{file}: {found.format} has no columns, and none of names; give a table of names")
            texts = _read_texts(file, [found.columns.item, name], found, "--name-column names the column of item names")
            names |= {external: text for external, text in texts if external and text}
    return names


def read_item_ids(path: str | PathLike[str]) -> Iterable[str]:
    """Read the external ids of all items, as strings, from a file.

    It may be a table of names (see `read_names`), a table with a column of items, a file with one id a line, or
    CiteULike's mult.dat, where line k is item k.
    """
    refuse_without_polars()
    from spherec.data.read import adjacency, recognition, streaming

    path = Path(path)
    if detect_format(path) == "delimited":
        lines = streaming.first_lines(path)
        words = [line.split() for line in lines[:100]]
        is_table = any(mark in line for line in lines[:100] for mark in "\t,;|")
        if words and not is_table and all(adjacency.WORD_COUNT.fullmatch(word) for row in words for word in row[1:]):
            texts = (line for block in streaming.read_blocks(path, Reading()) for line in block.lines)
            if any(len(row) > 1 for row in words):
                return [str(number) for number, _ in enumerate(texts)]
            ids = [text.strip() for text in texts if text.strip()]
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
    from spherec.data.read import recognition

    is_plain = id is None and name is None and not reading.header and not reading.separator
    reading, candidates = _list_columns(path, reading, is_plain=is_plain)
    if id is not None and (name is not None or not needs_name):
        return reading, id, name or ""  # the reader names what is missing
    for columns in candidates:
        ids = [id] if id in columns else _id_columns(columns) if id is None else []
        names = [name] if name in columns else recognition.find_columns(columns, _NAME_NAMES) if name is None else []
        names = [one for one in names if one not in ids]
        if len(ids) == 1 and (len(names) == 1 or not needs_name):
            return reading, str(ids[0]), str(names[0]) if names else ""
    shown = ", ".join(repr(one[:30]) for one in max(candidates, key=len)[:12])
    wanted = "the id and the name" if needs_name else "the id"
    raise DataError(f"{path}: none of its columns ({shown}) is plainly {wanted} of items; {options}")


def list_item_columns(path: Path) -> list[str]:
    """Return the names of the columns of an item table."""
    return max(_list_columns(path, Reading(), is_plain=False)[1], key=len)


def _list_columns(path: Path, reading: Reading, *, is_plain: bool) -> tuple[Reading, list[list[str]]]:
    """Return how to read an item table, and its columns under each separator; `is_plain`: the caller names nothing."""
    from spherec.data.read import delimited, parquet, recognition, streaming

    reading = replace(reading, format=detect_format(path))
    if reading.format == "parquet":
        return reading, [parquet.column_names(path)]
    lines = streaming.first_lines(path, encoding=reading.encoding)
    first = lines[0] if lines else ""
    if reading.format == "json-lines" or re.match(r'\s*\{\s*"', first):
        keys = {key: None for content in recognition.read_objects(lines) for key in content}
        return replace(reading, format="json-lines"), [list(keys)]
    if is_plain and first.startswith(_BOOKS):
        reading = FORMATS["book-crossing"].layouts[0].apply(reading)
    for separator, pattern in _HEADLESS.items():
        if is_plain and re.fullmatch(pattern, first):
            header = ("id", "name", *(str(column) for column in range(2, len(first.split(separator)))))
            encoding = reading.encoding if _can_read(path, reading) else "latin-1"
            reading = replace(reading, header=header, separator=separator, quotes=False, encoding=encoding)
    return reading, [table.names for table in delimited.list_tables(path, reading)]


def _can_read(path: Path, reading: Reading) -> bool:
    """Return whether a text has its encoding. For small files: it is read once for this alone."""
    from spherec.data.read import streaming

    try:
        return all(True for _ in streaming.read_blocks(path, reading))
    except DataError:
        return False


def _read_texts(
    path: Path, columns: Sequence[str], reading: Reading, options: str = _OPTIONS
) -> Iterator[tuple[str | None, ...]]:
    """Yield the cells of these columns as texts, row by row; `options` say in errors how columns are named."""
    import polars as pl

    roles = {f"column {place}": name for place, name in enumerate(columns)}
    for rows in reader_of(reading.format)(path, reading, roles, options=options):  # type: ignore[call-arg]
        yield from rows.frame.cast(pl.String).iter_rows()


def _id_columns(columns: Sequence[str]) -> list[str]:
    from spherec.data.read import recognition

    remapped = [one for one in columns if one == "remap_id"]  # LightGCN: org_id remap_id
    return remapped or recognition.item_column(columns) or recognition.find_columns(columns, ({"id"},))
