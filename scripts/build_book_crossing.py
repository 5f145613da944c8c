"""Build the embedded Book-Crossing cut from the published dump.

    python scripts/build_book_crossing.py FOLDER

FOLDER holds BX-Book-Ratings.csv and BX-Books.csv, plain or gzipped.
"""

import sys
from pathlib import Path

from spherec.data.read import read, read_book_crossing_names
from spherec.datasets import BOOK_CROSSING

TARGET = Path(__file__).parents[1] / "src/spherec/datasets/book_crossing.safetensors.gz"


def main(folder: Path) -> None:
    ratings, books = (_only(folder, name) for name in ("BX-Book-Ratings.csv", "BX-Books.csv"))
    data = read(ratings, format=BOOK_CROSSING.format, cut=BOOK_CROSSING.cut)
    data = data.with_item_names(read_book_crossing_names(books))
    data.save(TARGET, compress=True)
    print(f"{TARGET.name}: {data}, {TARGET.stat().st_size / 1e6:.1f} MB")


def _only(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    sys.exit(f"{folder} has neither {name} nor {name}.gz; unpack the published dump there")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
