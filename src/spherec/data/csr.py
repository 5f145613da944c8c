"""Compressed sparse rows: a user's items stand together, ascending and without duplicates."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spherec.errors import DataError


def pair_keys(users: NDArray[Any], items: NDArray[Any], n_items: int) -> NDArray[np.int64]:
    """Return one number per (user, item) pair: `user * n_items + item`, ascending where pairs are sorted.

    The two arrays broadcast: users (B, 1) with items (B, K) give keys (B, K).
    """
    keys: NDArray[np.int64] = users.astype(np.int64) * max(int(n_items), 1) + items
    return keys


def row_starts(users: NDArray[np.int32], n_users: int) -> NDArray[np.int64]:
    """Where each user's row begins (U + 1,), for pairs (E,) that are sorted by user."""
    counts = np.bincount(users, minlength=n_users)  # (U,)
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))


def compact(ids: NDArray[Any], indices: NDArray[np.int32]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """The ids in use, in their order, and the indices (E,) into them."""
    in_use = np.bincount(indices, minlength=len(ids)) > 0  # (n,)
    position = np.cumsum(in_use, dtype=np.int32) - 1  # (n,)
    return ids[in_use], position[indices]


def is_ascending(users: NDArray[np.int32], items: NDArray[np.int32]) -> bool:
    """Whether pairs (E,) are sorted by user, then item, and distinct."""
    later = (users[1:] > users[:-1]) | ((users[1:] == users[:-1]) & (items[1:] > items[:-1]))  # (E - 1,)
    return bool(later.all())


def binary_csr(matrix: Any) -> "sp.csr_array":
    """A sparse matrix or dense array as sorted rows: 1 where it has an entry above 0."""
    if hasattr(matrix, "columns"):
        raise DataError(
            "a data frame is not a matrix; pass frame.to_numpy() with user_ids=frame.index and item_ids=frame.columns, "
            "or use from_frame for a table of events"
        )
    dense = None if sp.issparse(matrix) else np.asarray(matrix)
    shape, kind = (matrix.shape, matrix.dtype.kind) if dense is None else (dense.shape, dense.dtype.kind)
    if len(shape) != 2 or kind not in "biuf":
        raise DataError(f"the matrix must be two-dimensional and hold real numbers, got shape {shape}, kind {kind!r}")
    coo = sp.coo_array(matrix if dense is None else dense)
    if not np.all(coo.data >= 0):  # false for NaN, too
        raise DataError("the matrix must have entries >= 0 and no NaN; keep what counts: matrix > 0")
    above = coo.data > 0
    csr = sp.csr_array((np.ones(above.sum()), (coo.row[above], coo.col[above])), shape=shape)
    csr.sum_duplicates()
    return csr


def check_rows(indptr: NDArray[np.int64], indices: NDArray[np.int32], n_users: int, n_items: int) -> None:
    """Raises a `DataError` unless the rows are sorted, distinct, in range, and as many as the users."""
    if indptr.ndim != 1 or indices.ndim != 1 or indices.dtype != np.int32 or indptr.dtype != np.int64:
        raise DataError("indptr must be a row of int64 and indices a row of int32")
    fits = len(indptr) == n_users + 1 and indptr[0] == 0 and indptr[-1] == len(indices)
    if not fits or np.any(np.diff(indptr) < 0):
        raise DataError(f"indptr does not cut {len(indices):,} pairs into the rows of {n_users:,} users")
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < n_items:
        raise DataError(f"item indices must lie in 0 … {n_items - 1}, got {indices.min()} … {indices.max()}")
    ascending = np.append(indices[1:] > indices[:-1], True)  # (E,) true where the next pair has a larger item,
    ascending[indptr[1:][indptr[1:] > 0] - 1] = True  # or belongs to another row
    if not ascending.all():
        raise DataError("each user's items must be ascending and distinct")
