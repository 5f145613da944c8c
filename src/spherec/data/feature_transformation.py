"""The fitted transformation of tables and matrices into item features: plain data and arrays."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spherec.data.feature_cells import read_cells
from spherec.data.feature_columns import COLUMNS, CountsColumn, Encoded, FittedColumn
from spherec.data.frames import column_of, sparse_entries
from spherec.data.ids import IdMap, refuse_masked
from spherec.data.input_files import describe_damage
from spherec.errors import DataError, describe_missing_column, quote


@dataclass(frozen=True)
class FittedTable:
    """The fitted columns of one source: a table, or a matrix."""

    item: str | None
    "Column of item ids in a table; None for a matrix."
    columns: tuple[FittedColumn, ...]

    def describe(self) -> str:
        """Return what it was fitted to, for messages."""
        names = ", ".join(quote(column.name) for column in self.columns)
        if self.item is not None:
            return f"a table with the columns {quote(self.item)}, {names}"
        if isinstance(self.columns[0], CountsColumn):
            return f"lists of words or tags, or a sparse matrix ({names})"
        return f"a dense matrix of {self.columns[0].size:,} columns ({names})"

    def encode(self, table: Any, item_ids: Iterable[Hashable] | None) -> tuple[IdMap, list[Encoded]]:
        """Return the items of another table or matrix, and their numbers of each column."""
        if hasattr(table, "columns") != (self.item is not None):
            self._refuse(table)
        if self.item is not None:
            ids = ids_in_table(table, self.item)
            named = {str(name): name for name in table.columns}
            absent = [column.name for column in self.columns if column.name not in named]
            if absent:
                present = list(named)
                more = f" (and no {', '.join(map(quote, absent[1:]))})" if absent[1:] else ""
                raise DataError(f"{describe_missing_column(absent[0], present)}{more}")
            parts = [column.encode(read_cells(table, named[column.name])) for column in self.columns]
        else:
            (column,) = self.columns
            rows = to_rows(table)
            if isinstance(column, CountsColumn) != sp.issparse(rows):
                self._refuse(table)
            width = column.n_columns if isinstance(column, CountsColumn) else column.size
            if rows.shape[1] != width:
                raise DataError(
                    f"the matrix has {rows.shape[1]:,} columns, but {width:,} when it was fitted; make it so"
                )
            ids = ids_of_rows(item_ids, rows.shape[0])
            parts = [column.encode(rows)]
        return ids, parts

    def _refuse(self, table: Any) -> NoReturn:
        got = quote(table)
        if hasattr(table, "columns"):
            got = "a table"
        elif len(getattr(table, "shape", ())) == 2:
            got = f"a {'sparse' if sp.issparse(table) else 'dense'} matrix of {table.shape[1]:,} columns"
        raise DataError(f"the features were made of {self.describe()}, got {got}; give such a one")


@dataclass(frozen=True)
class Transformation:
    """What was fitted to each source of some features."""

    sources: tuple[FittedTable, ...]

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return everything that was fitted as arrays and as a JSON-able table."""
        arrays: dict[str, NDArray[Any]] = {}
        described: list[dict[str, Any]] = []
        for number, source in enumerate(self.sources):
            columns: list[dict[str, Any]] = []
            for place, column in enumerate(source.columns):
                fields, own = column.to_state()
                columns.append({**fields, "kind": column.kind})
                arrays |= {f"{number}.{place}.{name}": array for name, array in own.items()}
            described.append({"item": source.item, "columns": columns})
        return arrays, {"sources": described}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], manifest: Mapping[str, Any]) -> Self:
        """Return the transformation that `to_arrays` described; a `DataError` if it is damaged."""
        try:
            sources: list[FittedTable] = []
            for number, described in enumerate(manifest["sources"]):
                columns: list[FittedColumn] = []
                for place, fields in enumerate(described["columns"]):
                    prefix = f"{number}.{place}."
                    own = {
                        name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)
                    }
                    columns.append(COLUMNS[fields["kind"]].from_state(fields, own))
                item = described["item"]
                if not isinstance(item, str | None) or (item is None and len(columns) != 1):
                    raise ValueError("a source does not fit")
                sources.append(FittedTable(item, tuple(columns)))
            return cls(tuple(sources))
        except Exception as error:  # whatever forged content raises
            raise DataError(f"the transformation is damaged ({describe_damage(error)}); fit it again") from None

    def is_same(self, other: "Transformation") -> bool:
        """Tell whether both were fitted to the same."""
        if self is other:
            return True
        (arrays, fields), (others, other_fields) = self.to_arrays(), other.to_arrays()
        return (
            fields == other_fields
            and arrays.keys() == others.keys()
            and all(np.array_equal(array, others[name]) for name, array in arrays.items())
        )

    @property
    def sizes(self) -> dict[str, int]:
        """Number of numbers that each column gives."""
        sizes: dict[str, int] = {}
        for column in (column for source in self.sources for column in source.columns):
            sizes[column.name] = sizes.get(column.name, 0) + column.size
        return sizes


def ids_in_table(frame: Any, item: str) -> IdMap:
    """Return the item ids of a table, one row each."""
    if not hasattr(frame, "columns"):
        raise DataError(f"expected a pandas or polars DataFrame, got {quote(frame)}; give a matrix to from_matrix")
    ids = column_of(frame, item)
    if not len(ids):
        raise DataError("the table has no rows; give one with items")
    try:
        return IdMap(ids)
    except DataError as error:
        raise DataError(f"column {quote(item)}: {error}; give one row for each item") from None


def ids_of_rows(item_ids: Iterable[Hashable] | None, n_rows: int) -> IdMap:
    """Return the ids of a matrix's rows; by default their positions."""
    ids = IdMap(np.arange(n_rows) if item_ids is None else item_ids)
    if len(ids) != n_rows:
        raise DataError(f"the matrix has {n_rows:,} rows, but there are {len(ids):,} item_ids; give one for each row")
    return ids


def to_rows(matrix: Any) -> "sp.csr_array[np.float32] | NDArray[Any]":
    """Return a matrix as checked rows: dense float32 or float64, or sparse float32 with entries above 0."""
    if hasattr(matrix, "columns"):
        raise DataError("a data frame is not a matrix; use from_frame(frame, item=…)")
    refuse_masked(matrix, "entries of the matrix")
    is_sparse: bool = sp.issparse(matrix)
    if not is_sparse:
        try:
            dense = np.asarray(matrix)
        except ValueError as error:
            raise DataError(f"the matrix must be two-dimensional: {describe_damage(error)}") from None
        if dense.ndim != 2 or dense.dtype.kind not in "biuf" or not dense.size:
            raise DataError(f"the matrix must be two-dimensional and hold real numbers, got {quote(matrix)}")
        return dense if dense.dtype in (np.float32, np.float64) else dense.astype(np.float32)
    if len(matrix.shape) != 2 or matrix.dtype.kind not in "biuf" or not all(matrix.shape):
        raise DataError(f"the matrix must be two-dimensional and hold real numbers, got {quote(matrix)}")
    rows, columns, values = sparse_entries(matrix)
    if not np.all(values >= 0) or not np.isfinite(values).all():  # the first is false for NaN, too
        raise DataError("a sparse matrix of features must have finite entries >= 0, such as counts; give others dense")
    above = values > 0
    csr = sp.csr_array((values[above].astype(np.float32), (rows[above], columns[above])), shape=matrix.shape)
    csr.sum_duplicates()
    return csr
