import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.data import id_arrays
from spherec.data.ids import IdMap
from tests.oracles import typed
from tests.strategies import ID_KINDS, distinct_ids


@given(distinct_ids())
def test_ids_survive_as_plain_numbers_with_their_type(ids):
    arrays = id_arrays.encode_ids(IdMap(ids), "x")
    assert all(array.dtype.kind in "iu" and array.ndim == 1 for array in arrays.values())
    assert typed(list(IdMap(id_arrays.decode_ids(arrays, "x")))) == typed(ids)
    assert typed(list(IdMap(id_arrays.decode_ids(arrays, "x", slice(1, 3))))) == typed(ids[1:3])


def test_the_layout_is_the_documented_one():
    numbers = id_arrays.encode_ids(IdMap([3, 1]), "x")
    assert {name: array.tolist() for name, array in numbers.items()} == {"x": [3, 1]}
    texts = id_arrays.encode_ids(IdMap(["é", "", "b"]), "x")
    assert texts["x.str"].tobytes() == "éb".encode()
    assert texts["x.offsets"].tolist() == [0, 2, 2, 3]


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"x.str": b"ab", "x.offsets": []},
        {"x.str": b"ab", "x.offsets": [1, 2]},
        {"x.str": b"ab", "x.offsets": [0, 3]},
        {"x.str": b"ab", "x.offsets": [0, 2, 1, 2]},
        {"x.str": b"\xff", "x.offsets": [0, 1]},
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
