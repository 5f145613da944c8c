"""Features of items: what is known about an item besides who has it, as numbers.

import spherec

features = spherec.Features.from_frame(books, item="isbn", kinds={"blurb": "text"})
features.matrix                                # (I, F) float32
tomorrow = features.transform(new_books)       # other items through the same, fitted transformation
features.save("books.features.npz")
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import Any, Self, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spherec.data.archive import checksum, read_archive, write_archive
from spherec.data.feature_cells import Kind, holds_dates, name_kind, read_cells
from spherec.data.feature_columns import CountsColumn, Encoded, FittedColumn, NumberColumn, VectorColumn, fit_column
from spherec.data.feature_transformation import FittedTable, Transformation, ids_in_table, ids_of_rows, to_rows
from spherec.data.feature_words import FitOptions, LeftOutCounts
from spherec.data.id_arrays import decode_ids, encode_ids
from spherec.data.ids import IdMap, describe_id, refuse_twins, spell_like
from spherec.data.input_files import describe_damage
from spherec.errors import ArgumentError, DataError, describe_missing_column, enumerate_ids, quote, suggest

_FORMAT, _VERSION = "spherec-features", 1  # of the file


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
    left_out: LeftOutCounts = field(default=())
    "Content that gave no numbers, or was cut: a description such as 'genre: unknown categories', and how often."
    unknown: LeftOutCounts = field(default=())
    "The part of it that was not there when the transformation was fitted."

    def __post_init__(self) -> None:
        n_items, size = len(self.item_ids), sum(self.transformation.sizes.values())
        if self.matrix.shape != (n_items, size) or self.matrix.dtype != np.float32:
            raise DataError(
                f"the matrix must be float32 of shape ({n_items:,}, {size:,}), got {self.matrix.dtype} "
                f"{self.matrix.shape}"
            )
        if self.known.shape != (n_items,) or self.known.dtype != np.bool_:
            raise DataError(f"known must have {n_items:,} booleans, got {self.known.dtype} {self.known.shape}")
        if not np.isfinite(self.matrix.sum(dtype=np.float64)):  # of float32, this sum is finite if all are
            raise DataError(f"row {int((~np.isfinite(self.matrix)).any(1).argmax())} of the matrix has NaN or infinity")
        for name in ("matrix", "known"):
            view = getattr(self, name).view()
            view.setflags(write=False)
            object.__setattr__(self, name, view)

    @property
    def fingerprint(self) -> str:
        """A checksum of whose features these are, and what they are."""
        return checksum(self.matrix, self.known, *encode_ids(self.item_ids, "ids").values())

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
        ids = ids_in_table(frame, item)
        names = [name for name in frame.columns if name != item]
        chosen = _check_kinds(kinds or {}, [str(name) for name in names])
        columns: list[FittedColumn] = []
        parts: list[Encoded] = []
        left_out: list[tuple[str, int]] = []
        for name in names:
            kind = chosen.get(str(name))
            if kind == "skip":
                continue
            cells = read_cells(frame, name)
            column, unused = fit_column(str(name), cells, kind, options)
            if column is None and kind is not None:
                raise DataError(
                    f"column {quote(name)} tells no items apart as {kind}; leave it out: {name_kind(str(name), 'skip')}"
                )
            if column is None:
                left_out.append((f"{name}: tells no items apart", len(cells)))
                continue
            if isinstance(column, NumberColumn) and holds_dates(frame, name):
                column = replace(column, is_date=True)
            left_out += unused
            columns.append(column)
            parts.append(column.encode(cells))
        if not columns:
            raise DataError(f"no column but {quote(item)} tells items apart; give a table with features")
        return _assemble(ids, parts, FittedTable(item, tuple(columns)), tuple(left_out))

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
        rows: Any = to_rows(matrix)
        ids = ids_of_rows(item_ids, rows.shape[0])
        column: FittedColumn | None
        left_out: LeftOutCounts = ()
        if isinstance(rows, sp.csr_array):
            column, left_out = CountsColumn.fit(name, rows, options)
            reason = f"no column has entries of {min_items} items"
        else:
            column, reason = VectorColumn.fit(name, rows), "all rows are zeros or NaN"
        if column is None:
            raise DataError(f"{quote(name)} tells no items apart: {reason}; give another matrix")
        return _assemble(ids, [column.encode(rows)], FittedTable(None, (column,)), left_out)

    @classmethod
    def join(cls, *parts: "Features") -> "Features":
        """Return the features of several sources side by side, for all items that any of them has."""
        if not parts or not all(isinstance(part, Features) for part in parts):
            raise ArgumentError(f"give Features to join, got {enumerate_ids([type(part).__name__ for part in parts])}")
        if len(parts) == 1:
            return parts[0]
        first = parts[0].item_ids
        for part in parts[1:]:
            refuse_twins(first, part.item_ids, "the first features have the item", "others have")
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

    def append(self, new: "Features", item_ids: IdMap) -> "Features":
        """Return the features of all these ids: first the items that are here, then those of `new`.

        Both must come from the same transformation.
        """
        return _AppendedFeatures(self, new, item_ids)

    def split(self) -> tuple["Features", ...]:
        """Return the features of each source apart, for all items: what `join` joined.

        An item whose numbers of a source are all 0 is without features there.
        """
        parts: list[Features] = []
        end = 0
        for source in self.transformation.sources:
            begin, end = end, end + sum(column.size for column in source.columns)
            numbers = self.matrix[:, begin:end]
            has_any: NDArray[np.bool_] = np.any(numbers != 0, axis=1)
            parts.append(Features(self.item_ids, numbers, has_any, Transformation((source,))))
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
        given = None if item_ids is None else list(item_ids)
        parts: list[Features] = []
        for source, table in zip(sources, tables, strict=True):
            ids, columns = source.encode(table, given)
            unknown = tuple(one for column in columns for one in column.unknown)
            parts.append(_assemble(ids, columns, source, unknown, unknown))
        return Features.join(*parts)

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

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return everything, the transformation included, as arrays and as a JSON-able table."""
        arrays, manifest = self.transformation.to_arrays()
        arrays |= {"matrix": self.matrix, "known": self.known, **encode_ids(self.item_ids, "item_ids")}
        return arrays, {**manifest, "left_out": [list(one) for one in self.left_out]}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], manifest: Mapping[str, Any]) -> Self:
        """Return the features that `to_arrays` described; a `DataError` if they are damaged."""
        transformation = Transformation.from_arrays(arrays, manifest)
        try:
            return cls(
                IdMap(decode_ids(arrays, "item_ids")),
                arrays["matrix"],
                arrays["known"],
                transformation,
                tuple((str(description), int(number)) for description, number in manifest["left_out"]),
            )
        except Exception as error:  # whatever forged content raises
            raise DataError(f"the features are damaged ({describe_damage(error)}); make them again") from None

    def save(self, path: str | PathLike[str], *, compress: bool = False) -> None:
        """Write one self-contained file atomically: an .npz archive that NumPy alone can read."""
        arrays, manifest = self.to_arrays()
        write_archive(path, arrays, {**manifest, "format": _FORMAT, "version": _VERSION}, compress=compress)

    @classmethod
    def load(cls, path: str | PathLike[str], *, max_unpacked: float | None = None) -> Self:
        """Read a file that `save` wrote, checked against its checksums.

        A compressed file that would unpack to more than `max_unpacked` GB is refused; by default, to more than 200
        times its size and more than 0.27 GB.
        """
        arrays, manifest = read_archive(path, _FORMAT, _VERSION, remedy="make it again", max_unpacked=max_unpacked)
        try:
            return cls.from_arrays(arrays, manifest)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    @property
    def n_items(self) -> int:
        """Number of items, I."""
        return len(self.item_ids)

    @property
    def n_features(self) -> int:
        """Number of numbers of each item, F."""
        return sum(self.transformation.sizes.values())

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


