"""Data frames and matrices of other libraries, as arrays: columns and names of a frame, entries of a matrix."""

import warnings
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from spherec.data.events import level_of_caller
from spherec.data.ids import factorize, is_missing, unmask
from spherec.data.input_files import describe_damage
from spherec.errors import DataError, UnreadValuesWarning, describe_missing_column, quote, require_polars


def column_of(frame: Any, name: str) -> Any:
    """Return a column of a pandas or polars data frame as an array (E,), or one of a dict of columns as it is."""
    is_lazy = hasattr(frame, "collect")  # a query of polars, dask, …
    if is_lazy or not (hasattr(frame, "iloc") or hasattr(frame, "lazy") or isinstance(frame, Mapping)):
        hint = "collect() it first" if is_lazy else "make one of it, e.g. with .to_pandas()"
        raise DataError(f"expected a pandas or polars DataFrame, got {type(frame).__name__}; {hint}")
    # Those of pandas may be 0, 1, …; of 0 and "0", the one that is equal counts.
    names = {str(one): one for one in sorted(getattr(frame, "columns", frame), key=lambda one: bool(one == name))}
    if str(name) not in names:
        raise DataError(describe_missing_column(str(name), list(names)))
    column = frame[names[str(name)]]
    if isinstance(frame, Mapping):
        return column
    if hasattr(frame, "lazy"):
        require_polars("a data frame of polars")
    try:
        return np.asarray(column.to_numpy())
    except Exception as error:  # of polars: a type that NumPy does not have
        raise DataError(f"column {quote(name)} cannot be read ({describe_damage(error)}); cast it first") from None


def item_names_in(frame: Any, item: str, name: str) -> dict[Hashable, str]:
    """Return the names of items in a column of a data frame, by external id; an item's last name counts."""
    texts = column_of(frame, name)
    index, ids = factorize(column_of(frame, item), "item")
    last = {place: text for place, text in zip(index.tolist(), texts, strict=True) if not is_missing(text)}
    return {ids[place]: str(text) for place, text in last.items()}


def warn_unread_column(frame: Any, user: str, item: str) -> None:
    """Warn if a data frame has a column that is named like ratings or counts, and holds several numbers."""
    from spherec.data.read.formats import find_value  # its folder imports `Interactions`

    column = find_value(map(str, getattr(frame, "columns", frame)), (user, item))
    if column is None:
        return
    values = np.asarray(column_of(frame, column))
    if values.ndim == 1 and values.dtype.kind in "iuf" and len(values) and bool(np.any(values != values[0])):
        warnings.warn(
            f"column {quote(column)} is not used, and every row counts as a positive; keep only the high values with "
            f"Interactions.from_frame(frame, user={user!r}, item={item!r}, value={column!r}, cut=Cut(min_value=…)), or "
            f"let pairs weigh by them with fit(…, weight={column!r}); drop the column if all rows are meant alike",
            UnreadValuesWarning,
            stacklevel=level_of_caller(),
        )


def binary_rows(matrix: Any) -> Any:
    """Return a sparse matrix or dense array as sorted rows, with an entry where it has one above 0."""
    entries = read_matrix(matrix)
    if isinstance(entries, np.ndarray):
        places = np.nonzero(entries)
        entries = read_matrix(sp.coo_array((entries[places].astype(np.float32), places), shape=entries.shape))
    values = entries.data
    if len(values) and bool(np.any(values != values[0])):
        warnings.warn(
            f"the matrix has entries from {values.min():g} to {values.max():g}, and each above 0 counts as a positive; "
            "keep only the high ones with e.g. matrix >= 4, or give matrix > 0 if all are meant; to let pairs weigh by "
            "them, give a data frame and weight=…",
            UnreadValuesWarning,
            stacklevel=level_of_caller(),
        )
    return entries.tocsr()


def read_matrix(matrix: Any) -> Any:
    """Return a dense array (n, m) of real numbers, or the entries above 0 of a sparse matrix, as float32."""
    if hasattr(matrix, "columns"):
        raise DataError(
            "a data frame is not a matrix; pass frame.to_numpy() with user_ids=frame.index and item_ids=frame.columns, "
            "or use from_frame for a table"
        )
    try:
        rows: Any = list_entries(matrix) if sp.issparse(matrix) else np.asarray(unmask(matrix))
    except (TypeError, ValueError) as error:  # a sparse tensor of torch, rows of several lengths, wrong indices
        raise DataError(
            f"a matrix must be of scipy or a dense array, got {type(matrix).__name__} ({describe_damage(error)})"
        ) from None
    if len(rows.shape) != 2 or rows.dtype.kind not in "biuf":
        raise DataError(f"the matrix must be two-dimensional and hold real numbers, got {quote(matrix)}")
    if isinstance(rows, np.ndarray):
        return rows
    if not np.all(rows.data >= 0):  # false for NaN, too
        raise DataError("a sparse matrix must have entries >= 0 and no NaN; keep what counts: matrix > 0")
    above = rows.data > 0
    places = tuple(index[above] for index in rows.coords)
    return sp.coo_array((rows.data[above].astype(np.float32), places), shape=rows.shape)


def list_entries(matrix: Any) -> Any:
    """Return a sparse matrix as its entries, in their order; a ValueError if its indices lead out of it."""
    if hasattr(matrix, "indptr"):
        matrix.check_format(full_check=True)
        if np.any(matrix.indptr[1:] < matrix.indptr[:-1]):
            raise ValueError("indptr descends")
    return sp.coo_array(matrix.astype(np.float32) if matrix.dtype == np.float16 else matrix)
