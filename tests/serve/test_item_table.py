"""Columns of items: cells with one value, several or none, in tables of any format."""

import json

import polars as pl
import pytest

from spherec.data.ids import IdMap
from spherec.errors import ArgumentError, DataError
from spherec.serve.item_table import ItemTable

IDS = IdMap(["a", "b", "c", "d"])
ROWS = [
    {"id": "b", "tags": ["x", "y"], "year": 1998, "price": 2.0},
    {"id": "a", "tags": ["y"], "year": None, "price": 2.5},
    {"id": "z", "tags": ["x"], "year": 1998, "price": 1.0},
    {"id": "d", "tags": [], "year": 1999, "price": 2.0},
]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return ItemTable.read(path, IDS)


@pytest.mark.parametrize(
    ("wanted", "items"),
    [
        ({"tags": "y"}, [0, 1]),
        ({"tags": ["x", "y"], "year": 1998}, [1]),
        ({"year": ["1998", 1999]}, [1, 3]),
        ({"price": 2}, [1, 3]),
        ({"price": "2.5"}, [0]),
        ({"year": []}, []),
        ({"tags": "nothing"}, []),
    ],
)
def test_items_are_selected_by_value(table, wanted, items):
    assert table.select(wanted).tolist() == items


def test_cells_and_counts(table):
    assert table.cells_of(1) == {"tags": ["x", "y"], "year": 1998, "price": 2.0}
    assert table.cells_of(2) == {}
    assert table.distinct == {"tags": 2, "year": 2, "price": 2}


def test_what_is_missing_is_named(table, tmp_path):
    with pytest.raises(ArgumentError, match=r"'yaer'.*'tags', 'year', 'price'.*'year'"):
        table.select({"yaer": 1998})
    with pytest.raises(ArgumentError, match="--items"):
        ItemTable({}).select({"year": 1998})
    (tmp_path / "other.csv").write_text("id,year\nq,1\n")
    with pytest.raises(DataError, match="none of the model's items"):
        ItemTable.read(tmp_path / "other.csv", IDS)


def test_numbers_that_are_not_finite_are_missing(tmp_path):
    nan, inf = float("nan"), float("inf")
    frame = pl.DataFrame({"id": ["a", "b"], "price": [nan, inf], "sizes": [[1.0, nan], [2.0]]})
    frame.write_parquet(tmp_path / "items.parquet")
    table = ItemTable.read(tmp_path / "items.parquet", IDS)
    assert table.cells_of(0) == {"sizes": [1.0]}
    assert table.distinct == {"price": 0, "sizes": 2}
