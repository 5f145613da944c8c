"""Fitted columns of item features: how a cell of each kind becomes numbers.

    number        (x − mean) / deviation                                          1 number
    category      1 at its place, 0 elsewhere; rare categories share one place    at most `dims` numbers
    tags, text    unit(unit(w) V) with w = ln(1 + count) · idf²                   at most `dims` numbers
    counts        the same, for a row of a sparse matrix
    vector        x / √(mean |x|²)                                                as many numbers as it has

idf = ln((1 + n) / (1 + m)) + 1, where m of n items have the word. V (words, dims) has the right singular vectors of the
items' rows unit(w) with the largest singular values (truncated SVD); with no more words than `dims` it is left out. So
a column of any kind has a mean squared length of at most 1, and none drowns the others.

A cell without content is missing: its numbers are 0, which is the mean of a number. The fitted state of a column is
plain data and arrays, never a pickle.
"""

import re
import shlex
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spherec import rng
from spherec.data.events import to_seconds
from spherec.data.frames import column_of
from spherec.data.id_arrays import decode_names, encode_names
from spherec.data.ids import is_missing
from spherec.errors import DataError, quote

Kind = Literal["number", "category", "tags", "text", "vector", "skip"]
"""Meaning of a table's column; "skip" leaves it out."""

LeftOutCounts = tuple[tuple[str, int], ...]
"""Content that gave no numbers: a description such as "genre: missing", and how often."""

_WORD = re.compile(r"\w\w+")
_TAG_SEPARATORS = ("|", ";", ",")
_NO_NUMBER = {"", "n/a", "na", "null", "none", "-", "?"}
_LONG_TEXT = 3  # words; texts with more of them on average are text, others categories
_MOST_WORDS = 1 << 17  # of a column; the most frequent stay. V then takes 160 MB with 300 dimensions
_MORE_DIRECTIONS = 16  # than wanted are followed, for accuracy
_ITERATIONS = 5
_ROUNDING = 1e-5  # by which a vector may seem longer than it is


@dataclass(frozen=True)
class FitOptions:
    """Options of fitting, the same for all columns."""

    dims: int
    min_items: int
    seed: int


@dataclass(frozen=True)
class Encoded:
    """Cells of a column as numbers."""

    numbers: NDArray[np.float32]
    "(n, size)"
    known: NDArray[np.bool_]
    "(n,) whether the cell says anything."
    left_out: LeftOutCounts = ()
    unknown: LeftOutCounts = ()
    "Content that was not there when the column was fitted."


class FittedColumn(Protocol):
    """A column that was fitted, and encodes the cells of other items in the same way."""

    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """Name of the column."""
        ...

    @property
    def size(self) -> int:
        """Number of numbers for each cell."""
        ...

    def encode(self, cells: Any) -> Encoded:
        """Return cells, an array of `read_cells` or the rows of a matrix, as numbers."""
        ...

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the fitted state: JSON-able fields, and arrays."""
        ...

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "FittedColumn":
        """Return the column that `to_state` described; raise any error if the state is damaged."""
        ...


@dataclass(frozen=True)
class NumberColumn:
    """Numbers, scaled to mean 0 and variance 1. Those of other items are cut to the range of the first."""

    name: str
    mean: float
    deviation: float
    lowest: float = -np.inf
    highest: float = np.inf
    kind: ClassVar[str] = "number"
    size: ClassVar[int] = 1

    @classmethod
    def fit(cls, name: str, cells: NDArray[Any]) -> "NumberColumn | None":
        """Return the fitted column; None if all cells are missing or equal."""
        values = _to_numbers(name, cells)
        values = values[~np.isnan(values)]
        if not len(values):
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            mean, deviation = float(values.mean()), float(values.std())
        if not np.isfinite([mean, deviation]).all():
            raise DataError(f"column {quote(name)} has numbers too large to be scaled; divide them first")
        is_varied = deviation > 1e-9 * abs(mean)
        return cls(name, mean, deviation, float(values.min()), float(values.max())) if is_varied else None

    def encode(self, cells: NDArray[Any]) -> Encoded:
        """Return cells as numbers."""
        values = _to_numbers(self.name, cells)  # (n,)
        known = ~np.isnan(values)
        inside = np.clip(values, self.lowest, self.highest)
        with np.errstate(over="ignore"):
            scaled = ((np.where(known, inside, self.mean) - self.mean) / self.deviation).astype(np.float32)
        if not np.isfinite(scaled).all():  # of a column without a range
            row = int((~np.isfinite(scaled)).argmax())
            raise DataError(
                f"column {quote(self.name)}, row {row}: {values[row]:g} is too far from the others; mend it"
            )
        beyond = _count(f"{self.name}: cut to {self.lowest:g} … {self.highest:g}", known & (inside != values))
        return Encoded(scaled[:, None], known, _count(f"{self.name}: missing", ~known), beyond)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the fitted state."""
        bounds = {"lowest": self.lowest, "highest": self.highest} if np.isfinite(self.highest) else {}
        return {"name": self.name, "mean": self.mean, "deviation": self.deviation, **bounds}, {}

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "NumberColumn":  # noqa: ARG003
        """Return the column that `to_state` described."""
        bounds = {name: float(fields[name]) for name in ("lowest", "highest") if name in fields}
        column = cls(str(fields["name"]), float(fields["mean"]), float(fields["deviation"]), **bounds)
        if not np.isfinite([column.mean, column.deviation]).all() or column.deviation <= 0:
            raise ValueError("mean and deviation do not fit")
        if not column.lowest <= column.mean <= column.highest:
            raise ValueError("lowest and highest do not fit")
        return column


