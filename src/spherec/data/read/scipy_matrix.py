"""Sparse matrices that `scipy.sparse.save_npz` wrote: rows are users, columns are items, ids are their positions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spherec.data.archive import read_arrays
from spherec.data.events import Events
from spherec.data.read.options import Reading
from spherec.errors import DataError

_REMEDY = "save it again with scipy.sparse.save_npz"
_USUAL_LENGTH = 10_000_000  # rows or columns of a matrix, however few its entries are,
_USUAL_RATIO = 100  # or for each entry; more would take memory that no entry needs
_PARTS = {"csr": ("indptr", "indices"), "csc": ("indptr", "indices"), "coo": ("row", "col")}


def read_scipy(path: Path, reading: Reading) -> Iterator[Events]:
    """Yield the entries above 0; all columns stay as items, rows without entries are counted."""
    arrays = read_arrays(path, remedy=_REMEDY, max_unpacked=reading.max_unpacked)
    rows, columns, values, shape = _entries(path, arrays)
    if values.dtype.kind not in "biuf" or not np.all(values >= 0):  # false for NaN, too
        raise DataError(f"{path}: the matrix must hold real numbers >= 0 and no NaN; keep what counts: matrix > 0")
    above = np.flatnonzero(values > 0)[: reading.limit]
    if not len(above):
        raise DataError(f"{path}: the matrix of {shape[0]:,} rows has no entries above 0; give one with events")
    users = rows[above].astype(np.int32)
    empty = shape[0] - len(np.unique(users)) if reading.limit is None else 0
    yield Events(
        users,
        columns[above].astype(np.int32),
        np.arange(shape[0]),
        np.arange(shape[1]),
        values=values[above].astype(np.float64),
        keeps_items=True,
        left_out=(("rows that have no items", empty),) if empty else (),
    )


def read_scipy_matrix(path: Path, reading: Reading) -> "sp.csr_array":
    """Read a matrix with all of its entries."""
    arrays = read_arrays(path, remedy=_REMEDY, max_unpacked=reading.max_unpacked)
    rows, columns, values, shape = _entries(path, arrays)
    return sp.csr_array((values, (rows, columns)), shape=shape)


def _entries(
    path: Path, arrays: dict[str, NDArray[Any]]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], tuple[int, int]]:
    """Return rows, columns and values (E,) of all entries, and the shape, after checks of each."""
    kind = bytes(arrays["format"].tobytes()).strip(b"\0").decode("ascii", "replace") if "format" in arrays else "?"
    if kind not in _PARTS:
        raise DataError(f"{path}: a sparse matrix in the form {kind!r}; save matrix.tocsr() instead")
    if missing := [name for name in ("shape", "data", *_PARTS[kind]) if name not in arrays]:
        raise DataError(f"{path} is damaged: {', '.join(missing)} is missing; {_REMEDY}")
    first, second = (arrays[name] for name in _PARTS[kind])
    values, sizes = arrays["data"], arrays["shape"]
    whole = all(part.ndim == 1 and part.dtype.kind in "iu" for part in (first, second, sizes))
    if not whole or len(sizes) != 2 or values.ndim != 1 or len(values) != len(second) or sizes.min() < 0:
        raise DataError(f"{path} is damaged: its arrays do not fit each other; {_REMEDY}")
    n_rows, n_columns = int(sizes[0]), int(sizes[1])
    if max(n_rows, n_columns) > min(max(_USUAL_LENGTH, _USUAL_RATIO * len(values)), 2**31 - 1):
        raise DataError(
            f"{path}: {n_rows:,} x {n_columns:,} is too much for {len(values):,} entries; save it with fewer empty "
            "rows and columns"
        )
    if kind != "coo":
        length = n_rows if kind == "csr" else n_columns
        is_cut = (
            len(first) == length + 1 and first[0] == 0 and first[-1] == len(values) and np.all(first[1:] >= first[:-1])
        )
        if not is_cut:
            raise DataError(f"{path} is damaged: indptr does not cut {len(values):,} entries into rows; {_REMEDY}")
        first = np.repeat(np.arange(length), np.asarray(first[1:] - first[:-1], dtype=np.int64))
    rows, columns = (second, first) if kind == "csc" else (first, second)
    if len(rows) != len(values) or (len(values) and not _is_inside(rows, n_rows) & _is_inside(columns, n_columns)):
        raise DataError(f"{path} is damaged: entries lie outside {n_rows:,} x {n_columns:,}; {_REMEDY}")
    return rows, columns, values, (n_rows, n_columns)


def _is_inside(indices: NDArray[Any], length: int) -> bool:
    return int(indices.min()) >= 0 and int(indices.max()) < length
