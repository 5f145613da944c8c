"""Features of items: what is known about an item besides who has it, as numbers.

import spherec

features = spherec.Features.from_frame(books, item="isbn", kinds={"blurb": "text"})
features.matrix                                # (I, F) float32
tomorrow = features.transform(new_books)       # other items through the same, fitted transformation
features.save("books.features.npz")
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, Self, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spherec.data.archive import checksum, read_archive, write_archive
from spherec.data.feature_columns import (
    Column,
    Counts,
    CountsColumn,
    Encoded,
    FitOptions,
    Kind,
    VectorColumn,
    fit_column,
    name_kind,
    read_cells,
    read_column,
)
from spherec.data.frames import column_of, sparse_entries
from spherec.data.id_arrays import decode_ids, encode_ids
from spherec.data.ids import IdMap, describe_id, refuse_masked, refuse_twins, spell_like
from spherec.data.input_files import describe_damage
from spherec.errors import ArgumentError, DataError, describe_missing_column, enumerate_ids, quote, suggest

_FORMAT, _VERSION = "spherec-features", 1  # of the file


@dataclass(frozen=True)
class Source:
    """The fitted columns of one source: a table, or a matrix."""

    item: str | None
    "Column of item ids in a table; None for a matrix."
    columns: tuple[Column, ...]

    def describe(self) -> str:
        """Return what it was fitted to, for messages."""
        names = ", ".join(quote(column.name) for column in self.columns)
        if self.item is not None:
            return f"a table with the columns {quote(self.item)}, {names}"
        if isinstance(self.columns[0], CountsColumn):
            return f"lists of words or tags, or a sparse matrix ({names})"
        return f"a dense matrix of {self.columns[0].size:,} columns ({names})"

    def transform(self, table: Any, item_ids: Iterable[Hashable] | None = None) -> "Features":
        """Return the features of the items of another table, or of the rows of another matrix."""
        if self.item is not None and hasattr(table, "columns"):
            named = {str(name): name for name in table.columns}
            absent = next((column.name for column in self.columns if column.name not in named), None)
            if absent is not None:
                raise DataError(describe_missing_column(absent, list(named)))
            ids = _ids_in_table(table, self.item)
            parts = [column.encode(read_cells(table, named[column.name])) for column in self.columns]
        elif self.item is None and not hasattr(table, "columns"):
            (column,), rows = self.columns, _to_rows(table)
            width = column.n_columns if isinstance(column, CountsColumn) else column.size
            if isinstance(column, CountsColumn) != sp.issparse(rows) or rows.shape[1] != width:
                kind = "sparse" if sp.issparse(rows) else "dense"
                raise DataError(
                    f"the features were made of {self.describe()} and {width:,} columns, got a {kind} matrix of "
                    f"{rows.shape[1]:,}; give such a one"
                )
            ids = _ids_of_rows(item_ids, rows.shape[0])
            parts = [column.encode(rows)]
        else:
            raise DataError(f"the features were made of {self.describe()}, got {quote(table)}; give such a one")
        unknown = tuple(one for part in parts for one in part.unknown)
        return _assemble(ids, self, parts, unknown, unknown)


@dataclass(frozen=True)
class Transformation:
    """What was fitted to each source of some features."""

    sources: tuple[Source, ...]

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return everything that was fitted as arrays and as a JSON-able table."""
        arrays: dict[str, NDArray[Any]] = {}
        described: list[dict[str, Any]] = []
        for number, source in enumerate(self.sources):
            states = [column.to_state() for column in source.columns]
            described.append({"item": source.item, "columns": [table for table, _ in states]})
            for place, (_, own) in enumerate(states):
                arrays |= {f"{number}.{place}.{name}": array for name, array in own.items()}
        return arrays, {"sources": described}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], manifest: Mapping[str, Any]) -> Self:
        """Return the transformation that `to_arrays` described; a `DataError` if it is damaged."""
        own: dict[tuple[str, str], dict[str, NDArray[Any]]] = {}  # by number of source and of column
        for name, array in arrays.items():
            number, place, field = name.split(".", 2)
            own.setdefault((number, place), {})[field] = array
        try:
            return cls(
                tuple(
                    Source(
                        described["item"],
                        tuple(
                            read_column(table, own.get((str(number), str(place)), {}))
                            for place, table in enumerate(described["columns"])
                        ),
                    )
                    for number, described in enumerate(manifest["sources"])
                )
            )
        except Exception as error:  # whatever forged content raises
            raise DataError(f"the transformation is damaged ({describe_damage(error)}); fit it again") from None

    def is_same(self, other: "Transformation") -> bool:
        """Tell whether both were fitted to the same."""
        (arrays, table), (others, other_table) = self.to_arrays(), other.to_arrays()
        return table == other_table and checksum(*arrays.values()) == checksum(*others.values())

    @property
    def sizes(self) -> dict[str, int]:
        """Number of numbers that each column gives."""
        sizes: dict[str, int] = {}
        for column in (column for source in self.sources for column in source.columns):
            sizes[column.name] = sizes.get(column.name, 0) + column.size
        return sizes


