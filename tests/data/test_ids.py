from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.data.ids import IdMap, factorize, is_several, list_ids
from spherec.errors import ArgumentError, DataError, SpherecError, UnknownIdError
from tests.oracles import typed
from tests.strategies import distinct_ids


@given(distinct_ids())
def test_ids_of_any_hashable_kind_come_back_as_what_they_were(ids):
    held = IdMap(ids)
    assert typed(list(held)) == typed(ids)
    assert typed([held[index] for index in range(len(held))]) == typed(ids)
    assert typed(held[1:3]) == typed(ids[1:3])
    assert held.index_of(ids).tolist() == list(range(len(ids)))
    assert all(one in held for one in ids)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([np.int64(3), np.int64(4)], [3, 4]),
        ([np.str_("a"), np.int8(1)], ["a", 1]),
        (np.array([3, 4], dtype=np.uint8), [3, 4]),
        (np.array([2**63, 1], dtype=np.uint64), [2**63, 1]),
        (np.array([0.5, 2.0], dtype=np.float32), [0.5, 2.0]),
        (np.array(["a", "bc"]), ["a", "bc"]),
        (np.array([b"a", b"bc"]), [b"a", b"bc"]),
        (np.array([np.int64(1), "a"], dtype=object), [1, "a"]),
        (np.array(["2004-06-01"], dtype="M8[D]"), [date(2004, 6, 1)]),
        (np.array([90], dtype="m8[s]"), [timedelta(seconds=90)]),
    ],
    ids=lambda value: f"{value!r}" if isinstance(value, list) else f"{value.dtype}",
)
def test_numpy_values_come_back_as_the_python_values_they_equal(ids, expected):
    assert typed(list(IdMap(ids))) == typed(expected)


@given(distinct_ids(min_size=1).flatmap(lambda ids: st.lists(st.sampled_from(ids), min_size=1) if ids else st.just([])))
def test_factorize_numbers_the_distinct_ids_in_sorted_order_where_there_is_one(column):
    codes, ids = factorize(column, "user")
    assert codes.dtype == np.int32
    assert [ids[code] for code in codes] == column
    assert len(ids) == len(set(column))
    try:
        expected = sorted(set(column))
    except TypeError:
        expected = list(dict.fromkeys(column))  # the order of their first coming
    if not any(isinstance(one, frozenset | tuple) for one in column):  # sets are ordered by inclusion only
        assert list(ids) == expected


def test_ids_that_python_calls_equal_are_one_id():
    codes, ids = factorize([2, 1, 1.0, True, Decimal(1), "1"], "user")
    assert codes.tolist() == [0, 1, 1, 1, 1, 2]
    assert typed(list(ids)) == typed([2, 1, "1"])
    assert IdMap([1, 2]).index_of([1.0, True, np.int8(2)]).tolist() == [0, 0, 1]
    with pytest.raises(DataError, match="2 of 3 repeat another"):
        IdMap([1, 1.0, True])


ABSENT = [None, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT", "s"), Decimal("nan")]


@pytest.mark.parametrize("absent", ABSENT, ids=repr)
@pytest.mark.parametrize("present", ["a", 1.0, datetime(2004, 6, 1)], ids=repr)
def test_a_missing_id_is_refused_by_row(absent, present):
    with pytest.raises(DataError, match=r"row 1 has no user: .* \(2 such rows\)"):
        factorize([present, absent, present, absent], "user")
    with pytest.raises(DataError, match="row 1 has no id"):
        IdMap([present, absent])


@pytest.mark.parametrize("column", [[1.0, np.nan], np.array(["2004-06-01", "NaT"], dtype="M8[D]")], ids=["f8", "M8"])
def test_a_missing_id_in_an_array_is_refused_by_row(column):
    with pytest.raises(DataError, match="row 1 has no item"):
        factorize(np.asarray(column), "item")


@pytest.mark.parametrize("bad", [[1], {}, {1}, np.array([1, 2])], ids=repr)
def test_unhashable_ids_are_refused(bad):
    with pytest.raises(DataError, match="user ids must be hashable"):
        factorize(["a", bad], "user")
    with pytest.raises(DataError, match="ids must be hashable"):
        IdMap(["a", bad])
    with pytest.raises(SpherecError, match=r"hashable|not among"):
        IdMap(["a", "b"]).index_of([bad])


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.array([[1, 2]]), r"one-dimensional, got shape \(1, 2\)"),
        (np.array(["2004-06-01T00:00:00.000000001"], dtype="M8[ns]"), "finer than a microsecond"),
        (np.array([1, 2, 2]), "1 of 3 repeat another"),
        (["a", "b", "a", "a"], "2 of 4 repeat another"),
        (np.ma.array([1, 2], mask=[True, False]), "some ids are masked"),
        (np.array([5, 2**62], "M8[ms]"), "row 1: ids go beyond the years 1 to 9999"),
        (np.array([5, -(2**30)], "M8[D]"), "row 1: ids go beyond the years 1 to 9999"),
        (np.array([5, 2**62], "m8[ms]"), "row 1: ids go beyond a billion days"),
        (np.array([5, 2], "m8[Y]"), "no fixed length"),
        ([1, 10**5000], "at most 4,096 bits"),
        (["a", -(10**5000)], "at most 4,096 bits"),
    ],
)
def test_arrays_that_cannot_be_ids_are_refused(ids, message):
    with pytest.raises(DataError, match=message):
        IdMap(ids)