class _AppendedFeatures(Features):
    """Features whose matrix is put together when it is first read: adding a few items does not copy all others."""

    def __init__(self, old: Features, new: Features, item_ids: IdMap) -> None:
        of_old = old.__dict__.get("_blocks") or (old.matrix,)
        fields = {
            "item_ids": item_ids,
            "known": np.concatenate((old.known, new.known)),
            "transformation": old.transformation,
            "left_out": (*old.left_out, *new.left_out),
            "unknown": (),
            "_blocks": (*of_old, new.matrix),
        }
        self.__dict__.update(fields)

    @cached_property
    def matrix(self) -> NDArray[np.float32]:
        """(I, F) the numbers, read-only; zeros for items without features."""
        matrix = np.concatenate(self.__dict__["_blocks"])
        matrix.setflags(write=False)
        self.__dict__["_blocks"] = (matrix,)
        return matrix


def _assemble(
    ids: IdMap, columns: list[Encoded], source: FittedTable, left_out: LeftOutCounts, unknown: LeftOutCounts = ()
) -> Features:
    """Return the features of items by the numbers of all columns of a source."""
    return Features(
        ids,
        np.concatenate([column.numbers for column in columns], axis=1),
        np.any([column.known for column in columns], axis=0),
        Transformation((source,)),
        (*left_out, *(one for column in columns for one in column.left_out)),
        unknown,
    )


def _check_options(dims: int, min_items: int, seed: int) -> FitOptions:
    is_whole: Callable[[object], bool] = lambda value: isinstance(value, int) and not isinstance(value, bool)  # noqa: E731
    if not is_whole(dims) or not 2 <= dims <= 4096:
        raise ArgumentError(f"dims must be a whole number from 2 to 4096, got {quote(dims)}; 300 is usual")
    if not is_whole(min_items) or min_items < 1:
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