@dataclass(frozen=True)
class CategoryColumn:
    """Categories, each with a place of its own; rare ones share the last place."""

    name: str
    categories: tuple[str, ...]
    rare: tuple[str, ...]
    kind: ClassVar[str] = "category"

    @classmethod
    def fit(cls, name: str, cells: NDArray[Any], options: FitOptions) -> "CategoryColumn | None":
        """Return the fitted column; None if no two items share a category, or all do."""
        counts = Counter(text for text in _to_texts(cells) if text is not None)
        ordered = sorted(counts, key=lambda text: (-counts[text], text))  # the most frequent first
        frequent = [text for text in ordered if counts[text] >= options.min_items]
        if len(frequent) < len(ordered) or len(frequent) > options.dims:
            frequent = frequent[: options.dims - 1]
        column = cls(name, tuple(frequent), tuple(ordered[len(frequent) :]))
        return column if frequent and column.size > 1 else None

    @property
    def size(self) -> int:
        """Number of numbers for each cell."""
        return len(self.categories) + bool(self.rare)

    def encode(self, cells: NDArray[Any]) -> Encoded:
        """Return cells as numbers."""
        places = {text: place for place, text in enumerate(self.categories)}
        places |= dict.fromkeys(self.rare, len(self.categories))
        texts = _to_texts(cells)
        place = np.array([-1 if text is None else places.get(text, -1) for text in texts], dtype=np.int64)  # (n,)
        missing = np.array([text is None for text in texts], dtype=bool)
        known = place >= 0
        numbers = np.zeros((len(texts), self.size), dtype=np.float32)
        numbers[np.flatnonzero(known), place[known]] = 1
        unknown = _count(f"{self.name}: unknown categories", ~known & ~missing)
        return Encoded(numbers, known, _count(f"{self.name}: missing", missing), unknown)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the fitted state."""
        arrays = encode_names(self.categories, "categories") | encode_names(self.rare, "rare")
        return {"name": self.name}, arrays

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "CategoryColumn":
        """Return the column that `to_state` described."""
        return cls(str(fields["name"]), _decode_words(arrays, "categories"), _decode_words(arrays, "rare"))


@dataclass(frozen=True, eq=False)
class _BagColumn:
    """Words with counts, weighed by tf-idf² and reduced by a truncated SVD."""

    name: str
    rarity: NDArray[np.float32]
    "(V,) weight of each word, idf²."
    directions: NDArray[np.float32] | None
    "(V, d) right singular vectors; None where the words themselves are the numbers."

    @property
    def size(self) -> int:
        """Number of numbers for each cell."""
        return len(self.rarity) if self.directions is None else self.directions.shape[1]

    def _encode_counts(self, counts: "sp.csr_array[np.float32]") -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return rows of counts (n, V) as numbers (n, size), and which rows (n,) have any word."""
        weights = _weigh(counts, self.rarity)
        numbers = weights.toarray() if self.directions is None else weights @ self.directions
        known: NDArray[np.bool_] = np.diff(weights.indptr) > 0
        return unit_rows(numbers.astype(np.float32, copy=False)), known

    def _check_state(self) -> None:
        for name, weights in (("idf", self.rarity), ("directions", self.directions)):
            if weights is not None and (weights.dtype != np.float32 or not np.isfinite(weights).all()):
                raise ValueError(f"{name} of {quote(self.name)} must be finite float32")
        fits = self.directions is None or (self.directions.ndim == 2 and len(self.directions) == len(self.rarity))
        if self.rarity.ndim != 1 or not len(self.rarity) or not fits:
            raise ValueError(f"the words of {quote(self.name)} do not fit")

    def _weights_state(self) -> dict[str, NDArray[Any]]:
        return {"idf": self.rarity} | ({} if self.directions is None else {"directions": self.directions})


