"""Titles of the Book-Crossing dump, whose accents are damaged."""

import html
import re
from contextlib import suppress
from os import PathLike
from pathlib import Path

from spherec.data.read.formats import FORMATS, refuse_without_polars
from spherec.data.read.options import Reading

# In BX-Books.csv, text beyond ASCII is UTF-8, most of it encoded twice, with bytes 0x80 to 0x9f lost as "?":
_ENCODED_TWICE = re.compile(rb"\xc3\?\xc2([\xa0-\xbf])")  # é came as c3 ? c2 a9
_LOST = re.compile(rb"\xc3\?\xc2\?|[\xc2\xc3]\?")  # characters that cannot be recovered


def read_book_crossing_names(path: str | PathLike[str]) -> dict[str, str]:
    """Read "Title — Author" by ISBN from BX-Books.csv, and repair its accents where that can be done."""
    refuse_without_polars()
    from spherec.data.read import delimited

    (layout,) = FORMATS["book-crossing"].layouts
    roles = {"id": "ISBN", "title": "Book-Title", "author": "Book-Author"}
    names = {}
    for rows in delimited.read_rows(Path(path), layout.apply(Reading()), roles):
        for isbn, title, author in rows.frame.rows():
            if isbn and title:
                names[isbn] = " — ".join(_repair(text) for text in (title, author) if text)
    return names


def _repair(text: str) -> str:
    raw = _LOST.sub("\ufffd".encode(), _ENCODED_TWICE.sub(b"\xc3\\1", text.encode("latin-1")))
    with suppress(UnicodeDecodeError):
        text = raw.decode()
    return html.unescape(text).strip()