@dataclass(frozen=True, eq=False, repr=False)
class Features:
    """Features of I items, F numbers each, and the fitted transformation that made them.

    Build them with `spherec.read_features`, `from_frame`, `from_matrix`, `join` or `load`.
    """

    item_ids: IdMap
    "The external id of each row."
    matrix: NDArray[np.float32]
    "(I, F) the numbers, read-only; zeros for items without features."
    known: NDArray[np.bool_]
    "(I,) False for items without features."
    transformation: Transformation
    "The fitted transformation."
    left_out: Counts = ()
    "Content that gave no numbers, or was cut: a description such as 'genre: unknown categories', and how often."
    unknown: Counts = ()
    "The part of it that was not there when the transformation was fitted."

    def __post_init__(self) -> None:
        shape = len(self.item_ids), sum(self.transformation.sizes.values())
        if self.matrix.shape != shape or self.matrix.dtype != np.float32 or self.known.shape != shape[:1]:
            raise DataError(f"the matrix must be float32 of shape {shape}, got {self.matrix.dtype} {self.matrix.shape}")
        if not np.isfinite(self.matrix.sum(dtype=np.float64)):  # of float32, this sum is finite if all are
            item = self.item_ids[int((~np.isfinite(self.matrix)).any(1).argmax())]
            raise DataError(f"the features of {quote(item)} are too large; correct them")
        for name in ("matrix", "known"):
            view = getattr(self, name).view()
            view.setflags(write=False)
            object.__setattr__(self, name, view)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        item: str,
        kinds: Mapping[str, Kind] | None = None,
        dims: int = 300,
        min_items: int = 2,
        seed: int = 0,
    ) -> "Features":
        """Fit a transformation to a pandas or polars data frame, one row an item, and return its features.

        Args:
            frame: The table.
            item: The column with the external ids of items. Each id stands in one row.
            kinds: The kinds of columns: "number", "category", "tags" (a list, or a text with |, ; or , between tags),
                "text", "vector" (a list of numbers) or "skip". By default guessed from the cells, see `guess_kind`;
                a column that tells no items apart is then left out, and named in `left_out`.
            dims: The largest number of numbers that a column of categories, tags or text gives.
            min_items: Words and tags that fewer items have are left out; such categories share one place.
            seed: The seed of the truncated SVD.
        """
        options = _check_options(dims, min_items, seed)
        ids = _ids_in_table(frame, item)
        names = {str(name): name for name in frame.columns if name != item}
        chosen = _check_kinds(kinds or {}, list(names))
        columns: list[Column] = []
        parts: list[Encoded] = []
        left_out: list[tuple[str, int]] = []
        for text, name in names.items():
            if chosen.get(text) == "skip":
                continue
            cells = read_cells(frame, name)
            column, unused = fit_column(text, cells, chosen.get(text), options)
            if column is not None:
                left_out += unused
                columns.append(column)
                parts.append(column.encode(cells))
            elif text in chosen:
                raise DataError(f"column {quote(text)} tells no items apart; leave it out: {name_kind(text, 'skip')}")
            else:
                left_out.append((f"{text}: tells no items apart", len(cells)))
        if not columns:
            raise DataError(f"no column but {quote(item)} tells items apart; give a table with features")
        return _assemble(ids, Source(item, tuple(columns)), parts, tuple(left_out))

    @classmethod
    def from_matrix(
        cls,
        matrix: Any,
        item_ids: Iterable[Hashable] | None = None,
        *,
        name: str = "matrix",
        dims: int = 300,
        min_items: int = 2,
        seed: int = 0,
    ) -> "Features":
        """Fit a transformation to a matrix, one row an item, and return its features.

        A dense matrix has vectors, such as embeddings, and a row of NaN for an item without features. A scipy sparse
        matrix has counts >= 0, such as words or tags; it is never made dense.

        Args:
            matrix: The matrix (I, …).
            item_ids: The external ids of its rows; by default their positions.
            name: The name of these features in messages.
            dims: The largest number of numbers that a sparse matrix gives.
            min_items: Columns of a sparse matrix in which fewer items have an entry are left out.
            seed: The seed of the truncated SVD.
        """
        options = _check_options(dims, min_items, seed)
        rows: Any = _to_rows(matrix)
        ids = _ids_of_rows(item_ids, rows.shape[0])
        column: Column | None
        left_out: Counts = ()
        if isinstance(rows, sp.csr_array):
            column, left_out = CountsColumn.fit(name, rows, options)
        else:
            column = VectorColumn.fit(name, rows)
        if column is None:
            raise DataError(
                f"{quote(name)} tells no items apart: all its rows are zeros or NaN, or no column has entries of "
                f"{min_items} items; give another matrix"
            )
        return _assemble(ids, Source(None, (column,)), [column.encode(rows)], left_out)

    @classmethod
    def join(cls, *parts: "Features") -> "Features":
        """Return the features of several sources side by side, for all items that any of them has."""
        if not parts or not all(isinstance(part, Features) for part in parts):
            raise ArgumentError(f"give Features to join, got {enumerate_ids([type(part).__name__ for part in parts])}")
        if len(parts) == 1:
            return parts[0]
        for part in parts[1:]:
            refuse_twins(parts[0].item_ids, part.item_ids, "the first features have the item", "others have")
        ids = IdMap(dict.fromkeys(external for part in parts for external in part.item_ids))
        aligned = [part._select(ids) for part in parts]
        return cls(
            ids,
            np.concatenate([numbers for numbers, _ in aligned], axis=1),
            np.any([known for _, known in aligned], axis=0),
            Transformation(tuple(source for part in parts for source in part.transformation.sources)),
            tuple(one for part in parts for one in part.left_out),
            tuple(one for part in parts for one in part.unknown),
        )

    def split(self) -> tuple["Features", ...]:
        """Return the features of each source apart, for all items: what `join` joined.

        An item whose numbers of a source are all 0 is without features there.
        """
        parts: list[Features] = []
        end = 0
        for source in self.transformation.sources:
            begin, end = end, end + sum(column.size for column in source.columns)
            numbers = self.matrix[:, begin:end]
            parts.append(Features(self.item_ids, numbers, (numbers != 0).any(axis=1), Transformation((source,))))
        return tuple(parts)

    def transform(self, *tables: Any, item_ids: Iterable[Hashable] | None = None) -> "Features":
        """Return the features of other items, made by the same fitted transformation.

        Categories, tags and words that were not there when it was fitted are ignored, and numbers are cut to the range
        that was there; both are counted in `unknown`. A missing column or another width is a `DataError`.

        Args:
            tables: A data frame or matrix like the first one; of joined features one for each, in the same order.
            item_ids: The external ids of the rows of matrices; by default their positions.
        """
        sources = self.transformation.sources
        if len(tables) != len(sources):
            raise ArgumentError(f"the features came from {len(sources)} tables, got {len(tables)}; give them all")
        ids = None if item_ids is None else list(item_ids)
        return Features.join(*(source.transform(table, ids) for source, table in zip(sources, tables, strict=True)))

    def align(self, item_ids: Iterable[Hashable]) -> "Features":
        """Return the features of these items, in this order; those that are not here have none.

        A `DataError` is raised if none of them is here, or if ids are not written alike: `7` here and `"7"` there.
        """
        ids = item_ids if isinstance(item_ids, IdMap) else IdMap(item_ids)
        strange = [ids[int(index)] for index in np.flatnonzero(self.item_ids.find(ids) < 0)]
        refuse_twins(self.item_ids, strange, "the features have the item", "the data has")
        if len(ids) and len(strange) == len(ids):
            theirs = describe_id(self.item_ids[0]) if len(self.item_ids) else "absent"
            raise DataError(
                f"none of the {len(ids):,} items has features: ids are e.g. {theirs} in the features and "
                f"{describe_id(ids[0])} in the data; give features of the same items, with ids written alike"
            )
        return Features(ids, *self._select(ids), self.transformation, self.left_out, self.unknown)

    def spell_ids(self, item_ids: IdMap) -> "Features":
        """Return the same features with ids written as these: 7 as "7" among texts, "7" as 7 among whole numbers."""
        ids = IdMap(spell_like(self.item_ids, item_ids.array))
        return Features(ids, self.matrix, self.known, self.transformation, self.left_out, self.unknown)

    def save(self, path: str | PathLike[str], *, compress: bool = False) -> None:
        """Write one self-contained file atomically, without pickle."""
        arrays, manifest = self.transformation.to_arrays()
        arrays |= {"matrix": self.matrix, "known": self.known, **encode_ids(self.item_ids, "item_ids")}
        manifest |= {"left_out": [list(one) for one in self.left_out], "format": _FORMAT, "version": _VERSION}
        write_archive(path, arrays, manifest, compress=compress)

    @classmethod
    def load(cls, path: str | PathLike[str], *, max_unpacked: float | None = None) -> Self:
        """Read a file that `save` wrote, checked against its checksums.

        A compressed file that would unpack to more than `max_unpacked` GB is refused; by default, to more than 200
        times its size and more than 0.27 GB.
        """
        arrays, manifest = read_archive(path, _FORMAT, _VERSION, remedy="make it again", max_unpacked=max_unpacked)
        fitted = {name: array for name, array in arrays.items() if name[0].isdecimal()}
        try:
            ids = IdMap(decode_ids(arrays, "item_ids"))
            left_out = tuple((str(what), int(count)) for what, count in manifest["left_out"])
            transformation = Transformation.from_arrays(fitted, manifest)
            return cls(ids, arrays["matrix"], arrays["known"], transformation, left_out)
        except Exception as error:  # whatever forged content raises
            raise DataError(f"{path}: the features are damaged ({describe_damage(error)}); make them again") from None

    @property
    def fingerprint(self) -> str:
        """A checksum of whose features these are, and what they are."""
        return checksum(self.matrix, self.known, *encode_ids(self.item_ids, "ids").values())

    @property
    def n_items(self) -> int:
        """Number of items, I."""
        return len(self.item_ids)

    @property
    def n_features(self) -> int:
        """Number of numbers of each item, F."""
        return int(self.matrix.shape[1])

    def _select(self, ids: IdMap) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the rows (n, F) of these items, zeros for those that are not here, and which are known (n,)."""
        index = self.item_ids.find(ids)  # (n,)
        numbers = np.zeros((len(ids), self.n_features), dtype=np.float32)
        known = np.zeros(len(ids), dtype=bool)
        here = index >= 0
        numbers[here], known[here] = self.matrix[index[here]], self.known[index[here]]
        return numbers, known

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {size}" for name, size in self.transformation.sizes.items())
        without = int((~self.known).sum())
        return f"Features(items={self.n_items:,}{f' ({without:,} without)' if without else ''}, {sizes})"


def _assemble(ids: IdMap, source: Source, parts: list[Encoded], left_out: Counts, unknown: Counts = ()) -> Features:
    """Return the features of items by the numbers of all columns of a source."""
    return Features(
        ids,
        np.concatenate([part.numbers for part in parts], axis=1),
        np.any([part.known for part in parts], axis=0),
        Transformation((source,)),
        (*left_out, *(one for part in parts for one in part.left_out)),
        unknown,
    )


def _ids_in_table(frame: Any, item: str) -> IdMap:
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


def _ids_of_rows(item_ids: Iterable[Hashable] | None, n_rows: int) -> IdMap:
    """Return the ids of a matrix's rows; by default their positions."""
    ids = IdMap(np.arange(n_rows) if item_ids is None else item_ids)
    if len(ids) != n_rows:
        raise DataError(f"the matrix has {n_rows:,} rows, but there are {len(ids):,} item_ids; give one for each row")
    return ids


