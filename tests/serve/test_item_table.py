"""Columns of items: cells with one value, several or none, in tables of any format."""

import json
import operator
import random
from collections import Counter

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
        ({"price": {"<": 2.5}}, [1, 3]),
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
    for wanted, some in (
        ({"tags": "xx"}, "'xx' in 'tags'.*'y', 'x'"),
        ({"price": {">": 3}}, r"'price' > 3; they go from 2\.0 to 2\.5"),
        ({"tags": {"<": 3}}, "no such values"),
        ({"price": {"<": 3, ">": "1"}}, "all numbers or all texts"),
    ):
        with pytest.raises(ArgumentError, match=some):
            table.select(wanted)
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


# --- Random filters against a slow oracle ----------------------------------------------------------------------------

RNG = random.Random(0)
CELLS = {
    "genre": lambda: RNG.choice([None, "Comedy", "Drama|Comedy", " War | Drama ", ["Drama", "War"], []]),
    "price": lambda: RNG.choice([None, *range(5), *(n / 2 for n in range(9))]),
    "day": lambda: RNG.choice([None, *(f"2026-0{month}-1{day}" for month in (1, 2) for day in range(5))]),
    "stock": lambda: RNG.choice([None, *STOCK]),
}
TRUE, FALSE = [True, "True", "true", 1, "yes"], [False, "False", "false", 0, "no"]
STOCK = TRUE + FALSE
VALUES = {
    "genre": lambda: RNG.choice(["Comedy", "Drama", "War", "Opera"]),
    "price": lambda: RNG.choice([1, 1.0, "1", 2.5, 3, 9]),
    "day": lambda: f"2026-0{RNG.choice((1, 2, 3))}-1{RNG.randrange(5)}",
    "stock": lambda: RNG.choice(STOCK),
}
SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def parts_of(cell):
    """The values of a cell as texts."""
    values = cell if isinstance(cell, list) else [] if cell is None else str(cell).split("|")
    return [value.strip() for value in values]


def is_met(column, cell, wanted):
    if isinstance(wanted, dict):
        numbers = column == "price"
        own = [float(part) if numbers else part for part in parts_of(cell)]
        return any(all(SIGNS[sign](part, bound) for sign, bound in wanted.items()) for part in own)
    if column == "stock":
        return cell is not None and any((cell in TRUE) == (one in TRUE) for one in wanted)
    if column == "price":
        return cell is not None and any(float(one) == cell for one in wanted)
    return any(one in parts_of(cell) for one in wanted)


def condition(column):
    kind = RNG.randrange(3)
    if kind == 0 and column in ("price", "day"):
        bounds = [VALUES[column]() if column == "day" else RNG.uniform(0, 5) for _ in range(2)]
        return {RNG.choice(("<", "<=")): bounds[0]} | RNG.choice([{}, {RNG.choice((">", ">=")): bounds[1]}])
    return VALUES[column]() if kind == 1 else [VALUES[column]() for _ in range(RNG.randint(1, 3))]


def test_1000_random_filters_are_what_a_slow_oracle_says():
    outcomes = Counter()
    for trial in range(1000):
        if trial % 10 == 0:
            cells = {name: [draw() for _ in range(RNG.randint(12, 30))] for name, draw in CELLS.items()}
            length = min(map(len, cells.values()))
            cells = {name: column[:length] for name, column in cells.items()}
            table = ItemTable(cells)
        wanted = {name: condition(name) for name in RNG.sample(list(CELLS), RNG.randint(1, 3))}
        asked = {name: one if isinstance(one, dict | list) else [one] for name, one in wanted.items()}
        nobody = any(
            not any(is_met(name, cell, one) for cell in cells[name])
            for name, conditions in asked.items()
            if name != "stock"  # all may be sold out
            for one in ([conditions] if isinstance(conditions, dict) else [[value] for value in conditions])
        )
        if nobody:
            with pytest.raises(ArgumentError):
                table.select(wanted)
        else:
            met = [
                row for row in range(length) if all(is_met(name, cells[name][row], one) for name, one in asked.items())
            ]
            assert table.select(wanted).tolist() == met, wanted
        outcomes["error" if nobody else bool(met)] += 1
    assert min(outcomes.values()) > 50
    assert len(outcomes) == 3
