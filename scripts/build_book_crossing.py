"""Build the embedded Book-Crossing cut from the published dump.

    python scripts/build_book_crossing.py FOLDER

FOLDER holds BX-Book-Ratings.csv and BX-Books.csv, plain or gzipped. The same dump always gives the same bytes.
"""

import sys
from pathlib import Path

from spherec.data.readers import read, read_book_crossing_names
from spherec.datasets import BOOK_CROSSING

TARGET = Path(__file__).parents[1] / "src/spherec/datasets/book_crossing.npz"


def main(folder: Path) -> None:
    ratings = next(folder.glob("BX-Book-Ratings.csv*"))
    books = next(folder.glob("BX-Books.csv*"))
    data = read(ratings, format=BOOK_CROSSING.format, cut=BOOK_CROSSING.cut)
    data = data.with_item_names(read_book_crossing_names(books))
    data.save(TARGET, compress=True)
    print(f"{TARGET.name}: {data}, {TARGET.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
