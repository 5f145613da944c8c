from datetime import date
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.data.ids import (
    IdMap,
    decode_ids,
    decode_names,
    encode_ids,
    encode_names,
    factorize,
    is_several,
    list_ids,
    spell_like,
)
from spherec.errors import ArgumentError, DataError, UnknownIdError
from tests.oracles import typed
from tests.strategies import ID_KINDS, distinct_ids


@given(distinct_ids())
def test_ids_come_back_as_what_they_were(ids):
    held = IdMap(ids)
    assert typed(list(held)) == typed(ids)
    assert typed([held[index] for index in range(len(held))]) == typed(ids)
    assert typed(held[1:3]) == typed(ids[1:3])
    assert held.index_of(ids).tolist() == list(range(len(ids)))
    assert all(one in held for one in ids)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([np.int64(3), np.int8(4)], [3, 4]),
        ([np.str_("a"), "b"], ["a", "b"]),
        (np.array([3, 4], dtype=np.uint8), [3, 4]),
        (np.array([2**63, 1], dtype=np.uint64), [2**63, 1]),
        (np.array([7.0, 2.0]), [7, 2]),
        ([7, 8.0], [7, 8]),
        (np.array(["a", "bc"]), ["a", "bc"]),
        (pd.Series([2, 3], dtype=object), [2, 3]),
    ],
    ids=repr,
)
def test_values_of_other_types_come_back_as_the_python_values_they_equal(ids, expected):
    assert typed(list(IdMap(ids))) == typed(expected)


REFUSED = [
    ([0.5, 1.0], "0.5"),
    ([True, False], "True"),
    ([b"a"], "bytes"),
    ([(1, "a")], "tuple"),
    ([date(2004, 6, 1)], "2004-06-01"),
    (np.array(["2004-06-01"], dtype="M8[ns]"), "datetime64"),
    (np.array([1], dtype="m8[s]"), "timedelta64"),
    ([UUID(int=1)], "UUID"),
    ([Decimal(1)], "Decimal"),
    ([2**64], str(2**64)),
    ([-(2**63) - 1, 1], str(-(2**63) - 1)),
    ([2**63, -1], str(2**63)),
    ([float(2**53)], "float"),
    (np.array([2.0**53, 1]), "float"),
    (np.array([2.0**24, 1], dtype=np.float32), "float"),
    ([[1], "a"], "list"),
    (["a", 7], "7"),
    ([7, "7"], "'7'"),
]


@pytest.mark.parametrize(("ids", "shown"), REFUSED)
def test_ids_of_other_types_are_refused_with_the_remedy(ids, shown):
    with pytest.raises(DataError, match=rf"user ids must be .*{shown}.*str\(…\)"):
        factorize(ids, "user")
    with pytest.raises(DataError, match=r"str\(…\)"):
        IdMap(ids)


@given(distinct_ids(min_size=1).flatmap(lambda ids: st.lists(st.sampled_from(ids), min_size=1)))
def test_factorize_numbers_the_distinct_ids_in_their_order(column):
    codes, ids = factorize(column, "user")
    assert codes.dtype == np.int32
    assert [ids[code] for code in codes] == column
    assert ids.tolist() == sorted(set(column))


@pytest.mark.parametrize("absent", [None, float("nan"), pd.NA, pd.NaT], ids=repr)
@pytest.mark.parametrize("present", ["a", 1.0], ids=repr)
def test_a_missing_id_is_refused_by_row(absent, present):
    with pytest.raises(DataError, match=r"row 1 has no user \(2 such rows\)"):
        factorize([present, absent, present, absent], "user")
    with pytest.raises(DataError, match="row 1 has no id"):
        IdMap([present, absent])


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.array([[1, 2]]), "one column"),
        (5, "one column, got 5"),
        (np.array([1, 2, 2]), "1 of 3 repeat another"),
        (["a", "b", "a", "a"], "2 of 4 repeat another"),
        (np.array([1.0, np.nan]), "row 1 has no id"),
    ],
)
def test_columns_that_cannot_be_ids_are_refused(ids, message):
    with pytest.raises(DataError, match=message):
        IdMap(ids)


@pytest.mark.parametrize(
    ("held", "asked", "message"),
    [
        (range(10), [3, 77], "^77 is not among the 10 known ids; "),
        (range(10), range(20, 40), r"^20, 21, 22, 23, 24 and 15 more are not among the 10 known ids; "),
        ([3, 276747], "276747", "known ids, which are numbers such as 276747"),
        (["a", "7"], 7, "known ids, which are texts such as '7'"),
        ([5], ["x"], "known ids, which are numbers such as 5"),
    ],
)
def test_unknown_ids_are_named_with_a_hint_at_the_other_kind(held, asked, message):
    with pytest.raises(UnknownIdError, match=message):
        IdMap(held).index_of(asked)


