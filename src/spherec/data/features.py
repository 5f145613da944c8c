"""Features of items: what is known about an item besides who has it, as numbers, and how they were made."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from os import PathLike
from typing import Any, Self, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spherec.data.container import checksum, decoding, read_container, write_container
from spherec.data.feature_columns import (
    COLUMN_CLASSES,
    Column,
    Counts,
    FitOptions,
    Kind,
    VectorColumn,
    WordColumn,
    fit_column,
    name_kind,
    read_cells,
    read_column,
)
from spherec.data.frames import sparse_entries
from spherec.data.id_arrays import decode_ids, decode_names, encode_ids, encode_names
from spherec.data.ids import IdMap, describe_id, refuse_masked, refuse_twins, spell_like
from spherec.data.input_files import describe_damage
from spherec.errors import ArgumentError, DataError, enumerate_ids, quote

_KIND = "spherec-features"  # of the file


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
        is_sparse, width = self._shape
        return f"a {'sparse' if is_sparse else 'dense'} matrix of {width:,} columns ({names})"

    @np.errstate(over="ignore", invalid="ignore")  # too large numbers become infinite, and are refused
    def transform(self, content: Any, item_ids: Iterable[Hashable] | None = None) -> "Features":
        """Return the features of the items of a table, or of the rows of a matrix, like the one that was fitted."""
        rows = None if self.item is not None or _is_table(content) else _to_rows(content)
        if self.item is not None and _is_table(content):
            ids = _ids_in_table(content, self.item)
            parts = [column.encode(read_cells(content, column.name)) for column in self.columns]
        elif rows is not None and self._shape == (sp.issparse(rows), rows.shape[1]):
            ids = _ids_of_rows(item_ids, rows.shape[0])
            parts = [self.columns[0].encode(rows)]
        else:
            raise DataError(f"the features were made of {self.describe()}, got {quote(content)}; give such a one")
        missing = [
            (f"{column.name}: missing", int((~part[1]).sum())) for column, part in zip(self.columns, parts, strict=True)
        ]
        unknown = tuple(count for part in parts for count in part[2])
        return Features(
            ids,
            np.concatenate([part[0] for part in parts], axis=1),
            np.any([part[1] for part in parts], axis=0),
            Transformation((self,)),
            (*(count for count in missing if count[1]), *unknown),
            unknown,
        )

    @property
    def _shape(self) -> tuple[bool, int]:
        """Sparse or not, and the number of columns of the matrix."""
        column = self.columns[0]
        return (True, column.width or 0) if isinstance(column, WordColumn) else (False, column.size)


@dataclass(frozen=True)
class Transformation:
    """The parts that were fitted, one for each source."""

    sources: tuple[Source, ...]

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return everything that was fitted as arrays and as a JSON-able table."""
        arrays: dict[str, NDArray[Any]] = {}
        sources: list[dict[str, Any]] = []
        for number, source in enumerate(self.sources):
            tables = [_write_column(column, arrays, f"{number}.{at}") for at, column in enumerate(source.columns)]
            sources.append({"item": source.item, "columns": tables})
        return arrays, {"sources": sources}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], manifest: Mapping[str, Any]) -> Self:
        """Return the transformation that `to_arrays` described; any exception may say that it is damaged."""
        sources = []
        for number, table in enumerate(manifest["sources"]):
            columns = (_read_column(one, arrays, f"{number}.{at}") for at, one in enumerate(table["columns"]))
            sources.append(Source(table["item"], tuple(columns)))
        return cls(tuple(sources))

    def is_same(self, other: "Transformation") -> bool:
        """Tell whether both were fitted to the same."""
        (arrays, table), (others, other_table) = self.to_arrays(), other.to_arrays()
        return table == other_table and checksum(*arrays.values()) == checksum(*others.values())

    @property
    def sizes(self) -> dict[str, int]:
        """Number of numbers that each column gives."""
        sizes: Counter[str] = Counter()
        for column in (column for source in self.sources for column in source.columns):
            sizes[column.name] += column.size
        return dict(sizes)


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
        for array, dtype, wanted in ((self.matrix, np.float32, shape), (self.known, np.bool_, shape[:1])):
            if array.shape != wanted or array.dtype != dtype:
                raise DataError(f"features must be {dtype.__name__} of shape {wanted}, got {array.dtype} {array.shape}")
        if not np.isfinite(self.matrix.sum(dtype=np.float64)):  # of float32, this sum is finite if all are
            item = self.item_ids[int((~np.isfinite(self.matrix)).any(1).argmax())]
            raise DataError(f"the features of {quote(item)} are too large; correct them")
        for name in ("matrix", "known"):
            view = getattr(self, name).view()
            view.setflags(write=False)
            object.__setattr__(self, name, view)

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")
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
            frame: The table; or a dict of columns.
            item: The column with the external ids of items. Each id stands in one row.
            kinds: The kinds of columns: "number", "category", "tags" (a list, or a text with |, ; or , between tags),
                "text", "vector" (a list of numbers) or "skip". By default guessed from the cells, see `guess_kind`;
                a column that tells no items apart is then left out, and named in `left_out`.
            dims: The largest number of numbers that a column of categories, tags or text gives.
            min_items: Words and tags that fewer items have are left out; such categories share one place.
            seed: The seed of the truncated SVD.
        """
        options, n_items = FitOptions(dims, min_items, seed), len(_ids_in_table(frame, item))
        names = [str(name) for name in getattr(frame, "columns", frame) if str(name) != str(item)]
        chosen = dict(kinds or {})
        for name, kind in chosen.items():
            if name not in names or kind not in get_args(Kind):
                allowed = f"{', '.join(map(quote, names))} and one of {', '.join(get_args(Kind))}"
                raise ArgumentError(f"kinds needs a column of {allowed}, got {quote(name)}: {quote(kind)}")
        columns: list[Column] = []
        left_out: list[tuple[str, int]] = []
        for name in names:
            if chosen.get(name) == "skip":
                continue
            column = fit_column(name, read_cells(frame, name), chosen.get(name), options)
            if column is not None:
                columns.append(column)
            elif name not in chosen:
                left_out.append((f"{name}: tells no items apart", n_items))
            else:
                raise DataError(f"column {quote(name)} tells no items apart; leave it out: {name_kind(name, 'skip')}")
        if not columns:
            raise DataError(f"no column but {quote(item)} tells items apart; give a table with features")
        made = Source(str(item), tuple(columns)).transform(frame)
        return replace(made, left_out=(*left_out, *made.left_out), unknown=())

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")
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
            dims: As in `from_frame`, where a column of a sparse matrix is a word.
            min_items: Likewise.
            seed: Likewise.
        """
        options, rows = FitOptions(dims, min_items, seed), _to_rows(matrix)
        column: Column | None
        if isinstance(rows, np.ndarray):
            column = VectorColumn.fit(name, rows)
        else:
            column = WordColumn.fit_matrix(name, rows, options)
        if column is None:
            raise DataError(
                f"{quote(name)} tells no items apart: all its rows are zeros or NaN, or no column has entries of "
                f"{min_items} items; give another matrix"
            )
        return replace(Source(None, (column,)).transform(rows, item_ids), unknown=())

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

    def transform(self, *contents: Any, item_ids: Iterable[Hashable] | None = None) -> "Features":
        """Return the features of other items, made by the same fitted transformation.

        Categories, tags and words that were not there when it was fitted are ignored, and numbers are cut to the range
        that was there; both are counted in `unknown`. A missing column or another width is a `DataError`.

        Args:
            contents: A data frame or matrix like the first one; of joined features one for each, in the same order.
            item_ids: The external ids of the rows of matrices; by default their positions.
        """
        sources = self.transformation.sources
        if len(contents) != len(sources):
            raise ArgumentError(f"the features came from {len(sources)} tables, got {len(contents)}; give them all")
        ids = None if item_ids is None else list(item_ids)
        return Features.join(*(source.transform(one, ids) for source, one in zip(sources, contents, strict=True)))

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
        numbers, known = self._select(ids)
        return replace(self, item_ids=ids, matrix=numbers, known=known)

    def spell_ids(self, item_ids: IdMap) -> "Features":
        """Return the same features with ids written as these: 7 as "7" among texts, "7" as 7 among whole numbers."""
        return replace(self, item_ids=IdMap(spell_like(self.item_ids, item_ids.array)))

    def save(self, path: str | PathLike[str], *, compress: bool = False) -> None:
        """Write one self-contained file atomically, without pickle."""
        arrays, manifest = self.transformation.to_arrays()
        arrays |= {"matrix": self.matrix, "known": self.known, **encode_ids(self.item_ids, "item_ids")}
        manifest |= {"left_out": [list(one) for one in self.left_out]}
        write_container(path, _KIND, arrays, manifest, compress=compress)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a file that `save` wrote, checked against its checksums.

        A compressed file that would unpack to more than 200 times its size, and more than 0.27 GB, is refused.
        """
        arrays, manifest = read_container(path, _KIND, remedy="make it again")
        with decoding(path, "make it again"):
            ids = IdMap(decode_ids(arrays, "item_ids"))
            left_out = tuple((str(what), int(count)) for what, count in manifest["left_out"])
            transformation = Transformation.from_arrays(arrays, manifest)
            return cls(ids, arrays["matrix"], arrays["known"], transformation, left_out)

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
        here = index >= 0
        numbers = np.where(here[:, None], self.matrix[index], np.float32(0))
        return numbers, here & self.known[index]

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {size}" for name, size in self.transformation.sizes.items())
        return f"Features(items={self.n_items:,}, of them known={int(self.known.sum()):,}, {sizes})"


def _write_column(column: Column, arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, Any]:
    """Add the arrays of a column under this prefix, and return its other fields."""
    table: dict[str, Any] = {"class": type(column).__name__}
    for name, value in ((field.name, getattr(column, field.name)) for field in fields(column)):
        if isinstance(value, np.ndarray):
            arrays[f"{prefix}.{name}"] = value
        elif isinstance(value, tuple):
            arrays |= encode_names(value, f"{prefix}.{name}")
        else:
            table[name] = value
    return table


def _read_column(table: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], prefix: str) -> Column:
    """Return the column that `_write_column` described; a ValueError if its parts do not fit each other."""
    kind = COLUMN_CLASSES[table["class"]]
    values = {name: value for name, value in table.items() if name != "class"}
    for name in {field.name for field in fields(kind)} - set(values):
        key = f"{prefix}.{name}"
        values[name] = arrays[key] if key in arrays else decode_names(arrays, key)
    column = kind(**values)
    if not isinstance(column.name, str) or not column.is_whole():
        raise ValueError(f"the parts of the column {quote(column.name)} do not fit each other")
    return column


def _is_table(content: Any) -> bool:
    return hasattr(content, "columns") or isinstance(content, Mapping)


def _ids_in_table(table: Any, item: str) -> IdMap:
    """Return the item ids of a table, one row each."""
    ids = read_column(table, item)
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


def _to_rows(matrix: Any) -> Any:
    """Return a matrix as checked rows: dense float32 or float64, or sparse float32 with entries above 0."""
    refuse_masked(matrix, "entries of the matrix")
    try:
        rows: Any = matrix if sp.issparse(matrix) else np.asarray(matrix)
    except ValueError as error:
        raise DataError(f"the matrix must be two-dimensional: {describe_damage(error)}") from None
    if len(rows.shape) != 2 or rows.dtype.kind not in "biuf" or not all(rows.shape) or _is_table(matrix):
        raise DataError(f"the matrix must be two-dimensional and hold real numbers, got {quote(matrix)}")
    if isinstance(rows, np.ndarray):
        return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float32)
    places, columns, values = sparse_entries(rows)
    counts: Any = sp.csr_array((values.astype(np.float32), (places, columns)), shape=rows.shape)
    counts.sum_duplicates()
    counts.eliminate_zeros()
    if not np.isfinite(counts.data).all() or (counts.data < 0).any():
        raise DataError("a sparse matrix of features must have finite entries >= 0, such as counts; give others dense")
    return counts
