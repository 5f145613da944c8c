"""Features of items: what is known about an item besides who has it, as numbers, and how they were made."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spherec.data.container import checksum
from spherec.data.feature_columns import MISSING, Column, Kind, VectorColumn, WordColumn, fit_cells, read_cells
from spherec.data.frames import column_of, read_matrix
from spherec.data.ids import IdMap, decode_names, describe_id, encode_ids, encode_names, refuse_twins, spell_like
from spherec.errors import ArgumentError, DataError, quote

Counts = tuple[tuple[str, int], ...]
"""Content that gave no numbers, or was cut: a description such as "genre: missing", and how often."""


@dataclass(frozen=True)
class Source:
    """The fitted columns of one table or matrix."""

    item: str | None
    "Column of item ids in a table; None for a matrix."
    columns: tuple[Column, ...]

    def describe(self) -> str:
        """Return what it was fitted to, for messages."""
        names = ", ".join(quote(column.name) for column in self.columns)
        kind, width = self._shape
        table = f"a table with the columns {quote(self.item)}, {names}"
        return table if self.item is not None else f"a {kind} matrix of {width} columns ({names})"

    @property
    def _shape(self) -> tuple[str, int | None]:
        column = self.columns[0]
        return ("sparse", column.width) if isinstance(column, WordColumn) else ("dense", column.size)

    @np.errstate(over="ignore", invalid="ignore")  # too large numbers become infinite, and are refused
    def transform(self, content: Any, item_ids: Iterable[Hashable] | None = None) -> "Features":
        """Return the features of the items of a table, or of the rows of a matrix, like the one that was fitted."""
        if self.item is None:
            rows = read_matrix(content)
            if self._shape != ("sparse" if sp.issparse(rows) else "dense", rows.shape[1]):
                raise DataError(f"the features were made of {self.describe()}, got {quote(content)}; give such a one")
            ids, parts = IdMap(range(rows.shape[0]) if item_ids is None else item_ids), [self.columns[0].encode(rows)]
        else:
            try:
                ids = IdMap(column_of(content, self.item))
            except DataError as error:
                raise DataError(f"column {quote(self.item)}: {error}; give one row for each item") from None
            parts = [column.encode(read_cells(content, column.name)) for column in self.columns]
        numbers, known, counts = zip(*parts, strict=True)
        counted = [(c.name, why, n) for c, own in zip(self.columns, counts, strict=True) for why, n in own.items() if n]
        left_out = tuple((f"{name}: {why}", n) for name, why, n in counted)
        unknown = tuple((f"{name}: {why}", n) for name, why, n in counted if why != MISSING)
        return Features(ids, np.concatenate(numbers, 1), np.any(known, 0), (self,), left_out, unknown)


@dataclass(frozen=True, eq=False, repr=False)
class Features:
    """Features of I items, F numbers each, and the fitted columns that made them.

    Build them with `spherec.read_features`, `from_frame`, `from_matrix` or `join`.
    """

    item_ids: IdMap
    "The external id of each row."
    matrix: NDArray[np.float32]
    "(I, F) the numbers, read-only; zeros for items without features."
    known: NDArray[np.bool_]
    "(I,) False for items without features."
    sources: tuple[Source, ...]
    "The tables and matrices that were fitted."
    left_out: Counts = ()
    "Content that gave no numbers, or was cut, and how often."
    unknown: Counts = ()
    "The part of it that was not there when the sources were fitted."

    def __post_init__(self) -> None:
        shape = len(self.item_ids), sum(self.sizes.values())
        if self.matrix.shape != shape or self.known.shape != shape[:1] or self.known.dtype != np.bool_:
            raise DataError(f"features of {shape[0]:,} items must be of shape {shape}, got {self.matrix.shape}")
        if not np.isfinite(self.matrix.sum(dtype=np.float64)):  # of float32, this sum is finite if all are
            item = self.item_ids[int((~np.isfinite(self.matrix)).any(1).argmax())]
            raise DataError(f"the features of {quote(item)} are too large or not finite; correct them, or leave it out")
        self.matrix.setflags(write=False)

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")
    def from_frame(
        cls, frame: Any, *, item: str, kinds: Mapping[str, Kind] | None = None, dims: int = 300
    ) -> "Features":
        """Fit columns to a pandas or polars data frame, or a dict of columns, and return the features of its items.

        Each id of the column `item` stands in one row. A column that tells no items apart is left out, and named in
        `left_out`; so are words, tags and categories of a single item.

        Args:
            frame: The table.
            item: The column with the external ids of items.
            kinds: The kinds of columns: "number", "category", "tags" (a list, or a text with |, ; or , between tags),
                "text" or "skip". By default guessed from the cells.
            dims: The largest number of numbers that a column of categories, tags or text gives.
        """
        names = [str(name) for name in getattr(frame, "columns", frame) if str(name) != str(item)]
        chosen = {str(name): kind for name, kind in (kinds or {}).items()}
        for name, kind in chosen.items():
            if name not in names or kind not in get_args(Kind):
                allowed = f"{', '.join(map(quote, names))} and one of {', '.join(get_args(Kind))}"
                raise ArgumentError(f"kinds needs a column of {allowed}, got {quote(name)}: {quote(kind)}")
        fitted = {
            name: fit_cells(name, read_cells(frame, name), chosen.get(name), dims)
            for name in names
            if chosen.get(name) != "skip"
        }
        columns = tuple(column for column in fitted.values() if column is not None)
        if not columns:
            raise DataError(f"no column but {quote(item)} tells items apart; give a table with features")
        made = Source(str(item), columns).transform(frame)
        equal = ((f"{name}: tells no items apart", made.n_items) for name, column in fitted.items() if column is None)
        return replace(made, left_out=(*equal, *made.left_out), unknown=())

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")
    def from_matrix(
        cls, matrix: Any, item_ids: Iterable[Hashable] | None = None, *, name: str = "matrix", dims: int = 300
    ) -> "Features":
        """Fit a column to a matrix, one row an item, and return its features, which messages call `name`.

        A dense matrix has vectors, such as embeddings, and a row of NaN for an item without features. A scipy sparse
        matrix has counts >= 0, such as words or tags, and gives at most `dims` numbers; it is never made dense. Ids
        are by default positions.
        """
        rows = read_matrix(matrix)
        column = WordColumn.fit(name, rows, dims) if sp.issparse(rows) else VectorColumn.fit(name, rows)
        if column is None:
            why = "all its rows are zeros or NaN, or no column has entries of two items"
            raise DataError(f"{quote(name)} tells no items apart: {why}; give another matrix")
        return replace(Source(None, (column,)).transform(rows, item_ids), unknown=())

    @classmethod
    def join(cls, *parts: "Features") -> "Features":
        """Return the features of several sources side by side, for all items that any of them has."""
        if len(parts) == 1:
            return parts[0]
        for part in parts[1:]:
            refuse_twins(parts[0].item_ids, part.item_ids, "the first features have the item", "others have")
        ids = IdMap(dict.fromkeys(external for part in parts for external in part.item_ids))
        numbers, known = zip(*(part._select(ids) for part in parts), strict=True)
        rest = ("sources", "left_out", "unknown")
        sources, left_out, unknown = (tuple(chain(*(getattr(part, name) for part in parts))) for name in rest)
        return cls(ids, np.concatenate(numbers, axis=1), np.any(known, axis=0), sources, left_out, unknown)

    def transform(self, *contents: Any, item_ids: Iterable[Hashable] | None = None) -> "Features":
        """Return the features of other items, made by the same fitted columns.

        `contents` are data frames or matrices like the first ones, one for each that was joined, and `item_ids` those
        of the rows of matrices, by default their positions. Categories, tags and words that were not there when the
        columns were fitted are ignored, and numbers are cut to the range that was there; `unknown` counts both.
        """
        n = len(self.sources)
        if len(contents) != n:
            raise ArgumentError(f"the features came from {n} tables, got {len(contents)}; give them all")
        ids = None if item_ids is None else list(item_ids)
        return Features.join(*(source.transform(one, ids) for source, one in zip(self.sources, contents, strict=True)))

    def align(self, item_ids: Iterable[Hashable]) -> "Features":
        """Return the features of these items, in this order; those that are not here have none.

        A `DataError` is raised if none of them is here, or if ids are not written alike: `7` here and `"7"` there.
        """
        ids = item_ids if isinstance(item_ids, IdMap) else IdMap(item_ids)
        strange = [ids[int(index)] for index in np.flatnonzero(self.item_ids.find(ids) < 0)]
        refuse_twins(self.item_ids, strange, "the features have the item", "the data has")
        if len(ids) and len(strange) == len(ids):
            here, there = describe_id(self.item_ids[0]), describe_id(ids[0])
            why = f"ids are e.g. {here} in the features and {there} in the data"
            raise DataError(f"none of the {len(ids):,} items has features: {why}; write them alike")
        numbers, known = self._select(ids)
        return replace(self, item_ids=ids, matrix=numbers, known=known)

    def spell_ids(self, item_ids: IdMap) -> "Features":
        """Return the same features with ids written as these: 7 as "7" among texts, "7" as 7 among whole numbers."""
        return replace(self, item_ids=IdMap(spell_like(self.item_ids, item_ids.array)))

    @property
    def sizes(self) -> dict[str, int]:
        """Number of numbers that each column gives."""
        sizes: dict[str, int] = {}
        for column in (column for source in self.sources for column in source.columns):
            sizes[column.name] = sizes.get(column.name, 0) + column.size
        return sizes

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
        sizes = ", ".join(f"{name} {size}" for name, size in self.sizes.items())
        return f"Features(items={self.n_items:,}, of them known={int(self.known.sum()):,}, {sizes})"


def write_sources(sources: Iterable[Source]) -> tuple[dict[str, NDArray[Any]], list[dict[str, Any]]]:
    """Return all that was fitted as arrays and as a JSON-able list."""
    arrays: dict[str, NDArray[Any]] = {}
    tables: list[dict[str, Any]] = []
    columns = [(number, source.item, column) for number, source in enumerate(sources) for column in source.columns]
    for at, (number, item, column) in enumerate(columns):
        table: dict[str, Any] = {"class": type(column).__name__, "source": number, "item": item}
        for name, value in vars(column).items():
            if isinstance(value, np.ndarray):
                arrays[f"{at}.{name}"] = value
            elif isinstance(value, tuple):
                arrays |= encode_names(value, f"{at}.{name}")
            else:
                table[name] = value
        tables.append(table)
    return arrays, tables


def read_sources(arrays: Mapping[str, NDArray[Any]], tables: Iterable[Mapping[str, Any]]) -> tuple[Source, ...]:
    """Return what `write_sources` described; any exception may say that it is damaged."""
    classes = {kind.__name__: kind for kind in get_args(Column)}
    sources: dict[int, Source] = {}
    for at, table in enumerate(tables):
        values = {name: value for name, value in table.items() if name not in ("class", "source", "item")}
        values |= {name: arrays[f"{at}.{name}"] for name in ("rarity", "directions") if f"{at}.{name}" in arrays}
        if words := decode_names(arrays, f"{at}.words"):
            values["words"] = words
        source, column = sources.get(table["source"], Source(table["item"], ())), classes[table["class"]](**values)
        cells: Any = [list(column.words)] if isinstance(column, WordColumn) else [0.0]
        if table["item"] is None:
            is_sparse = isinstance(column, WordColumn)
            cells = sp.csr_array((1, column.width)) if is_sparse else np.zeros((1, min(column.size, 1 << 20)))
        if column.encode(cells)[0].shape != (1, column.size):
            raise ValueError(f"column {quote(column.name)} does not fit")
        sources[table["source"]] = replace(source, columns=(*source.columns, column))
    return tuple(sources.values())
