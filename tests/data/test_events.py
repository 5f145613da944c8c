from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.data.events import Events, Step
from spherec.errors import DataError, DuplicatePairsWarning
from tests import oracles

ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.integers(-5, 5), st.integers(0, 3)), min_size=1, max_size=25
)


def events_of(rows, *, with_values=True, with_times=True):
    users, items, values, times = zip(*rows, strict=True)
    return Events.from_columns(
        users, items, values=values if with_values else None, times=times if with_times else None
    )


def as_dict(events):
    """{(user, item): (value, time)} in the order of the events."""
    values = [1] * len(events) if events.values is None else events.values.tolist()
    times = [None] * len(events) if events.times is None else events.times.tolist()
    pairs = zip(events.user_ids[events.users].tolist(), events.item_ids[events.items].tolist(), strict=True)
    return dict(zip(pairs, zip(values, times, strict=True), strict=True))


# --- Repeated pairs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_times", [False, True], ids=["by position", "by time"])
@pytest.mark.parametrize(("with_values", "rule"), [(True, "last"), (True, "sum"), (False, "sum")])
@given(rows=ROWS)
def test_repeated_pairs_are_merged_as_the_rule_says(rows, with_values, with_times, rule):
    events = events_of(rows, with_values=with_values, with_times=with_times)
    merged = events.merge(rule)
    rows = [
        (user, item, value if with_values else None, time if with_times else None) for user, item, value, time in rows
    ]
    expected = oracles.merge(rows, rule)
    assert as_dict(merged) == expected
    assert len(merged) == len(expected)
    assert list(as_dict(merged)) == sorted(expected)  # by user, then item


@pytest.mark.parametrize(("values", "default"), [([5, 3, 4], "last"), (None, "sum")], ids=["values", "none"])
def test_a_rule_that_the_caller_did_not_choose_is_told_at_their_line(values, default):
    events = Events.from_columns([1, 1, 1], ["a", "a", "b"], values=values)
    with pytest.warns(DuplicatePairsWarning, match=f"1 of 3 .*duplicates='{default}'") as told:
        merged = events.merge()
    assert told[0].filename == __file__
    assert as_dict(merged) == as_dict(events.merge(default))  # chosen: no warning, which would be an error here


def test_without_repeats_nothing_is_told_and_no_step_is_noted():
    events = Events.from_columns([1, 1], ["b", "a"], values=[2, 3])
    for rule in (None, "last", "sum"):
        merged = events.merge(rule)
        assert as_dict(merged) == {(1, "a"): (3, None), (1, "b"): (2, None)}
        assert merged.steps == events.steps


@given(ROWS)
def test_merging_twice_changes_nothing_and_neither_does_it_change_its_input(rows):
    events = events_of(rows)
    before = events.users.copy(), events.items.copy(), events.values.copy(), events.times.copy()
    once = events.merge("sum")
    assert as_dict(once.merge()) == as_dict(once)
    for array, copy in zip((events.users, events.items, events.values, events.times), before, strict=True):
        np.testing.assert_array_equal(array, copy)


# --- Columns ---------------------------------------------------------------------------------------------------------

_NOON = [datetime(1970, 1, 2, 12), datetime(1970, 1, 1, 12)]
_EAST = timezone(timedelta(hours=2))


TIMES = {
    "numbers": ([2, 1.5], [2.0, 1.5]),
    "nullable numbers": (pd.array([2, 1], dtype="Int64"), [2.0, 1.0]),
    "NumPy, nanoseconds": (np.array(_NOON, dtype="M8[ns]"), [129600.0, 43200.0]),
    "NumPy, milliseconds": (np.array(["1970-01-01T00:00:00.250", "1969-12-31T23:59:59"], "M8[ms]"), [0.25, -1.0]),
    "NumPy, days": (np.array(["1970-01-02", "1970-01-01"], dtype="M8[D]"), [86400.0, 0.0]),
    "datetimes": (_NOON, [129600.0, 43200.0]),
    "datetimes with zone": ([noon.replace(tzinfo=_EAST) for noon in _NOON], [122400.0, 36000.0]),
    "dates": ([date(1970, 1, 2), date(1970, 1, 1)], [86400.0, 0.0]),
    "pandas": (pd.Series(_NOON), [129600.0, 43200.0]),
    "pandas in UTC": (pd.Series(_NOON).dt.tz_localize("UTC"), [129600.0, 43200.0]),
    "pandas with zone": (pd.Series(_NOON).dt.tz_localize(_EAST), [122400.0, 36000.0]),
    "texts": (["1970-01-01 00:00:01 UTC", "1970-01-01T02:00:01+02:00"], [1.0, 1.0]),
    "texts of days": (["1970-01-02", "3"], [86400.0, 3.0]),
    "polars": (pl.Series(_NOON), [129600.0, 43200.0]),
    "polars in UTC": (pl.Series([noon.replace(tzinfo=UTC) for noon in _NOON]), [129600.0, 43200.0]),
    "polars dates": (pl.Series([date(1970, 1, 2), date(1970, 1, 1)]), [86400.0, 0.0]),
}


@pytest.mark.parametrize(("times", "seconds"), TIMES.values(), ids=TIMES)
def test_numbers_stay_and_dates_become_seconds_since_1970(times, seconds):
    assert Events.from_columns([1, 2], [1, 2], times=times).times.tolist() == seconds


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"users": [1, 2, 3]}, r"\[2, 3\]"),
        ({"values": [1]}, r"\[1, 2\]"),
        ({"times": [1]}, r"\[1, 2\]"),
        ({"users": [], "items": []}, r"\[0\]"),
        ({"items": ["x", 7]}, "item ids .*7"),
        ({"users": [1, None]}, "row 1 has no user"),
        ({"values": [1, np.nan]}, "value .*row 1 has nan"),
        ({"values": [1, np.inf]}, "value .*row 1 has inf"),
        ({"values": [1, None]}, "value"),
        ({"values": ["good", "bad"]}, "value .*good"),
        ({"values": pd.array([1, None], dtype="Int64")}, "value"),
        ({"values": np.ones((2, 2))}, r"value .*\(2, 2\)"),
        ({"times": [[1], [1, 2]]}, "time"),
        ({"times": np.array(["2004-06-01", "NaT"], dtype="M8[D]")}, "time .*row 1 has nan"),
        ({"times": ["noon", "midnight"]}, "time .*noon"),
    ],
    ids=str,
)
def test_columns_that_cannot_be_events_are_refused(columns, named):
    columns = {"users": [1, 2], "items": [1, 2]} | columns
    with pytest.raises(DataError, match=named):
        Events.from_columns(columns.pop("users"), columns.pop("items"), **columns)


# --- The record of steps ---------------------------------------------------------------------------------------------


def test_each_step_records_what_was_left():
    events = Events.from_columns([1, 1, 1, 2], ["a", "a", "b", "a"], values=[1, 2, 3, 4])
    events = events.merge("last").filter(np.array([True, False, True]), "every other")
    assert events.steps == (
        Step("read", users=2, items=2, pairs=4),
        Step("merge repeated pairs (last kept)", users=2, items=2, pairs=3),
        Step("every other", users=2, items=1, pairs=2),
    )
    assert as_dict(events) == {(1, "a"): (2, None), (2, "a"): (4, None)}


@pytest.mark.parametrize("times", [(0, 1.6e12), (1, 1e8, 1e11), (1e8, 4e9), (1e11, 4e12)])
def test_times_that_may_be_in_one_unit_are_taken(times):
    Events.from_columns(["u"] * len(times), range(len(times)), times=times).merge()
