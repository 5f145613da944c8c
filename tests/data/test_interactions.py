import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.data.cuts import Cut
from spherec.data.ids import IdMap
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError
from tests.oracles import baskets, pairs_of, typed
from tests.strategies import MATRICES

ROWS = st.lists(st.tuples(st.integers(-3, 3), st.sampled_from(["a", "b", "ä", ""])), min_size=1, max_size=20)


def columns(rows):
    return [list(column) for column in zip(*rows, strict=True)]


@pytest.fixture
def data():
    """ann: x, z; bob: y; cal: nothing but in the index."""
    return Interactions(
        indptr=np.array([0, 2, 3, 3]),
        indices=np.array([0, 2, 1], dtype=np.int32),
        user_ids=IdMap(["ann", "bob", "cal"]),
        item_ids=IdMap(["x", "y", "z"]),
        item_names=("ex", None, "zed"),
        times=np.array([3.0, 1.0, 2.0]),
    )


# --- Ways in ---------------------------------------------------------------------------------------------------------


@given(ROWS)
def test_from_pairs_holds_exactly_the_distinct_pairs(rows):
    users, items = columns(rows)
    data = Interactions.from_pairs(users, items, duplicates="sum")
    assert pairs_of(data) == dict.fromkeys(rows)
    assert typed(list(data.user_ids)) == typed(sorted(set(users)))
    assert typed(list(data.item_ids)) == typed(sorted(set(items)))


@given(ROWS.flatmap(lambda rows: st.permutations([(*row, time) for time, row in enumerate(rows)])))
def test_the_order_of_the_pairs_never_matters(rows):
    def build(rows):
        users, items, times = columns(rows)
        return Interactions.from_pairs(users, items, times=times, duplicates="last")

    assert build(rows) == build(sorted(rows, key=lambda row: row[2]))


@given(ROWS.map(lambda rows: sorted(set(rows))))
def test_all_ways_in_agree(rows):
    users, items = columns(rows)
    expected = Interactions.from_pairs(users, items)
    user_ids, item_ids = sorted(set(users)), sorted(set(items))
    matrix = np.array([[(user, item) in rows for item in item_ids] for user in user_ids])
    ids = {"user_ids": user_ids, "item_ids": item_ids}
    for frame in (pd.DataFrame({"u": users, "i": items}), pl.DataFrame({"u": users, "i": items})):
        assert Interactions.from_frame(frame, user="u", item="i") == expected
    assert Interactions.from_matrix(matrix, **ids) == expected
    assert Interactions.from_matrix(matrix.T, orientation="items x users", **ids) == expected
    assert Interactions.from_matrix(expected.matrix, **ids) == expected


@pytest.mark.parametrize(
    ("column", "ids"),
    [
        (pd.Series([7, 5], dtype="int8"), [5, 7]),
        (pd.Series([7, 5], dtype="Int64"), [5, 7]),
        (pd.Series([7, 5], dtype="int64[pyarrow]"), [5, 7]),
        (pd.Series([7.0, 5.0]), [5, 7]),
        (pd.Series(["b", "a"], dtype="category"), ["a", "b"]),
        (pd.Series([7, 5], dtype="category"), [5, 7]),
        (pd.Series(["b", "a"], dtype="string"), ["a", "b"]),
        (pl.Series([7, 5], dtype=pl.UInt16), [5, 7]),
        (pl.Series(["b", "a"]), ["a", "b"]),
        (pl.Series(["b", "a"], dtype=pl.Categorical), ["a", "b"]),
        (pl.Series(["b", "a"], dtype=pl.Enum(["b", "a"])), ["a", "b"]),
        (pl.Series(["b\0", "b"]), ["b", "b\0"]),
    ],
    ids=lambda value: f"{type(value).__module__.split('.')[0]}-{value.dtype}" if hasattr(value, "dtype") else "",
)
def test_a_column_of_any_type_gives_the_python_ids_that_it_shows(column, ids):
    frame = type(column.to_frame())({"id": column, "other": [0, 0]})
    assert typed(list(Interactions.from_frame(frame, user="id", item="other").user_ids)) == typed(ids)
    assert typed(list(Interactions.from_frame(frame, user="other", item="id").item_ids)) == typed(ids)


