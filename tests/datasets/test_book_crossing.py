"""The embedded data set."""

import runpy
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from spherec import datasets
from spherec.data.statistics import statistics


@pytest.fixture(scope="module")
def data():
    return datasets.book_crossing()


def test_is_the_row_of_table_1(data):
    numbers, paper = statistics(data), datasets.BOOK_CROSSING.paper
    assert (numbers.users, numbers.items, numbers.pairs) == (paper.users, paper.items, paper.pairs)
    assert round(numbers.density_percent, 3) == paper.density_percent
    assert numbers.items_per_user.smallest == 20


def test_is_small_enough_to_ship():
    assert (files("spherec.datasets") / "book_crossing.safetensors.gz").stat().st_size < 8e6


def test_titles_and_authors_are_readable(data):
    names = dict(zip(data.item_ids, data.item_names, strict=True))
    assert names["0345339703"] == "The Fellowship of the Ring (The Lord of the Rings, Part 1) — J.R.R. TOLKIEN"
    known = [name for name in data.item_names if name]
    assert len(known) == 108_535
    assert not [name for name in known if "Ã" in name or "&amp;" in name or '\\"' in name]


def test_every_item_is_in_use(data):
    assert np.all(data.users_per_item > 0)


@pytest.mark.data
def test_can_be_built_again_from_the_raw_dump(data, shared):
    from spherec.data.read import read

    script = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "build_book_crossing.py"))
    folder = shared / "data/book-crossing"
    raw = read(folder / "BX-Book-Ratings.csv.gz", format="book-crossing", cut=datasets.BOOK_CROSSING.cut)
    built = raw.with_item_names(script["name_books"](folder / "BX-Books.csv.gz"))
    assert built == data
    assert built.steps == data.steps
