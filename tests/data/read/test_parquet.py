import datetime
import tracemalloc

import numpy as np
import polars as pl
import pytest

from spherec.data.read import parquet, read_events
from spherec.data.read.formats import Reading
from spherec.errors import DataError

DAY = datetime.date(1970, 1, 2)


@pytest.fixture
def save(tmp_path):
    """Write columns to a Parquet file."""

    def save(name="a.parquet", **columns):
        pl.DataFrame(columns).write_parquet(tmp_path / name)
        return tmp_path / name

    return save


@pytest.mark.parametrize("chunk", [1, 2, 1 << 20])
@pytest.mark.parametrize(
    ("ids", "dtype", "expected"),
    [
        ([3, -1, 3], pl.Int64, [3, -1, 3]),
        ([3, 255, 3], pl.UInt8, [3, 255, 3]),
        ([2**64 - 1, 0, 1], pl.UInt64, [2**64 - 1, 0, 1]),
        (["b", "007", "é"], pl.String, ["b", "007", "é"]),
        (["b", "a", "b"], pl.Categorical, ["b", "a", "b"]),
        (["b", "a", "b"], pl.Enum(["b", "a"]), ["b", "a", "b"]),
        ([2.0, 7.0, 2.0], pl.Float64, [2, 7, 2]),
    ],
    ids=lambda one: str(one) if isinstance(one, type) else None,
)
def test_ids_keep_their_type_at_any_chunk_size(save, rows, monkeypatch, chunk, ids, dtype, expected):
    monkeypatch.setattr(parquet, "_ROWS", chunk)
    path = save(user=pl.Series(ids, dtype=dtype), item=[10, 20, 30], note=["x", None, "z"])
    assert rows(path) == list(zip(expected, [10, 20, 30], strict=True))


def test_distinct_integers_take_few_bytes_each(save, monkeypatch):
    monkeypatch.setattr(parquet, "_ROWS", 1 << 14)
    ids = np.random.default_rng(0).permutation(100_000)
    path = save(user=ids, item=ids)
    read_events(path, Reading(limit=1))  # what is imported and kept for good
    tracemalloc.start()
    events = read_events(path, Reading())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(events.user_ids[events.users], ids)
    assert peak < 150 * len(ids)  # Python integers in dicts take 300


@pytest.mark.parametrize("chunk", [1, 2, 1 << 20])
@pytest.mark.parametrize(
    ("users", "shown"),
    [
        ([1, None, 3, None], "None"),
        (["a", None, "c", None], "None"),
        (["a", "", "c", None], "''"),
        (pl.Series(["a", "", "c", None], dtype=pl.Categorical), "''"),
        ([5.0, float("nan"), 15.0, None], "nan"),
    ],
    ids=["int", "string", "empty", "categorical", "float"],
)
def test_rows_without_user_are_refused_with_their_number_or_dropped(save, monkeypatch, chunk, users, shown):
    monkeypatch.setattr(parquet, "_ROWS", chunk)
    path = save(user=users, item=[1, 2, 3, 4])
    with pytest.raises(DataError, match=rf"a\.parquet, row 1: column 'user' is {shown}, .*missing='drop'"):
        read_events(path, Reading())
    events = read_events(path, Reading(missing="drop"))
    assert events.user_ids.tolist() == [users[0], users[2]]
    assert events.steps[0].name == "read, without 2 rows that have no user or item"


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        (pl.Series([DAY]), 86400.0),
        (pl.Series([datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000)], dtype=pl.Datetime("ns")), 1.5),
        (pl.Series([datetime.datetime(1970, 1, 1, 0, 0, 1)], dtype=pl.Datetime("ms")), 1.0),
        (pl.Series([datetime.datetime(1970, 1, 1, 2)]).dt.replace_time_zone("Europe/Berlin"), 3600.0),
        (pl.Series([978300760]), 978300760.0),
        (pl.Series(["1970-01-02"]), 86400.0),
    ],
    ids=["date", "ns", "ms", "zone", "number", "text"],
)
def test_times_are_numbers_or_become_seconds_since_1970(save, rows, times, seconds):
    assert rows(save(user=[1], item=[2], when=times), time="when") == [(1, 2, seconds)]


@pytest.mark.parametrize("chunk", [3, 1 << 20])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), None, "five"], ids=str)
def test_a_bad_rating_is_named_with_its_row_and_progress_counts_rows(save, rows, monkeypatch, chunk, bad):
    monkeypatch.setattr(parquet, "_ROWS", chunk)
    ratings = ["1", "2", "3", "4", bad] if isinstance(bad, str) else [1.0, 2.0, 3.0, 4.0, bad]
    path, seen = save(user=[1] * 5, item=list(range(5)), stars=ratings), []
    with pytest.raises(DataError, match=rf"a\.parquet, row 4: column 'stars' is {bad!r}, which is not a number; "):
        rows(path, value="stars")
    assert len(rows(path, progress=lambda *told: seen.append(told))) == 5
    assert seen == ([(3, 5), (5, 5)] if chunk == 3 else [(5, 5)])


@pytest.mark.parametrize(
    ("role", "cells"),
    [
        *((role, cells) for role in ("user", "item", "value", "time") for cells in ([[1]], [{"a": 1}])),
        ("time", [datetime.time(1, 2)]),
        ("time", [datetime.timedelta(seconds=5)]),
    ],
    ids=str,
)
def test_columns_of_other_types_are_refused_by_name(save, rows, cells, role):
    columns = {"user": [1], "item": [2], "value": [3], "time": [4]} | {role: cells}
    with pytest.raises(DataError, match=rf"a\.parquet.*column '{role}'.*; ") as failure:
        rows(save(**columns), value="value", time="time")
    assert "\n" not in str(failure.value)
    assert "missing='drop'" not in str(failure.value)  # which would not help


@pytest.mark.parametrize("name", ["a[1].parquet", "a*.parquet", "a?.parquet", "50%.pq"])
def test_a_name_is_a_name_not_a_pattern(save, rows, name):
    save("ab.parquet", user=[7], item=[7])
    assert rows(save(name, user=[1], item=[2])) == [(1, 2)]
