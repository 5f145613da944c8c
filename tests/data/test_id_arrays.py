import json
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.data import id_arrays
from spherec.data.ids import IdMap
from spherec.errors import DataError
from tests.oracles import typed
from tests.strategies import ID_KINDS, distinct_ids


def round_trip(ids):
    arrays = id_arrays.encode_ids(IdMap(ids), "x")
    assert all(array.dtype.kind in "iufb" and array.ndim == 1 for array in arrays.values())
    return list(IdMap(id_arrays.decode_ids(arrays, "x")))


@given(distinct_ids())
def test_ids_of_any_kind_survive_as_plain_numbers_with_their_type(ids):
    assert typed(round_trip(ids)) == typed(ids)


def test_the_layout_is_the_documented_one():
    numbers = id_arrays.encode_ids(IdMap([3, 1]), "x")
    assert {name: array.tolist() for name, array in numbers.items()} == {"x": [3, 1]}
    texts = id_arrays.encode_ids(IdMap(["é", "", "b"]), "x")
    assert texts["x.str"].tobytes() == "éb".encode()
    assert texts["x.offsets"].tolist() == [0, 2, 2, 3]
    tagged = id_arrays.encode_ids(IdMap([(1, "a")]), "x")
    assert json.loads(tagged["x.json"].tobytes()) == ["tuple", [["int", "1"], ["str", "a"]]]


class Shelf(str, Enum):  # noqa: UP042 - the older way, whose str() is not its value
    FICTION = "fiction"


class Floor(int, Enum):
    FIRST = 1


class Place(NamedTuple):
    shelf: str
    floor: int


@pytest.mark.parametrize("one", [Shelf.FICTION, Floor.FIRST, Place("a", 1), pd.Timestamp(1), pd.Timedelta(1)], ids=repr)
def test_an_id_of_a_derived_type_is_refused_or_stays_equal(one):
    with suppress(DataError):
        assert round_trip([one, "other"]) == [one, "other"]


def test_equal_ids_give_equal_bytes():
    one, other = frozenset([0, 8]), frozenset([8, 0])  # equal, but they iterate in different order
    encoded = [id_arrays.encode_ids(IdMap([ids]), "x")["x.json"].tobytes() for ids in (one, other)]
    assert encoded[0] == encoded[1]


def test_ids_of_a_foreign_type_are_refused_by_name():
    with pytest.raises(DataError, match=r"ids of type complex cannot be saved"):
        id_arrays.encode_ids(IdMap([1j]), "x")


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"x.str": b"ab", "x.offsets": []},
        {"x.str": b"ab", "x.offsets": [1, 2]},
        {"x.str": b"ab", "x.offsets": [0, 1]},
        {"x.str": b"ab", "x.offsets": [0, 3]},
        {"x.str": b"ab", "x.offsets": [0, 2, 1, 2]},
        {"x.str": b"\xff", "x.offsets": [0, 1]},
        {"x.json": b"[", "x.offsets": [0, 1]},
    ],
    ids=str,
)
def test_arrays_that_are_not_whole_are_a_value_error(arrays):
    arrays = {
        name: np.frombuffer(content, np.uint8) if isinstance(content, bytes) else np.array(content, dtype=np.int64)
        for name, content in arrays.items()
    }
    with pytest.raises(ValueError, match=r".+"):
        id_arrays.decode_ids(arrays, "x")


@given(st.lists(st.none() | ID_KINDS["str"].filter(bool)))
def test_names_survive(names):
    assert id_arrays.decode_names(id_arrays.encode_names(names, "x"), "x") == tuple(names)


def test_no_names_are_none():
    assert id_arrays.decode_names({}, "x") is None
