"""Sparse matrices that `scipy.sparse.save_npz` wrote: rows are users, columns are items, ids are their positions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp

from spherec.data.input_files import reading_file
from spherec.data.read.formats import Reading, Rows
from spherec.errors import DataError

_LONGEST = 2**31 - 1  # rows or columns


def read_rows(path: Path, reading: Reading) -> Iterator[Rows]:  # noqa: ARG001
    """Yield the entries above 0; all columns stay as items, rows without entries are counted."""
    matrix = read_scipy_matrix(path)
    values, (n_rows, n_columns) = matrix.data, matrix.shape
    if values.dtype.kind not in "biuf" or not np.all(values >= 0) or not np.any(values > 0):  # also for NaN
        raise DataError(f"{path}: the matrix must hold real numbers >= 0, some above 0; keep what counts: matrix > 0")
    above = values > 0
    rows, columns = matrix.coords
    frame = pl.DataFrame({"user": rows[above], "item": columns[above], "value": values[above].astype(np.float64)})
    yield Rows(
        frame,
        lambda row, role: (f"entry {row}", frame[role][row]),
        without_items=(n_rows - frame["user"].n_unique(), "rows that have no items"),
        catalogue=np.arange(n_columns),
    )


def read_scipy_matrix(path: Path) -> Any:
    """Return a matrix with all of its entries, in their order, in the form coo."""
    with reading_file(path, damage=Exception, remedy="save it again with scipy.sparse.save_npz"):
        with path.open("rb") as file:
            matrix = sp.load_npz(file)
        if hasattr(matrix, "check_format"):  # its arrays are not checked before
            matrix.check_format(full_check=True)
        if max(matrix.shape) > _LONGEST:
            raise ValueError(f"{matrix.shape} is too large")
        return sp.coo_array(matrix)
