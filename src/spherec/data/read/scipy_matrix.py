"""Sparse matrices that `scipy.sparse.save_npz` wrote: rows are users, columns are items, ids are their positions."""

import zipfile
from collections.abc import Iterator
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp

from spherec.data.input_files import reading_file
from spherec.data.read.collector import Rows
from spherec.data.read.options import Reading
from spherec.errors import DataError

_REMEDY = "save it again with scipy.sparse.save_npz"
_USUAL_LENGTH = 10_000_000  # rows or columns of a matrix, however few its entries are,
_USUAL_RATIO = 100  # or for each entry; more would take memory that no entry needs


def is_scipy_matrix(path: str | PathLike[str]) -> bool:
    """Return whether the path is a sparse matrix that `scipy.sparse.save_npz` wrote."""
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        return {"format.npy", "shape.npy", "data.npy"} <= set(archive.namelist())
    return False


def read_rows(path: Path, reading: Reading) -> Iterator[Rows]:  # noqa: ARG001
    """Yield the entries above 0; all columns stay as items, rows without entries are counted."""
    matrix = read_scipy_matrix(path)
    values, (n_rows, n_columns) = matrix.data, matrix.shape
    if values.dtype.kind not in "biuf" or not np.all(values >= 0):  # false for NaN, too
        raise DataError(f"{path}: the matrix must hold real numbers >= 0 and no NaN; keep what counts: matrix > 0")
    above = values > 0
    if not above.any():
        raise DataError(f"{path}: the matrix of {n_rows:,} rows has no entries above 0; give one with events")
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
    with reading_file(path, damage=(Exception,), remedy=_REMEDY), path.open("rb") as file:
        matrix = sp.load_npz(file)
        if hasattr(matrix, "check_format"):  # its arrays are not checked before
            matrix.check_format(full_check=True)
        entries = sp.coo_array(matrix)
    n_rows, n_columns = entries.shape
    if max(n_rows, n_columns) > min(max(_USUAL_LENGTH, _USUAL_RATIO * entries.nnz), 2**31 - 1):
        raise DataError(
            f"{path}: {n_rows:,} x {n_columns:,} is too much for {entries.nnz:,} entries; save it with fewer empty "
            "rows and columns"
        )
    return entries
