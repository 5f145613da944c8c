"""Build the embedded Book-Crossing cut from the published dump.

    python scripts/build_book_crossing.py FOLDER

FOLDER holds BX-Book-Ratings.csv and BX-Books.csv, plain or gzipped.
"""

import html
import re
import sys
from contextlib import suppress
from pathlib import Path

from spherec.data.read import read, read_names
from spherec.datasets import BOOK_CROSSING

TARGET = Path(__file__).parents[1] / "src/spherec/datasets/book_crossing.safetensors.gz"

# In BX-Books.csv, text beyond ASCII is UTF-8, most of it encoded twice, with bytes 0x80 to 0x9f lost as "?":
_ENCODED_TWICE = re.compile(rb"\xc3\?\xc2([\xa0-\xbf])")  # é came as c3 ? c2 a9
_LOST = re.compile(rb"\xc3\?\xc2\?|[\xc2\xc3]\?")  # characters that cannot be recovered


def main(folder: Path) -> None:
    ratings, books = (_only(folder, name) for name in ("BX-Book-Ratings.csv", "BX-Books.csv"))
    data = read(ratings, format="book-crossing", cut=BOOK_CROSSING.cut)
    data = data.with_item_names(name_books(books))
    data.save(TARGET, compress=True)
    print(f"{TARGET.name}: {data}, {TARGET.stat().st_size / 1e6:.1f} MB")


def name_books(path: Path) -> dict[str, str]:
    """Return "Title — Author" by ISBN from BX-Books.csv, with accents repaired where that can be done."""
    titles, authors = (read_names(path, id="ISBN", name=column) for column in ("Book-Title", "Book-Author"))
    return {
        isbn: " — ".join(_repair(text) for text in (title, authors.get(isbn)) if text) for isbn, title in titles.items()
    }


def _repair(text: str) -> str:
    raw = _LOST.sub("\ufffd".encode(), _ENCODED_TWICE.sub(b"\xc3\\1", text.encode("latin-1")))
    with suppress(UnicodeDecodeError):
        text = raw.decode()
    return html.unescape(text).strip()


def _only(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    sys.exit(f"{folder} has neither {name} nor {name}.gz; unpack the published dump there")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
