"""Answers as records and as data frames."""

import sys

import polars as pl
import pytest

from spherec.errors import MissingPackageError
from spherec.recommender import Recommended, Results

COLUMNS = {
    "user": ["a", "a", "b"],
    "rank": [1, 2, 1],
    "item": [7, 8, 2**63],
    "name": ["seven", None, "nine"],
    "score": [0.5, 0.25, -1.0],
}
LISTS = Results(Recommended, COLUMNS)


def test_records_come_one_by_one():
    assert len(LISTS) == 3
    assert list(LISTS) == [
        Recommended("a", 1, 7, "seven", 0.5),
        Recommended("a", 2, 8, None, 0.25),
        Recommended("b", 1, 2**63, "nine", -1.0),
    ]
    assert LISTS[0].item == 7
    assert LISTS[-1] == Recommended("b", 1, 2**63, "nine", -1.0)
    assert list(LISTS[1:]) == list(LISTS)[1:]
    assert LISTS.as_dicts()[1] == {"user": "a", "rank": 2, "item": 8, "name": None, "score": 0.25}
    assert Results(Recommended, COLUMNS) == LISTS
    assert LISTS[1:] != LISTS
    with pytest.raises(IndexError):
        LISTS[3]


def test_a_look_at_it_is_short():
    many = Results(Recommended, {name: values * 100 for name, values in COLUMNS.items()})
    assert repr(many).startswith("300 Recommended\n  Recommended(user='a', rank=1, item=7")
    assert repr(many).endswith("… 290 more")
    assert len(repr(many).splitlines()) == 12


def test_data_frames():
    frame, pandas = LISTS.to_polars(), LISTS.to_pandas()
    assert frame.to_dict(as_series=False) == COLUMNS
    types = [pl.String, pl.Int64, pl.UInt64, pl.String, pl.Float32]
    assert frame.schema == dict(zip(COLUMNS, types, strict=True))
    assert list(pandas.columns) == list(COLUMNS)
    assert pandas["item"].tolist() == COLUMNS["item"]
    assert pandas["rank"].dtype == "int64"
    assert LISTS[3:].to_polars().shape == LISTS[3:].to_pandas().shape == (0, 5)


@pytest.mark.parametrize(("package", "method"), [("polars", "to_polars"), ("pandas", "to_pandas")])
def test_what_is_not_installed_is_named(package, method, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=f"pip install {package}"):
        getattr(LISTS, method)()