@dataclass(frozen=True, eq=False)
class WordsColumn(_BagColumn):
    """Texts or lists of tags."""

    words: tuple[str, ...]
    "The known words."
    separator: str | None
    "Separator of tags in one text; None for running text."
    kind: ClassVar[str] = "words"

    @classmethod
    def fit(
        cls, name: str, cells: NDArray[Any], options: FitOptions, *, tags: bool
    ) -> "tuple[WordsColumn | None, LeftOutCounts]":
        """Return the fitted column, None if no word is left, and the words that were left out."""
        separator = _find_separator(cells) if tags else None
        rows = _to_words(name, cells, separator)
        index: dict[str, int] = {}
        for row in rows:
            for word in row:
                index.setdefault(word, len(index))
        counts, _ = _count_words(rows, index)
        fitted, left_out = _fit_words(name, counts, options)
        if fitted is None:
            return None, left_out
        kept, rarity, directions = fitted
        words = list(index)
        return cls(name, rarity, directions, tuple(words[word] for word in kept.tolist()), separator), left_out

    def encode(self, cells: NDArray[Any]) -> Encoded:
        """Return cells as numbers."""
        rows = _to_words(self.name, cells, self.separator)
        counts, unknown = _count_words(rows, {word: place for place, word in enumerate(self.words)})
        numbers, known = self._encode_counts(counts)
        empty = np.array([not row for row in rows], dtype=bool)
        left_out = _count(f"{self.name}: missing", empty) + _count(f"{self.name}: no known word", ~known & ~empty)
        return Encoded(numbers, known, left_out, ((f"{self.name}: unknown words", unknown),) if unknown else ())

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the fitted state."""
        return {"name": self.name, "separator": self.separator}, self._weights_state() | encode_names(
            self.words, "words"
        )

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "WordsColumn":
        """Return the column that `to_state` described."""
        words, separator = _decode_words(arrays, "words"), fields["separator"]
        column = cls(str(fields["name"]), arrays["idf"], arrays.get("directions"), words, separator)
        column._check_state()
        if len(words) != len(column.rarity) or separator not in (None, "", *_TAG_SEPARATORS):
            raise ValueError(f"the words of {quote(column.name)} do not fit")
        return column


@dataclass(frozen=True, eq=False)
class CountsColumn(_BagColumn):
    """Rows of a sparse matrix: how often each item has each word."""

    n_columns: int
    "Columns of the matrix."
    kept: NDArray[np.int64]
    "(V,) the columns in use, ascending."
    kind: ClassVar[str] = "counts"

    @classmethod
    def fit(
        cls, name: str, counts: "sp.csr_array[np.float32]", options: FitOptions
    ) -> "tuple[CountsColumn | None, LeftOutCounts]":
        """Return the fitted column, None if no word is left, and the words that were left out."""
        fitted, left_out = _fit_words(name, counts, options)
        if fitted is None:
            return None, left_out
        kept, rarity, directions = fitted
        return cls(name, rarity, directions, counts.shape[1], kept), left_out

    def encode(self, cells: "sp.csr_array[np.float32]") -> Encoded:
        """Return rows of counts (n, n_columns) as numbers."""
        kept = sp.csr_array(cells[:, self.kept])
        numbers, known = self._encode_counts(kept)
        empty = np.diff(cells.indptr) == 0
        left_out = _count(f"{self.name}: missing", empty) + _count(f"{self.name}: no known word", ~known & ~empty)
        unknown = cells.nnz - kept.nnz
        return Encoded(numbers, known, left_out, ((f"{self.name}: unknown words", unknown),) if unknown else ())

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the fitted state."""
        return {"name": self.name, "n_columns": self.n_columns}, self._weights_state() | {"kept": self.kept}

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "CountsColumn":
        """Return the column that `to_state` described."""
        kept, n_columns = arrays["kept"], int(fields["n_columns"])
        column = cls(str(fields["name"]), arrays["idf"], arrays.get("directions"), n_columns, kept)
        column._check_state()
        fits = kept.shape == column.rarity.shape and kept.dtype == np.int64 and kept[0] >= 0 and kept[-1] < n_columns
        if not fits or np.any(np.diff(kept) <= 0):
            raise ValueError(f"the columns of {quote(column.name)} do not fit")
        return column