def test_find_takes_ids_character_by_character_and_gives_no_error():
    assert IdMap(["a", "b"]).find(["b", "zoe", 7, None]).tolist() == [1, -1, -1, -1]
    assert IdMap([6, 7]).find([7.0, 10**1000]).tolist() == [1, -1]
    assert IdMap([]).find([]).tolist() == []
    assert IdMap(["\u00e9", "e\u0301"]).find(["e\u0301"]).tolist() == [1]
    assert IdMap(["a", "a\0"]).find(["a\0"]).tolist() == [1]


def test_maps_are_equal_when_their_ids_are_in_order():
    assert IdMap(["a", "b"]) == IdMap(np.array(["a", "b"]))
    for one, other in ((["a", "b"], ["b", "a"]), (["a"], ["a", "b"]), ([1], ["1"]), ([2**63], [-(2**63)])):
        assert IdMap(one) != IdMap(other)
    assert IdMap(["a"]) != ["a"]


def test_a_map_does_not_change_with_the_array_it_was_made_from():
    owner = np.arange(3)
    held = IdMap(owner)
    owner[0] = 99
    assert list(held) == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        held.array[0] = 99


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ("a", "a"),
        (np.int64(7), 7),
        (("a", "b"), ["a", "b"]),
        ({"a"}, ["a"]),
        (np.array([7]), [7]),
        (pd.Series(["a"]), ["a"]),
        (pl.Series([7]), [7]),
        (pa.chunked_array([["a"]]), ["a"]),
        (iter(["a"]), ["a"]),
        (IdMap(["a"]), ["a"]),
    ],
)
def test_one_id_and_several_are_told_apart(ids, expected):
    assert is_several(ids) is isinstance(expected, list)
    assert typed(list_ids(ids)) == typed(expected if isinstance(expected, list) else [expected])


def test_an_index_is_of_one_id_or_several():
    held = IdMap(["a", "b", "c"])
    assert held.index_of("b").tolist() == [1]
    assert held.index_of(["b", "c", "a"]).tolist() == [1, 2, 0]
    assert held.index_of(["x", "b"], unknown="skip").tolist() == [1]
    with pytest.raises(UnknownIdError, match="user 'x' is not among the 3 known ids; ask again"):
        held.index_of(["b", "x"], role="user", remedy="ask again")
    with pytest.raises(ArgumentError, match="got 'drop'"):
        held.index_of("a", unknown="drop")
    for bad in (float(2**53), np.array([1, 2.0**53]), [np.float64(2**53)], True, [[1]]):
        with pytest.raises(ArgumentError, match="must be texts or whole numbers"):
            IdMap([2**53, 1]).index_of(bad, unknown="skip")


def test_ids_are_spelt_as_the_known_ones():
    assert typed(spell_like(["-8", "7", "07", "x"], IdMap([7, -8]).array)) == typed([-8, 7, "07", "x"])
    assert typed(spell_like([7, "8"], IdMap(["7"]).array)) == typed(["7", "8"])


# --- In files --------------------------------------------------------------------------------------------------------


@given(distinct_ids())
def test_ids_survive_as_plain_numbers_with_their_type(ids):
    arrays = encode_ids(IdMap(ids), "x")
    assert all(array.dtype.kind in "iu" and array.ndim == 1 for array in arrays.values())
    assert typed(list(IdMap(decode_ids(arrays, "x")))) == typed(ids)
    assert typed(list(IdMap(decode_ids(arrays, "x", slice(1, 3))))) == typed(ids[1:3])


def test_the_layout_is_the_documented_one():
    texts = encode_ids(IdMap(["é", "", "b"]), "x")
    assert (texts["x.str"].tobytes(), texts["x.offsets"].tolist()) == ("éb".encode(), [0, 2, 2, 3])


@pytest.mark.parametrize(
    ("texts", "offsets"), [(b"ab", []), (b"ab", [1, 2]), (b"ab", [0, 3]), (b"ab", [0, 2, 1, 2]), (b"\xff", [0, 1])]
)
def test_arrays_that_are_not_whole_are_a_value_error(texts, offsets):
    arrays = {"x.str": np.frombuffer(texts, np.uint8), "x.offsets": np.array(offsets, dtype=np.int64)}
    with pytest.raises(ValueError, match=r".+"):
        decode_ids(arrays, "x")


@given(st.lists(st.none() | ID_KINDS["str"].filter(bool)))
def test_names_survive(names):
    assert decode_names(encode_names(names, "x"), "x") == tuple(names)
    assert decode_names({}, "x") is None
