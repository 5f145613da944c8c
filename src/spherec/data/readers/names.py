"""Names of items from a table beside the events."""

import html
import re
from collections.abc import Iterable
from contextlib import suppress
from os import PathLike
from pathlib import Path

import polars as pl

from spherec.data.readers.blocks import read_blocks
from spherec.data.readers.delimited import Dialect, read_tables
from spherec.data.readers.formats import BOOK_CROSSING, format_of
from spherec.data.readers.json_lines import parsed
from spherec.data.readers.parquet import parquet_columns
from spherec.errors import DataError

# In BX-Books.csv, text beyond ASCII is UTF-8, most of it encoded twice, with bytes 0x80 to 0x9f lost as "?":
_ENCODED_TWICE = re.compile(rb"\xc3\?\xc2([\xa0-\xbf])")  # é came as c3 ? c2 a9
_LOST = re.compile(rb"\xc3\?\xc2\?|[\xc2\xc3]\?")  # what cannot be told any more


def read_names(
    path: str | PathLike[str], *, id: str, name: str, separator: str | None = None, encoding: str = "utf-8"
) -> dict[str, str]:
    """Item names by external id, as strings, from two columns of a file; the last where an id comes twice.

    CSV, TSV and JSON lines, plain or gzipped, or Parquet; told apart as `read` does it.
    """
    path = Path(path)
    frames: Iterable[pl.DataFrame]
    match format_of(path):
        case "json-lines":
            schema: dict[str, pl.DataType] = {id: pl.String(), name: pl.String()}
            frames = (parsed(path, block, schema).select(id, name) for block in read_blocks(path, encoding=encoding))
        case "parquet":
            with parquet_columns(path, (id, name)) as table:
                frames = [table.select(pl.col(id, name).cast(pl.String)).collect()]
        case _:
            dialect = Dialect(separator=separator, encoding=encoding)
            frames = (table.frame for table in read_tables(path, {"id": id, "name": name}, dialect))
    names = {one: text for frame in frames for one, text in frame.rows() if one and text}
    if not names:
        raise DataError(f"{path} has no names: columns {id!r} and {name!r} are empty; name the right ones")
    return names


def read_book_crossing_names(path: str | PathLike[str]) -> dict[str, str]:
    """Title — author by ISBN, from BX-Books.csv, with its damaged accents mended where that can be done."""
    roles = {"id": "ISBN", "title": "Book-Title", "author": "Book-Author"}
    names = {}
    for table in read_tables(Path(path), roles, BOOK_CROSSING):
        for isbn, title, author in table.frame.rows():
            if isbn and title:
                names[isbn] = " — ".join(_mended(part) for part in (title, author) if part)
    return names


def _mended(text: str) -> str:
    raw = _LOST.sub("\ufffd".encode(), _ENCODED_TWICE.sub(b"\xc3\\1", text.encode("latin-1")))
    with suppress(UnicodeDecodeError):
        text = raw.decode()
    return html.unescape(text).strip()