@dataclass(frozen=True)
class VectorColumn:
    """Vectors such as embeddings of texts or images, all divided by one number.

    Those of other items that are longer than the first are shortened.
    """

    name: str
    size: int
    scale: float
    "Root of the mean squared length."
    longest: float = np.inf
    "Length of the longest vector, divided by the scale."
    kind: ClassVar[str] = "vector"

    @classmethod
    def fit(cls, name: str, cells: NDArray[Any]) -> "VectorColumn | None":
        """Return the fitted column; None if all vectors are missing or zero."""
        vectors, known = _to_vectors(name, cells, None)
        with np.errstate(over="ignore"):
            squares = np.square(vectors[known], dtype=np.float64).sum(1)  # (n,)
        scale = float(np.sqrt(squares.mean())) if known.any() else 0.0
        if not scale <= np.finfo(np.float32).max:
            raise DataError(f"the vectors of {quote(name)} are too long to be scaled; divide them first")
        return cls(name, vectors.shape[1], scale, float(np.sqrt(squares.max())) / scale) if scale > 0 else None

    def encode(self, cells: NDArray[Any]) -> Encoded:
        """Return cells as numbers."""
        vectors, known = _to_vectors(self.name, cells, self.size)
        with np.errstate(over="ignore"):
            numbers = (vectors / self.scale).astype(np.float32)
        if not np.isfinite(numbers).all():
            row = int((~np.isfinite(numbers)).any(1).argmax())
            raise DataError(f"{quote(self.name)}, row {row}: the vector is far longer than the others; mend it")
        lengths = np.sqrt(np.einsum("nd,nd->n", numbers, numbers, dtype=np.float64))  # (n,)
        is_longer = lengths > self.longest * (1 + _ROUNDING)  # (n,)
        numbers[is_longer] *= (self.longest / lengths[is_longer])[:, None]
        longer = _count(f"{self.name}: shortened to the longest of the first vectors", is_longer)
        return Encoded(numbers, known, _count(f"{self.name}: missing", ~known), longer)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the fitted state."""
        bound = {"longest": self.longest} if np.isfinite(self.longest) else {}
        return {"name": self.name, "size": self.size, "scale": self.scale, **bound}, {}

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "VectorColumn":  # noqa: ARG003
        """Return the column that `to_state` described."""
        bound = {"longest": float(fields["longest"])} if "longest" in fields else {}
        column = cls(str(fields["name"]), int(fields["size"]), float(fields["scale"]), **bound)
        if column.size < 1 or not np.isfinite(column.scale) or column.scale <= 0 or not column.longest > 0:
            raise ValueError("size, scale and longest do not fit")
        return column


COLUMNS: Mapping[str, type[FittedColumn]] = {
    column.kind: column for column in (NumberColumn, CategoryColumn, WordsColumn, CountsColumn, VectorColumn)
}
"""The fitted columns by kind."""


def fit_column(
    name: str, cells: NDArray[Any], kind: Kind | None, options: FitOptions
) -> tuple[FittedColumn | None, LeftOutCounts]:
    """Fit a column of a table; None if nothing in it tells items apart. The kind None is guessed from the cells."""
    match kind or guess_kind(name, cells):
        case "number":
            return NumberColumn.fit(name, cells), ()
        case "category":
            return CategoryColumn.fit(name, cells, options), ()
        case "vector":
            return VectorColumn.fit(name, cells), ()
        case "tags":
            return WordsColumn.fit(name, cells, options, tags=True)
        case _:
            return WordsColumn.fit(name, cells, options, tags=False)


def guess_kind(name: str, cells: NDArray[Any]) -> Kind:
    """Return the kind that the cells of a column suggest.

    Numbers, dates and texts of numbers are numbers, even if some are n/a; lists of fractions are vectors, other lists
    are tags; of texts, those with | in at least half of them are tags, those of more than three words on average text,
    others categories.
    """
    if cells.dtype != object:
        return "number" if cells.ndim == 1 else "vector"
    values = [cell for cell in cells.tolist() if cell is not None]
    if any(isinstance(cell, dict) for cell in values):
        raise DataError(f"column {quote(name)} has tables in its cells; leave it out: {name_kind(name, 'skip')}")
    if any(isinstance(cell, list) for cell in values):
        lists = [cell for cell in values if isinstance(cell, list) and cell]
        are_fractions = all(isinstance(number, float) for cell in lists for number in cell)
        return "vector" if lists and are_fractions and len({len(cell) for cell in lists}) == 1 else "tags"
    texts = list(map(str, values))
    numbers = [text for text in texts if not _is_no_number(text)]
    if all(map(_is_number, numbers)) and (numbers or not texts):
        return "number"
    if 2 * sum("|" in text for text in texts) >= len(texts):
        return "tags"
    return "text" if sum(len(text.split()) for text in texts) > _LONG_TEXT * len(texts) else "category"


def read_cells(frame: Any, name: str) -> NDArray[Any]:
    """Return a column of a pandas or polars frame: float64 (n,) or (n, width), or objects (n,), None where missing."""
    column = column_of(frame, name)
    if column.dtype.kind in "biuf" and column.ndim <= 2:
        return column.astype(np.float64)
    if column.dtype.kind in "mM":
        days = column.astype("M8[us]" if column.dtype.kind == "M" else "m8[us]").astype(np.int64) / 86_400e6
        return np.where(np.isnat(column), np.nan, days)
    cells = np.empty(len(column), dtype=object)
    for row, cell in enumerate(column.tolist()):
        if isinstance(cell, tuple | set | frozenset) or (
            hasattr(cell, "tolist") and getattr(cell, "shape", None) != ()
        ):
            cell = sorted(cell, key=str) if isinstance(cell, set | frozenset) else list(cell)
        elif hasattr(cell, "to_list"):  # a list of polars
            cell = cell.to_list()
        elif isinstance(cell, date):  # in pandas
            cell = None if is_missing(cell) else to_seconds(cell) / 86_400
        elif isinstance(cell, bool):
            cell = float(cell)
        cells[row] = cell if isinstance(cell, list | dict) or not is_missing(cell) else None
    return cells


def name_kind(name: str, kind: Kind) -> str:
    """Return how the kind of a column is named, in Python and on the command line."""
    return f"kinds={{{quote(name)}: {quote(kind)}}}, or --feature-kind {shlex.quote(f'{name}={kind}')}"


def unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows (n, d) scaled to length 1; rows of zeros stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)  # (n, 1)
    scaled: NDArray[np.float32] = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32, copy=False)
    return scaled


# --- Words -----------------------------------------------------------------------------------------------------------


def _fit_words(
    name: str, counts: "sp.csr_array[np.float32]", options: FitOptions
) -> tuple[tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32] | None] | None, LeftOutCounts]:
    """Return the columns in use (V,), idf² (V,) and directions (V, d); None if no word is left; what was left out."""
    items_with = np.bincount(counts.indices, minlength=counts.shape[1])  # (V0,)
    kept = np.flatnonzero(items_with >= options.min_items)
    rare = int((items_with > 0).sum()) - len(kept)
    left_out = [(f"{name}: words of fewer than {options.min_items} items", rare)] if rare else []
    if len(kept) > _MOST_WORDS:
        left_out.append((f"{name}: words beyond the {_MOST_WORDS:,} most frequent", len(kept) - _MOST_WORDS))
        kept = np.sort(kept[np.argsort(-items_with[kept], kind="stable")[:_MOST_WORDS]])
    if not len(kept):
        return None, tuple(left_out)
    n_items = int((np.diff(counts.indptr) > 0).sum())
    rarity = np.square(np.log((1 + n_items) / (1 + items_with[kept])) + 1).astype(np.float32)
    used = sp.csr_array(counts[:, kept])
    directions = None if len(kept) <= options.dims else top_directions(_weigh(used, rarity), options.dims, options.seed)
    return (kept, rarity, directions), tuple(left_out)


def _weigh(counts: "sp.csr_array[np.float32]", rarity: NDArray[np.float32]) -> "sp.csr_array[np.float32]":
    """Return counts (n, V) weighed by tf-idf², rows of length 1."""
    weights = (np.log1p(counts.data) * rarity[counts.indices]).astype(np.float32)
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    lengths = np.sqrt(np.bincount(rows, np.square(weights, dtype=np.float64), minlength=counts.shape[0]))  # (n,)
    weights /= np.where(lengths > 0, lengths, 1)[rows].astype(np.float32)
    return sp.csr_array((weights, counts.indices, counts.indptr), shape=counts.shape)


def top_directions(matrix: "sp.csr_array[np.float32]", n: int, seed: int) -> NDArray[np.float32]:
    """Return the right singular vectors (V, ≤ n) of a sparse matrix with the largest singular values.

    By subspace iteration from a random start (Halko, Martinsson, Tropp, 2011): the matrix is only multiplied. The
    largest entry of each vector is positive.
    """
    width = min(n + _MORE_DIRECTIONS, *matrix.shape)
    transposed = sp.csr_array(matrix.T)
    start = rng.stream(seed, "directions of features").standard_normal((matrix.shape[0], width)).astype(np.float32)
    basis, _ = np.linalg.qr(transposed @ start)  # (V, width)
    for _ in range(_ITERATIONS):
        basis, _ = np.linalg.qr(transposed @ (matrix @ basis))
    image = (matrix @ basis).astype(np.float64)  # (n, width)
    squares, turns = np.linalg.eigh(image.T @ image)  # ascending
    squares, turns = squares[::-1][:n], turns[:, ::-1][:, :n]
    directions = basis @ turns[:, squares > 1e-9 * squares[0]].astype(np.float32)  # (V, ≤ n)
    largest = directions[np.abs(directions).argmax(0), np.arange(directions.shape[1])]
    signed: NDArray[np.float32] = directions * np.where(largest < 0, -1, 1).astype(np.float32)
    return np.ascontiguousarray(signed)


def _count_words(rows: Iterable[Sequence[str]], index: Mapping[str, int]) -> "tuple[sp.csr_array[np.float32], int]":
    """Return how often each row has each word of `index` (n, V), and the number of words that are not in it."""
    columns, ends, unknown = array("q"), array("q", [0]), 0
    for row in rows:
        places = [place for place in map(index.get, row) if place is not None]
        unknown += len(row) - len(places)
        columns.extend(places)
        ends.append(len(columns))
    ones = np.ones(len(columns), dtype=np.float32)
    indices = np.array(columns, dtype=np.int64)
    counts = sp.csr_array((ones, indices, np.array(ends, dtype=np.int64)), shape=(len(ends) - 1, len(index)))
    counts.sum_duplicates()
    return counts, unknown


def _to_words(name: str, cells: NDArray[Any], separator: str | None) -> list[list[str]]:
    """Return the words of each cell: tags split at the separator, or the lower-case words of a text."""
    rows: list[list[str]] = []
    for row, cell in enumerate(cells.tolist()):
        if isinstance(cell, dict):
            raise DataError(f"column {quote(name)}, row {row}: a table is neither text nor tags; leave the column out")
        if isinstance(cell, list):
            rows.append([_to_text(tag) for tag in cell if not is_missing(tag)])
        elif is_missing(cell):
            rows.append([])
        elif separator is None:
            rows.append(_WORD.findall(str(cell).lower()))
        else:
            tags = str(cell).split(separator) if separator else [_to_text(cell)]
            rows.append([tag.strip() for tag in tags if tag.strip()])
    return rows


def _find_separator(cells: NDArray[Any]) -> str:
    """Return the separator of tags that are written as one text: the first of | ; , that occurs; "" for none."""
    texts = [cell for cell in cells.tolist() if isinstance(cell, str)]
    return next((mark for mark in _TAG_SEPARATORS if any(mark in text for text in texts)), "")


def _decode_words(arrays: Mapping[str, NDArray[Any]], name: str) -> tuple[str, ...]:
    words = tuple(word or "" for word in decode_names(arrays, name) or ())
    if len(set(words)) < len(words):
        raise ValueError(f"{name} repeat")
    return words


# --- Cells -----------------------------------------------------------------------------------------------------------


def _to_numbers(name: str, cells: NDArray[Any]) -> NDArray[np.float64]:
    """Return cells as numbers (n,), NaN where missing."""
    if cells.ndim != 1:
        raise DataError(
            f"column {quote(name)} has lists in its cells, not numbers; say so: {name_kind(name, 'vector')}"
        )
    if cells.dtype != object:
        values = cells.astype(np.float64)
    else:
        values = np.empty(len(cells))
        for row, cell in enumerate(cells.tolist()):
            try:
                values[row] = np.nan if cell is None or _is_no_number(cell) else float(cell)
            except (TypeError, ValueError, OverflowError):
                raise DataError(
                    f"column {quote(name)}, row {row}: {quote(cell)} is not a number; mend it, or give the column "
                    f"another kind in training: {name_kind(name, 'category')}"
                ) from None
    if np.isinf(values).any():
        row = int(np.isinf(values).argmax())
        raise DataError(f"column {quote(name)}, row {row}: {values[row]} is not a finite number; mend it or empty it")
    return values


def _to_texts(cells: NDArray[Any]) -> list[str | None]:
    """Return cells as categories, None where missing; whole numbers are written without a fraction."""
    return [None if is_missing(cell) else _to_text(cell).strip() or None for cell in cells.tolist()]


def _to_text(cell: object) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _to_vectors(name: str, cells: NDArray[Any], size: int | None) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return cells as vectors (n, size), zeros where missing, and which are known (n,)."""
    if cells.dtype == object:
        width = next((len(cell) for cell in cells.tolist() if isinstance(cell, list)), size or 0)
        vectors = np.full((len(cells), width), np.nan)
        for row, cell in enumerate(cells.tolist()):
            if cell is None:
                continue
            if not isinstance(cell, list) or len(cell) != width:
                raise DataError(
                    f"column {quote(name)}, row {row}: {quote(cell)} is not a list of {width} numbers; mend it"
                )
            try:
                vectors[row] = [np.nan if number is None else number for number in cell]
            except (TypeError, ValueError, OverflowError):
                raise DataError(f"column {quote(name)}, row {row}: {quote(cell)} is not a list of numbers") from None
    elif cells.ndim == 1 and size is not None and np.isnan(cells).all():  # a column without any vector
        vectors = np.full((len(cells), size), np.nan)
    else:
        vectors = cells if cells.ndim == 2 else cells[:, None]
    if size is not None and vectors.shape[1] != size:
        raise DataError(f"{quote(name)} has vectors of {vectors.shape[1]:,} numbers, but {size:,} when it was fitted")
    finite = np.isfinite(vectors)
    missing = np.isnan(vectors).all(1) if vectors.shape[1] else np.zeros(len(vectors), bool)  # (n,)
    bad = ~finite.all(1) & ~missing
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"{quote(name)}, row {row}: the vector has NaN or infinity in it; mend it, or fill the whole row with NaN "
            "for an item without features"
        )
    return (np.where(finite, vectors, 0) if missing.any() else vectors), ~missing


def _is_no_number(cell: object) -> bool:
    """Return whether a cell among numbers says that there is none."""
    return isinstance(cell, str) and cell.strip().lower() in _NO_NUMBER


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _count(description: str, mask: NDArray[np.bool_]) -> LeftOutCounts:
    return ((description, int(mask.sum())),) if mask.any() else ()