def test_a_frame_passes_values_and_times_on():
    frame = pl.DataFrame({"u": [1, 1, 2, 2], "i": [1, 1, 1, 2], "stars": [5, 1, 4, 5], "at": [10, 20, 30, 40]})
    names = {"user": "u", "item": "i", "value": "stars", "time": "at"}
    data = Interactions.from_frame(frame, **names, cut=Cut(min_value=4), duplicates="last")
    assert pairs_of(data) == {(2, 1): 30.0, (2, 2): 40.0}


@pytest.mark.parametrize(
    ("frame", "named"),
    [
        (pd.DataFrame({"user_id": [1], "i": [2]}), "no column 'u'.*'user_id'"),
        ([{"u": 1, "i": 2}], "got list"),
        (pl.LazyFrame({"u": [1], "i": [2]}), r"LazyFrame; collect\(\)"),
        (pa.table({"u": [1], "i": [2]}), "to_pandas"),
    ],
)
def test_what_is_no_frame_with_these_columns_is_refused(frame, named):
    with pytest.raises(DataError, match=named):
        Interactions.from_frame(frame, user="u", item="i")


MASKED = np.ma.array([1, 2], mask=[False, True])


@pytest.mark.parametrize(
    ("users", "rules"),
    [([1, 1], {"values": [-1, 3], "duplicates": "sum", "weigh": True}), (MASKED, {}), ([1, 2], {"values": MASKED})],
    ids=["a weight below 0 under a sum", "masked ids", "masked values"],
)
def test_a_number_that_counts_nothing_is_refused(users, rules):
    with pytest.raises(DataError):
        Interactions.from_pairs(users, [5, 5], **rules)


def test_a_misspelt_rule_is_an_error():
    with pytest.raises(TypeError, match="cutt"):
        Interactions.from_pairs([1], [2], cutt=Cut())


# --- What may not be -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indptr": np.array([0, 2, 3, 3], dtype=np.int32)}, "int64"),
        ({"indptr": np.array([], dtype=np.int64)}, "rows of 3 users"),
        ({"indptr": np.array([0, 2, 3])}, "rows of 3 users"),
        ({"indptr": np.array([1, 2, 3, 3])}, "3 pairs"),
        ({"indptr": np.array([0, 2, 2, 2])}, "3 pairs"),
        ({"indptr": np.array([0, 3, 2, 3])}, "3 pairs"),
        ({"indices": np.array([0, 2, 1])}, "int32"),
        ({"indices": np.array([0, 3, 1], dtype=np.int32)}, "0 … 2"),
        ({"indices": np.array([-1, 2, 1], dtype=np.int32)}, "0 … 2"),
        ({"indices": np.array([2, 0, 1], dtype=np.int32)}, "ascending"),
        ({"indices": np.array([2, 2, 1], dtype=np.int32)}, "distinct"),
        ({"user_ids": IdMap(["ann", "bob"])}, "rows of 2 users"),
        ({"item_names": ("ex", "why")}, "item_names .*3.*2"),
        ({"item_names": ("ex", "why", 5)}, "item_names .*5"),
        ({"times": np.array([1.0])}, "times"),
        ({"times": np.array([1.0, np.nan, 2.0])}, "times"),
        ({"weights": np.ones((3, 1))}, "weights"),
        ({"weights": np.array([1.0, 2.0, 0.0])}, "weights .*0"),
    ],
    ids=str,
)
def test_what_breaks_the_promise_is_refused(data, change, message):
    with pytest.raises(DataError, match=message):
        replace(data, **change)


