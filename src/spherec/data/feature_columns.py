"""Fitted columns of item features: how a cell of each kind becomes numbers.

    number        (x − mean) / deviation                                          1 number
    category      1 at its place, 0 elsewhere; rare categories share one place    at most `dims` numbers
    tags, text    the words of a cell, weighed: see `feature_words`               at most `dims` numbers
    counts        the same, for a row of a sparse matrix
    vector        x / √(mean |x|²)                                                as many numbers as it has

A column of any kind has a mean squared length of at most 1, so none drowns the others. A cell without content is
missing: its numbers are 0, which is the mean of a number. The fitted state of a column is plain data and arrays, never
a pickle.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spherec.data.feature_cells import (
    TAG_SEPARATORS,
    Kind,
    find_separator,
    guess_kind,
    to_categories,
    to_numbers,
    to_vectors,
    to_words,
)
from spherec.data.feature_words import FitOptions, LeftOutCounts, WordWeights, choose_words, count_words
from spherec.data.id_arrays import decode_names, encode_names
from spherec.errors import DataError, quote

_ROUNDING = 1e-3  # by which a vector may seem longer than it is, in float16
_MOST_DAYS = 1e9  # from 1970 to a date; NumPy's datetime64 in microseconds has fewer


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
    is_date: bool = False
    "Whether the numbers are dates, in days since 1970."
    kind: ClassVar[str] = "number"
    size: ClassVar[int] = 1

    @classmethod
    def fit(cls, name: str, cells: NDArray[Any]) -> "NumberColumn | None":
        """Return the fitted column; None if all cells are missing or equal."""
        values = to_numbers(name, cells)
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
        values = to_numbers(self.name, cells)  # (n,)
        known = ~np.isnan(values)
        inside = np.clip(values, self.lowest, self.highest)
        with np.errstate(over="ignore"):
            scaled = ((np.where(known, inside, self.mean) - self.mean) / self.deviation).astype(np.float32)
        if not np.isfinite(scaled).all():  # of a column without a range
            row = int((~np.isfinite(scaled)).argmax())
            raise DataError(
                f"column {quote(self.name)}, row {row}: {values[row]:g} is too far from the others; mend it"
            )
        lowest, highest = (
            str(np.datetime64(int(bound // 1), "D")) if self.is_date else f"{bound:g}"
            for bound in (self.lowest, self.highest)
        )
        beyond = _count(f"{self.name}: cut to {lowest} … {highest}", known & (inside != values))
        return Encoded(scaled[:, None], known, _count(f"{self.name}: missing", ~known), beyond)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the fitted state."""
        bounds = {"lowest": self.lowest, "highest": self.highest} if np.isfinite(self.highest) else {}
        date = {"is_date": True} if self.is_date else {}
        return {"name": self.name, "mean": self.mean, "deviation": self.deviation, **bounds, **date}, {}

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "NumberColumn":  # noqa: ARG003
        """Return the column that `to_state` described."""
        bounds = {name: float(fields[name]) for name in ("lowest", "highest") if name in fields}
        is_date = bool(fields.get("is_date", False))
        column = cls(str(fields["name"]), float(fields["mean"]), float(fields["deviation"]), **bounds, is_date=is_date)
        if not np.isfinite([column.mean, column.deviation]).all() or column.deviation <= 0:
            raise ValueError("mean and deviation do not fit")
        is_far = is_date and max(-column.lowest, column.highest) > _MOST_DAYS
        if not column.lowest <= column.mean <= column.highest or is_far:
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
        counts = Counter(text for text in to_categories(cells) if text is not None)
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
        texts = to_categories(cells)
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
class WordsColumn:
    """Texts or lists of tags."""

    name: str
    weights: WordWeights
    words: tuple[str, ...]
    "(V,) the known words."
    separator: str | None
    "Separator of tags in one text; None for running text."
    kind: ClassVar[str] = "words"

    @classmethod
    def fit(
        cls, name: str, cells: NDArray[Any], options: FitOptions, *, tags: bool
    ) -> "tuple[WordsColumn | None, LeftOutCounts]":
        """Return the fitted column, None if no word is left, and the words that were left out."""
        separator = find_separator(cells) if tags else None
        rows = to_words(name, cells, separator)
        index: dict[str, int] = {}
        for row in rows:
            for word in row:
                index.setdefault(word, len(index))
        counts, _ = count_words(rows, index)
        kept, left_out = choose_words(name, counts, options)
        if not len(kept):
            return None, left_out
        words = list(index)
        known = tuple(words[word] for word in kept.tolist())
        return cls(name, WordWeights.fit(counts, kept, options), known, separator), left_out

    @property
    def size(self) -> int:
        """Number of numbers for each cell."""
        return self.weights.size

    def encode(self, cells: NDArray[Any]) -> Encoded:
        """Return cells as numbers."""
        rows = to_words(self.name, cells, self.separator)
        counts, unknown = count_words(rows, {word: place for place, word in enumerate(self.words)})
        empty = np.array([not row for row in rows], dtype=bool)
        return _encode_words(self.name, self.weights, counts, empty, unknown)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the fitted state."""
        arrays = self.weights.to_arrays() | encode_names(self.words, "words")
        return {"name": self.name, "separator": self.separator}, arrays

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "WordsColumn":
        """Return the column that `to_state` described."""
        words, separator = _decode_words(arrays, "words"), fields["separator"]
        column = cls(str(fields["name"]), WordWeights.from_arrays(arrays), words, separator)
        if len(words) != len(column.weights.rarity) or separator not in (None, "", *TAG_SEPARATORS):
            raise ValueError(f"the words of {quote(column.name)} do not fit")
        return column


@dataclass(frozen=True, eq=False)
class CountsColumn:
    """Rows of a sparse matrix: how often each item has each word."""

    name: str
    weights: WordWeights
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
        kept, left_out = choose_words(name, counts, options)
        if not len(kept):
            return None, left_out
        return cls(name, WordWeights.fit(counts, kept, options), counts.shape[1], kept), left_out

    @property
    def size(self) -> int:
        """Number of numbers for each row."""
        return self.weights.size

    def encode(self, cells: "sp.csr_array[np.float32]") -> Encoded:
        """Return rows of counts (n, n_columns) as numbers."""
        kept, empty = sp.csr_array(cells[:, self.kept]), np.diff(cells.indptr) == 0
        return _encode_words(self.name, self.weights, kept, empty, cells.nnz - kept.nnz)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the fitted state."""
        return {"name": self.name, "n_columns": self.n_columns}, self.weights.to_arrays() | {"kept": self.kept}

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "CountsColumn":
        """Return the column that `to_state` described."""
        kept, n_columns = arrays["kept"], int(fields["n_columns"])
        column = cls(str(fields["name"]), WordWeights.from_arrays(arrays), n_columns, kept)
        same = kept.shape == column.weights.rarity.shape and kept.dtype == np.int64
        if not same or kept[0] < 0 or kept[-1] >= n_columns or np.any(np.diff(kept) <= 0):
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
        vectors, known = to_vectors(name, cells, None)
        with np.errstate(over="ignore"):
            squares = np.square(vectors[known], dtype=np.float64).sum(1)  # (n,)
        scale = float(np.sqrt(squares.mean())) if known.any() else 0.0
        if not scale <= np.finfo(np.float32).max:
            raise DataError(f"the vectors of {quote(name)} are too long to be scaled; divide them first")
        return cls(name, vectors.shape[1], scale, float(np.sqrt(squares.max())) / scale) if scale > 0 else None

    def encode(self, cells: NDArray[Any]) -> Encoded:
        """Return cells as numbers."""
        vectors, known = to_vectors(self.name, cells, self.size)
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


def _encode_words(
    name: str, weights: WordWeights, counts: "sp.csr_array[np.float32]", empty: NDArray[np.bool_], unknown: int
) -> Encoded:
    """Return rows of counts (n, V) as numbers; which rows (n,) had no word, and how many words were not known."""
    numbers, known = weights.encode(counts)
    left_out = _count(f"{name}: missing", empty) + _count(f"{name}: no known word", ~known & ~empty)
    return Encoded(numbers, known, left_out, ((f"{name}: unknown words", unknown),) if unknown else ())


def _decode_words(arrays: Mapping[str, NDArray[Any]], name: str) -> tuple[str, ...]:
    words = tuple(word or "" for word in decode_names(arrays, name) or ())
    if len(set(words)) < len(words):
        raise ValueError(f"{name} repeat")
    return words


def _count(description: str, mask: NDArray[np.bool_]) -> LeftOutCounts:
    return ((description, int(mask.sum())),) if mask.any() else ()