def _to_rows(matrix: Any) -> "sp.csr_array[np.float32] | NDArray[Any]":
    """Return a matrix as checked rows: dense float32 or float64, or sparse float32 with entries above 0."""
    if hasattr(matrix, "columns"):
        raise DataError("a data frame is not a matrix; use from_frame(frame, item=…)")
    refuse_masked(matrix, "entries of the matrix")
    is_sparse: bool = sp.issparse(matrix)
    try:
        rows: Any = matrix if is_sparse else np.asarray(matrix)
    except ValueError as error:
        raise DataError(f"the matrix must be two-dimensional: {describe_damage(error)}") from None
    if len(rows.shape) != 2 or rows.dtype.kind not in "biuf" or not all(rows.shape):
        raise DataError(f"the matrix must be two-dimensional and hold real numbers, got {quote(matrix)}")
    if not is_sparse:
        dense: NDArray[Any] = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float32)
        return dense
    places, columns, values = sparse_entries(rows)
    if not np.all(values >= 0) or not np.isfinite(values).all():  # the first is false for NaN, too
        raise DataError("a sparse matrix of features must have finite entries >= 0, such as counts; give others dense")
    above = values > 0
    csr = sp.csr_array((values[above].astype(np.float32), (places[above], columns[above])), shape=rows.shape)
    csr.sum_duplicates()
    return csr


def _check_options(dims: int, min_items: int, seed: int) -> FitOptions:
    if not isinstance(dims, int) or not 2 <= dims <= 4096:
        raise ArgumentError(f"dims must be a whole number from 2 to 4096, got {quote(dims)}; 300 is usual")
    if not isinstance(min_items, int) or min_items < 1:
        raise ArgumentError(f"min_items must be a whole number >= 1, got {quote(min_items)}; 2 is usual")
    return FitOptions(dims, min_items, seed)


def _check_kinds(kinds: Mapping[str, Kind], names: list[str]) -> dict[str, Kind]:
    for name, kind in kinds.items():
        if name not in names:
            raise ArgumentError(f"kinds: {describe_missing_column(name, names)}")
        if kind not in get_args(Kind):
            known = suggest(str(kind), get_args(Kind))
            raise ArgumentError(
                f"the kind of {quote(name)} must be one of {', '.join(get_args(Kind))}, got {quote(kind)}{known}"
            )
    return dict(kinds)
