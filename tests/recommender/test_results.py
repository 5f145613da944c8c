"""Answers as records and as data frames."""

import sys

import pandas as pd
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
    expected = {**COLUMNS}
    frame = LISTS.to_polars()
    assert frame.to_dict(as_series=False) == expected
    assert frame.schema == {
        "user": pl.String,
        "rank": pl.Int64,
        "item": pl.UInt64,
        "name": pl.String,
        "score": pl.Float32,
    }
    pandas = LISTS.to_pandas()
    assert list(pandas.columns) == list(COLUMNS)
    assert pandas["item"].tolist() == [7, 8, 2**63]
    assert pandas["rank"].dtype == "int64"
    assert isinstance(pandas, pd.DataFrame)


@pytest.mark.parametrize(("package", "method"), [("polars", "to_polars"), ("pandas", "to_pandas")])
def test_what_is_not_installed_is_named(package, method, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=f"pip install {package}"):
        getattr(LISTS, method)()