# --- Ways to look ----------------------------------------------------------------------------------------------------


@given(MATRICES)
def test_all_views_show_the_same_pairs(dense):
    data = Interactions.from_matrix(dense)
    held = baskets(pairs_of(data))
    binary = (dense > 0).astype(int)
    np.testing.assert_array_equal(data.matrix.toarray(), binary)
    assert data.matrix.shape == (data.n_users, data.n_items)
    assert list(zip(data.users.tolist(), data.indices.tolist(), strict=True)) == sorted(pairs_of(data))
    assert [data.items_of(user).tolist() for user in range(data.n_users)] == [
        sorted(held.get(user, ())) for user in range(data.n_users)
    ]
    np.testing.assert_array_equal(data.items_per_user, binary.sum(axis=1))
    np.testing.assert_array_equal(data.users_per_item, binary.sum(axis=0))
    assert len(data) == binary.sum()


@pytest.mark.parametrize("user", [-1, 3])
def test_no_user_index_silently_shows_another_row(data, user):
    with pytest.raises(ArgumentError):
        data.items_of(user)


def test_arrays_are_read_only(data):
    for name in ("indptr", "indices", "times", "users", "users_per_item"):
        assert not getattr(data, name).flags.writeable, name
    data.matrix.data[:] = 5  # which belongs to the caller
    assert data.matrix.toarray().tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 0]]


@given(MATRICES.flatmap(lambda dense: st.tuples(st.just(dense), st.lists(st.booleans(), min_size=25, max_size=25))))
def test_kept_holds_the_masked_pairs_under_the_same_indices(drawn):
    dense, flags = drawn
    data = Interactions.from_matrix(dense)
    data = replace(data, times=np.arange(len(data), dtype=float))
    mask = np.array(flags[: len(data)], dtype=bool)
    kept = data.filter(mask)
    assert pairs_of(kept) == {
        pair: time for (pair, time), keep in zip(pairs_of(data).items(), mask, strict=True) if keep
    }
    assert (kept.user_ids, kept.item_ids) == (data.user_ids, data.item_ids)


def test_names_are_given_by_external_id(data):
    named = data.with_item_names({"y": "why", "x": "ex", "other": "?"})
    assert named.item_names == ("ex", "why", None)
    assert pairs_of(named) == pairs_of(data)
    assert data.item_names == ("ex", None, "zed")
    assert data.filter(np.array([True, False, False])).item_names == data.item_names


def test_interactions_are_equal_when_nothing_visible_differs(data):
    assert data == replace(data, indices=data.indices.copy(), steps=())
    for change in (
        {"indices": np.array([1, 2, 1], dtype=np.int32)},
        {"indptr": np.array([0, 2, 2, 3])},
        {"user_ids": IdMap(["ann", "bob", "dan"])},
        {"item_ids": IdMap(["x", "y", "w"])},
        {"item_names": ("ex", None, "zet")},
        {"item_names": None},
        {"times": np.array([3.0, 1.0, 2.5])},
        {"times": None},
    ):
        assert data != replace(data, **change), change
    nothing = data.filter(np.zeros(3, dtype=bool))
    assert nothing != replace(nothing, times=None)
    assert data != "data"
    with pytest.raises(TypeError, match="unhashable"):
        hash(data)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda data: pickle.loads(pickle.dumps(data))])
def test_copies_are_equal_and_read_only_too(data, again):
    copied = again(data)
    assert copied == data
    assert copied.steps == data.steps
    for array in (copied.indptr, copied.indices, copied.times, copied.user_ids.array):
        assert not array.flags.writeable


def test_names_from_a_text_file_fit_ids_that_are_numbers():
    data = Interactions.from_pairs([1, 1], [7, 8])
    assert data.with_item_names({"7": "seven", 8: "eight"}).item_names == ("seven", "eight")
    with pytest.raises(ArgumentError, match="mapping of ids to names, got list"):
        data.with_item_names(["seven"])