def test_unknown_ids_are_named_but_not_all_of_many():
    held = IdMap(range(10))
    with pytest.raises(UnknownIdError, match=r"^77 is not among the 10 known ids$"):
        held.index_of([3, 77])
    with pytest.raises(UnknownIdError, match=r"^20, 21, 22, 23, 24 and 15 more are not among the 10 known ids$"):
        held.index_of(range(20, 40))
    assert 77 not in held


@pytest.mark.parametrize(("held", "asked"), [([276747], "x"), (["276747"], 1), ([date(2004, 6, 1)], 0)])
def test_an_id_of_the_wrong_type_gets_a_hint(held, asked):
    with pytest.raises(UnknownIdError, match=f"type {type(held[0]).__name__}, e.g. .*; got {type(asked).__name__}"):
        IdMap(held).index_of([asked])


@pytest.mark.parametrize(
    ("held", "asked", "told"),
    [
        ([276747], "276747", "the integer 276747"),
        (["276747"], 276747, "the string '276747'"),
        ([-5], " -5", "the integer -5"),
    ],
)
def test_an_id_of_the_same_look_is_named(held, asked, told):
    with pytest.raises(UnknownIdError, match=f"is not among the 1 known ids, but {told} is$"):
        IdMap(held).index_of([asked])


def test_numbers_of_any_size_can_be_asked_for():
    assert IdMap(["1", 10**1000]).find([10**1000]).tolist() == [1]
    with pytest.raises(UnknownIdError, match="a whole number of more than 77 digits is not among"):
        IdMap(["1", "2"]).index_of([10**5000])


def test_ids_that_look_alike_but_differ_in_their_characters_are_different():
    assert IdMap(["\u00e9", "e\u0301"]).index_of(["e\u0301"]).tolist() == [1]


def test_find_gives_no_error():
    held = IdMap(["a", "b", 7])
    assert held.find(["b", "zoe", 7, None]).tolist() == [1, -1, 2, -1]
    assert held.find(np.array([7, 8])).tolist() == [2, -1]
    assert held.find([]).tolist() == []
    with pytest.raises(UnknownIdError, match="hashable"):
        held.find([[1]])


def test_maps_are_equal_when_their_ids_are_in_order_and_type_changes_do_not_hide_a_difference():
    assert IdMap(["a", "b"]) == IdMap(np.array(["a", "b"]))
    assert hash(IdMap([1, 2])) == hash(IdMap([1.0, 2.0]))
    assert IdMap(["a", "b"]) != IdMap(["b", "a"])
    assert IdMap(["a"]) != IdMap(["a", "b"])
    assert IdMap([1]) != IdMap(["1"])
    assert IdMap([2**53 + 1]) != IdMap([float(2**53)])
    assert IdMap([datetime(2004, 6, 1)]) != IdMap([datetime(2004, 6, 1, tzinfo=UTC)])
    assert IdMap(["a"]) != ["a"]


@pytest.mark.parametrize("read_only_view", [False, True])
def test_a_map_does_not_change_with_the_array_it_was_made_from(read_only_view):
    owner = np.arange(3)
    given_ids = owner[:]
    given_ids.setflags(write=not read_only_view)  # as pandas hands out its columns
    held = IdMap(given_ids)
    owner[0] = 99
    assert list(held) == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        held.array[0] = 99


@pytest.mark.parametrize(
    ("ids", "several"),
    [
        ("a", False),
        (7, False),
        (np.int64(7), False),
        ((1, "a"), False),
        (b"a", False),
        (["a"], True),
        ({"a"}, True),
        (range(2), True),
        (np.array([7]), True),
        (pd.Series(["a"]), True),
        (pa.chunked_array([["a"]]), True),
        (iter(["a"]), True),
        (IdMap(["a"]), True),
    ],
)
def test_one_id_and_several_are_told_apart(ids, several):
    assert is_several(ids) is several
    listed = list_ids(ids)
    assert len(listed) == (2 if isinstance(ids, range) else 1)
    assert not isinstance(listed[0], np.generic)


def test_look_up_takes_one_id_or_several():
    held = IdMap(["a", "b", (1, 2)])
    assert held.look_up("b", role="user", remedy="…").tolist() == [1]
    assert held.look_up(["b", (1, 2), "a"], role="user", remedy="…").tolist() == [1, 2, 0]
    assert held.look_up((1, 2), role="user", remedy="…").tolist() == [2]
    assert held.look_up(["x", "b"], role="user", unknown="skip", remedy="…").tolist() == [1]
    with pytest.raises(UnknownIdError, match="user 'x' is not among the 3 known ids; ask again"):
        held.look_up(["b", "x"], role="user", remedy="ask again")
    with pytest.raises(UnknownIdError, match="a tuple is one id, so give several as a list"):
        held.look_up(("a", "b"), role="user", remedy="ask again")
    with pytest.raises(ArgumentError, match="unknown must be 'error' or 'skip', got 'drop'"):
        held.look_up("a", role="user", unknown="drop", remedy="ask again")


def test_texts_stand_for_known_ids_of_any_type():
    assert typed(IdMap([7, 8]).parse(["8", "7"])) == typed([8, 7])
    assert typed(IdMap(["7", 7, "8"]).parse(["7", "8"])) == typed(["7", "8"])
    assert typed(IdMap([7.0, 8.5]).parse(["7", "7.0", "8.5"])) == typed([7.0, 7.0, 8.5])  # as pandas makes of 7 and NaN
    assert IdMap([date(2004, 6, 1)]).parse(["2004-06-01"]) == [date(2004, 6, 1)]
    with pytest.raises(UnknownIdError, match="'9' is not among the 2 known ids"):
        IdMap([7, 8]).parse(["7", "9"])
    assert IdMap([7, 8]).parse(["9", "7"], unknown="skip") == [7]
