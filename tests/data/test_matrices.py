"""Matrices of other libraries as interactions."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

from spherec.data.events import pair_keys
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError
from tests.oracles import pairs_of
from tests.strategies import MATRICES

FORMATS = {
    "dense": np.asarray,
    "bool": lambda dense: dense > 0,
    "csr": sp.csr_array,
    "csc": sp.csc_matrix,
    "int coo": lambda dense: sp.coo_matrix(dense.astype(np.int8)),
    "explicit zeros": lambda dense: sp.csr_array(
        (dense.ravel(), np.tile(np.arange(dense.shape[1]), len(dense)), np.arange(len(dense) + 1) * dense.shape[1]),
        shape=dense.shape,
    ),
    "repeated entries": lambda dense: sp.coo_array(
        (np.tile(dense[dense.nonzero()], 2), tuple(np.tile(where, 2) for where in dense.nonzero())), shape=dense.shape
    ),
    "unsorted": lambda dense: sp.csc_array(sp.csr_array(dense[:, ::-1]))[:, ::-1],
}


@pytest.mark.parametrize("convert", FORMATS.values(), ids=FORMATS)
@given(dense=MATRICES)
def test_every_entry_above_zero_of_a_matrix_is_a_pair_and_empty_rows_and_columns_stay(convert, dense):
    matrix = convert(dense)
    before = matrix.copy()
    data = Interactions.from_matrix(matrix)
    users, items = dense.nonzero()
    assert pairs_of(data) == dict.fromkeys(zip(users.tolist(), items.tolist(), strict=True))
    assert (data.n_users, data.n_items) == dense.shape
    assert Interactions.from_matrix(matrix.T, orientation="items x users") == data
    assert abs(matrix.astype(float) - before.astype(float)).sum() == 0


@pytest.mark.parametrize("role", ["user_ids", "item_ids"])
@pytest.mark.parametrize("n_ids", [1, 3])
def test_a_matrix_with_too_few_or_too_many_ids_is_refused(role, n_ids):
    matrix = np.array([[1, 0], [1, 0]])
    with pytest.raises(DataError, match=str(n_ids)):
        Interactions.from_matrix(matrix, **{role: list(range(n_ids))})


def test_what_a_row_is_must_be_said_in_known_words():
    with pytest.raises(ArgumentError, match=r"orientation .* 'users'"):
        Interactions.from_matrix(np.eye(2), orientation="users")


def test_small_integers_in_a_matrix_do_not_overflow():
    matrix = sp.coo_array((np.array([128, 128], dtype=np.uint8), ([0, 0], [0, 0])), shape=(1, 1))
    assert len(Interactions.from_matrix(matrix)) == 1


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix])
@pytest.mark.parametrize("index", [6, -1, 2**31 - 1])
def test_an_index_out_of_range_is_refused_before_scipy_follows_it(kind, index):
    matrix, empty = kind(np.eye(6)), kind((6, 6))
    matrix.indices[2] = index
    empty.indptr[2] = index
    entries = sp.coo_matrix(np.eye(6))
    entries.col[2] = index
    for bad in (matrix, empty, entries, np.ma.array(np.eye(2), mask=np.eye(2))):
        with pytest.raises(DataError):
            Interactions.from_matrix(bad)


def test_pair_keys_number_pairs_in_their_order():
    users, items = np.array([0, 0, 2], dtype=np.int32), np.array([1, 4, 0], dtype=np.int32)
    assert pair_keys(users, items, 5).tolist() == [1, 4, 10]
    assert pair_keys(users[:1, None], items[None], 5).tolist() == [[1, 4, 0]]
    assert pair_keys(np.array([2**31 - 1], np.int32), np.array([7], np.int32), 2**31) == [2**31 * (2**31 - 1) + 7]
