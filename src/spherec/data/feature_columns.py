"""Columns of item features: how a cell becomes numbers, fitted once and then the same for other items.

    number        (x − mean) / deviation, cut to the range of the fit             1 number
    category      1 at its place, 0 elsewhere; rare categories share one place    at most `dims` numbers
    tags, text    unit(unit(w) V) with w = ln(1 + count) · idf²                   at most `dims` numbers
    counts        the same, for a row of a sparse matrix
    vector        x / √(mean |x|²), no longer than the longest of the fit         as many numbers as it has

idf = ln((1 + n) / (1 + m)) + 1, where m of n items have the word. V (words, dims) has the right singular vectors of the
items' rows unit(w) with the largest singular values; with no more words than `dims` it is left out.

A column of any kind has a mean squared length of at most 1, so none drowns the others. A cell without content is
missing: its numbers are 0, which is the mean of a number.
"""

import re
import shlex
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spherec import rng
from spherec.data.frames import column_of
from spherec.data.ids import is_missing
from spherec.errors import DataError, check_number, describe_missing_column, quote

Kind = Literal["number", "category", "tags", "text", "vector", "skip"]
"""Meaning of a table's column; "skip" leaves it out."""

Cell = int | float | str | list[Any] | None
"""A cell of a table, None where missing."""

Counts = tuple[tuple[str, int], ...]
"""Content that gave no numbers: a description such as "genre: missing", and how often."""

_WORD = re.compile(r"\w\w+")
_NO_NUMBER = {"", "n/a", "na", "null", "none", "-", "?"}  # for a missing cell among numbers
_LONG_TEXT = 3  # words; texts with more of them on average are text
_ROUNDING = 1e-3  # by which a vector may seem longer than it is, in float16
_MOST_WORDS = 1 << 17  # of a column; the most frequent stay. V then takes 160 MB with 300 dimensions
_MORE_DIRECTIONS = 16  # than wanted are followed, for accuracy
_ITERATIONS = 5

Encoded = tuple[NDArray[np.float32], NDArray[np.bool_], Counts]
"""Cells as numbers (n, size); whether each says anything (n,); what was not there when the column was fitted."""


@dataclass(frozen=True)
class FitOptions:
    """Options of fitting, the same for all columns; see `Features.from_frame`."""

    dims: int
    min_items: int
    seed: int

    def __post_init__(self) -> None:
        check_number("dims", self.dims, 2, 4096, "300")
        check_number("min_items", self.min_items, 1, np.inf, "2")


@dataclass(frozen=True, eq=False)
class Column(ABC):
    """A fitted column. Its fields are numbers, texts, tuples of texts and arrays; files keep them as they are."""

    name: str
    size: int
    "Number of numbers for each cell."

    @abstractmethod
    def is_whole(self) -> bool:
        """Return whether the fields fit each other; those of a damaged file may not."""

    @abstractmethod
    def encode(self, cells: Any) -> Encoded:
        """Return the cells of a table, or the rows of a matrix, as numbers."""

    def _count(self, what: str, number: int | np.integer[Any]) -> Counts:
        return ((f"{self.name}: {what}", int(number)),) if number else ()


@dataclass(frozen=True, eq=False)
class NumberColumn(Column):
    """Numbers, scaled to mean 0 and variance 1. Those of other items are cut to the range of the first."""

    mean: float
    deviation: float
    lowest: float
    highest: float

    @classmethod
    def fit(cls, name: str, cells: Sequence[Cell]) -> Self | None:
        """Return the fitted column; None if all cells are missing or equal."""
        values = _to_numbers(name, cells)
        values = values[~np.isnan(values)]
        if not len(values) or values.std() <= 1e-9 * abs(values.mean()):
            return None
        return cls(name, 1, *map(float, (values.mean(), values.std(), values.min(), values.max())))

    def is_whole(self) -> bool:
        """Return whether the numbers are finite, and the deviation is above 0."""
        return bool(np.isfinite([self.mean, self.lowest, self.highest]).all()) and 0 < self.deviation < np.inf

    def encode(self, cells: Sequence[Cell]) -> Encoded:
        """Return cells as numbers."""
        values = _to_numbers(self.name, cells)  # (n,)
        known = ~np.isnan(values)
        inside = np.clip(values, self.lowest, self.highest)
        scaled = ((np.where(known, inside, self.mean) - self.mean) / self.deviation).astype(np.float32)
        n_cut = (known & (inside != values)).sum()
        return scaled[:, None], known, self._count(f"cut to {self.lowest:g} … {self.highest:g}", n_cut)


@dataclass(frozen=True, eq=False)
class CategoryColumn(Column):
    """Categories, each with a place of its own; rare ones share the last place."""

    categories: tuple[str, ...]
    rare: tuple[str, ...]

    @classmethod
    def fit(cls, name: str, cells: Sequence[Cell], options: FitOptions) -> Self | None:
        """Return the fitted column; None if no two items share a category, or all do."""
        counts = Counter(text for cell in cells if (text := _to_text(cell)))
        ordered = sorted(counts, key=lambda text: (-counts[text], text))  # the most frequent first
        frequent = [text for text in ordered if counts[text] >= options.min_items]
        if len(frequent) < len(ordered) or len(frequent) > options.dims:
            frequent = frequent[: options.dims - 1]
        size = min(len(frequent) + 1, len(ordered))
        return cls(name, size, tuple(frequent), tuple(ordered[len(frequent) :])) if frequent and size > 1 else None

    def is_whole(self) -> bool:
        """Return whether each category has a place."""
        return self.size == len(self.categories) + bool(self.rare)

    def encode(self, cells: Sequence[Cell]) -> Encoded:
        """Return cells as numbers."""
        places = {text: place for place, text in enumerate(self.categories)}
        places |= dict.fromkeys(self.rare, len(self.categories))
        texts = [_to_text(cell) for cell in cells]
        numbers = np.zeros((len(texts), self.size), dtype=np.float32)
        for row, text in enumerate(texts):
            if text in places:
                numbers[row, places[text]] = 1
        known = np.array([text in places for text in texts], dtype=np.bool_)
        return numbers, known, self._count("unknown categories", sum(map(bool, texts)) - known.sum())


@dataclass(frozen=True, eq=False)
class VectorColumn(Column):
    """Vectors such as embeddings of texts or images, all divided by one number.

    Those of other items that are longer than the longest of the first are shortened.
    """

    scale: float
    "Root of the mean squared length."
    longest: float
    "Length of the longest vector, divided by the scale."

    @classmethod
    def fit(cls, name: str, cells: Sequence[Cell] | NDArray[Any]) -> Self | None:
        """Return the fitted column; None if all vectors are missing or zero."""
        vectors, known = _to_vectors(name, cells, None)
        squares = np.square(vectors[known], dtype=np.float64).sum(1)  # (n,)
        scale = float(np.sqrt(squares.mean())) if known.any() else 0.0
        if not 0 < scale < np.inf:
            return None
        return cls(name, vectors.shape[1], scale, float(np.sqrt(squares.max())) / scale)

    def is_whole(self) -> bool:
        """Return whether the numbers are finite and above 0."""
        return self.size > 0 and 0 < self.scale < np.inf and 0 < self.longest < np.inf

    def encode(self, cells: Sequence[Cell] | NDArray[Any]) -> Encoded:
        """Return cells as numbers."""
        vectors, known = _to_vectors(self.name, cells, self.size)
        numbers = (vectors / self.scale).astype(np.float32)
        lengths = np.sqrt(np.einsum("nd,nd->n", numbers, numbers, dtype=np.float64))  # (n,)
        is_longer = lengths > self.longest * (1 + _ROUNDING)  # (n,)
        numbers[is_longer] *= (self.longest / lengths[is_longer])[:, None]
        return numbers, known, self._count("shortened to the longest of the first vectors", is_longer.sum())


@dataclass(frozen=True, eq=False)
class WordColumn(Column):
    """Words of texts, tags, or columns of a sparse matrix of counts."""

    words: tuple[str, ...] | NDArray[np.int64]
    "(V,) the words that count; of a matrix the numbers of its columns, ascending."
    rarity: NDArray[np.float32]
    "(V,) weight of each word, idf²."
    directions: NDArray[np.float32] | None
    "(V, size) right singular vectors; None where the words themselves are the numbers."
    separator: str | None = None
    "Separator of tags in one text; None for running text."
    width: int | None = None
    "Columns of the matrix; None for texts and tags."

    @classmethod
    def fit(cls, name: str, cells: Sequence[Cell], options: FitOptions, *, tags: bool) -> Self | None:
        """Return the column fitted to texts or tags; None if no word is left."""
        marks = (mark for mark in "|;," if any(isinstance(cell, str) and mark in cell for cell in cells))
        separator = next(marks, "") if tags else None
        rows = _to_words(cells, separator)
        words = list(dict.fromkeys(word for row in rows for word in row))
        kept, rarity, directions = _fit_words(_count_words(rows, words), options)
        size = len(kept) if directions is None else directions.shape[1]
        return cls(name, size, tuple(words[word] for word in kept), rarity, directions, separator) if size else None

    @classmethod
    def fit_matrix(cls, name: str, counts: "sp.csr_array[np.float32]", options: FitOptions) -> Self | None:
        """Return the column fitted to the rows of a matrix of counts; None if no word is left."""
        kept, rarity, directions = _fit_words(counts, options)
        size = len(kept) if directions is None else directions.shape[1]
        return cls(name, size, kept, rarity, directions, width=counts.shape[1]) if size else None

    def is_whole(self) -> bool:
        """Return whether each word has a weight, a row of directions, and a column of the matrix."""
        words, rarity, directions, shape = self.words, self.rarity, self.directions, (len(self.words),)
        is_whole = rarity.dtype == np.float32 and rarity.shape == shape and isinstance(self.separator, str | None)
        if isinstance(words, np.ndarray):
            is_whole &= words.dtype == np.int64 and words.shape == shape
            is_whole &= 0 <= words.min() <= words.max() < (self.width or 0)
        if directions is None:
            return is_whole and (self.size,) == shape
        return is_whole and directions.dtype == np.float32 and directions.shape == (*shape, self.size)

    def encode(self, cells: Any) -> Encoded:
        """Return texts, tags or rows of counts (n, width) as numbers."""
        if isinstance(self.words, tuple):
            rows = _to_words(cells, self.separator)
            counts = _count_words(rows, self.words)  # (n, V)
            n_unknown = sum(map(len, rows)) - int(counts.sum(dtype=np.float64))
        else:
            counts = sp.csr_array(cells[:, self.words])  # (n, V)
            n_unknown = cells.nnz - counts.nnz
        weights = _weigh(counts, self.rarity)
        numbers = weights.toarray() if self.directions is None else weights @ self.directions
        known = np.diff(weights.indptr) > 0
        return unit_rows(numbers.astype(np.float32, copy=False)), known, self._count("rare or unknown words", n_unknown)


COLUMN_CLASSES = {kind.__name__: kind for kind in (NumberColumn, CategoryColumn, VectorColumn, WordColumn)}
"""All kinds of columns, by the names that files have for them."""


def fit_column(name: str, cells: Sequence[Cell], kind: Kind | None, options: FitOptions) -> Column | None:
    """Fit a column of a table; None if nothing in it tells items apart. The kind None is guessed from the cells."""
    match kind or guess_kind(cells):
        case "number":
            return NumberColumn.fit(name, cells)
        case "category":
            return CategoryColumn.fit(name, cells, options)
        case "vector":
            return VectorColumn.fit(name, cells)
        case words:
            return WordColumn.fit(name, cells, options, tags=words == "tags")


# --- Words -----------------------------------------------------------------------------------------------------------


def _count_words(rows: Sequence[Sequence[str]], words: Sequence[str]) -> "sp.csr_array[np.float32]":
    """Return how often each row has each of these words (n, V); others are ignored."""
    index = {word: place for place, word in enumerate(words)}
    places = [[index[word] for word in row if word in index] for row in rows]
    indices = np.fromiter(chain.from_iterable(places), dtype=np.int64)
    ends = np.cumsum([0, *map(len, places)], dtype=np.int64)
    counts = sp.csr_array((np.ones(len(indices), dtype=np.float32), indices, ends), shape=(len(rows), len(words)))
    counts.sum_duplicates()
    return counts


def _fit_words(
    counts: "sp.csr_array[np.float32]", options: FitOptions
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32] | None]:
    """Return the words (V,) of enough items among all (n, V0), ascending, and their rarity and directions."""
    items_with = np.bincount(counts.indices, minlength=counts.shape[1])  # (V0,)
    kept = np.flatnonzero(items_with >= options.min_items)
    if len(kept) > _MOST_WORDS:
        kept = np.sort(kept[np.argsort(-items_with[kept], kind="stable")[:_MOST_WORDS]])
    n_items = int((np.diff(counts.indptr) > 0).sum())
    rarity = np.square(np.log((1 + n_items) / (1 + items_with[kept])) + 1).astype(np.float32)
    if len(kept) <= options.dims:
        return kept, rarity, None
    return kept, rarity, top_directions(_weigh(sp.csr_array(counts[:, kept]), rarity), options.dims, options.seed)


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


def unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows (n, d) scaled to length 1; rows of zeros stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)  # (n, 1)
    scaled: NDArray[np.float32] = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32, copy=False)
    return scaled


# --- Cells -----------------------------------------------------------------------------------------------------------


def read_cells(table: Any, name: str) -> list[Cell]:
    """Return the cells of a column; times become days."""
    column = read_column(table, name)
    if isinstance(column, np.ndarray) and column.dtype.kind == "M":
        column = np.where(np.isnat(column), np.nan, column.astype("M8[us]").astype(np.int64) / 86_400e6)
    return [_read_cell(name, cell) for cell in (column.tolist() if isinstance(column, np.ndarray) else column)]


def read_column(table: Any, name: str) -> Any:
    """Return a column of a pandas or polars frame, or of a dict of columns."""
    if not isinstance(table, Mapping):
        return column_of(table, name)
    if name not in table:
        raise DataError(describe_missing_column(name, list(table)))
    return table[name]


def _read_cell(name: str, cell: Any) -> Cell:
    if isinstance(cell, dict):
        raise DataError(f"column {quote(name)} has tables in its cells; leave it out: {name_kind(name, 'skip')}")
    if isinstance(cell, list | tuple) or getattr(cell, "shape", None):  # the latter are arrays, and series of polars
        return cell.tolist() if hasattr(cell, "tolist") else list(cell)
    if is_missing(cell):
        return None
    if isinstance(cell, bool):
        return int(cell)
    return cell if isinstance(cell, int | float | str) else str(cell)


def guess_kind(cells: Sequence[Cell]) -> Kind:
    """Return the kind that the cells of a column suggest.

    Texts of numbers are numbers, even if some are n/a; lists of fractions are vectors, other lists are tags; of texts,
    those with | in at least half of them are tags, those of more than three words on average, or of more than one if
    most are different, text, and others categories.
    """
    lists = [cell for cell in cells if isinstance(cell, list)]
    if lists:
        are_fractions = all(isinstance(number, float) for cell in lists for number in cell)
        is_even = len({len(cell) for cell in lists if cell}) == 1
        return "vector" if are_fractions and is_even else "tags"
    values = [cell for cell in cells if cell is not None]
    numbers = [_to_number(cell) for cell in values]
    if None not in numbers and not (values and np.isnan(numbers).all()):  # type: ignore[arg-type]
        return "number"
    texts = list(map(str, values))
    if 2 * sum("|" in text for text in texts) >= len(texts):
        return "tags"
    n_words = sum(len(text.split()) for text in texts)
    are_titles = n_words > len(texts) and 2 * len(set(texts)) > len(texts)
    return "text" if are_titles or n_words > _LONG_TEXT * len(texts) else "category"


def name_kind(name: str, kind: Kind) -> str:
    """Return how the kind of a column is named, in Python and on the command line."""
    return f"kinds={{{quote(name)}: {quote(kind)}}}, or --feature-kind {shlex.quote(f'{name}={kind}')}"


def _to_number(cell: Cell) -> float | None:
    """Return a cell as a number, NaN where missing; None if it is something else."""
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in _NO_NUMBER):
        return np.nan
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def _to_numbers(name: str, cells: Sequence[Cell]) -> NDArray[np.float64]:
    """Return cells as numbers (n,), NaN where missing."""
    values = [_to_number(cell) for cell in cells]
    bad = next((row for row, value in enumerate(values) if value is None or abs(value) == np.inf), None)
    if bad is not None:
        raise DataError(
            f"column {quote(name)}, row {bad}: {quote(cells[bad])} is not a finite number; correct it, or give the "
            f"column another kind in training: {name_kind(name, 'category')}"
        )
    return np.array(values, dtype=np.float64)


def _to_vectors(
    name: str, cells: Sequence[Cell] | NDArray[Any], width: int | None
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return lists, or the rows of a matrix, as vectors (n, width), zeros where missing, and which are known (n,)."""
    vectors: Any = cells
    if not isinstance(cells, np.ndarray):
        width = width or next((len(cell) for cell in cells if isinstance(cell, list)), 0)
        vectors = np.full((len(cells), width), np.nan)
        for row, cell in enumerate(cells):
            try:
                vectors[row] = np.nan if cell is None else np.array(cell, dtype=np.float64).reshape(width)
            except (TypeError, ValueError):
                raise DataError(
                    f"column {quote(name)}, row {row}: {quote(cell)} is not a list of {width} numbers; correct it"
                ) from None
    missing = np.isnan(vectors).all(1)  # (n,)
    bad = ~np.isfinite(vectors).all(1) & ~missing
    if bad.any():
        raise DataError(
            f"{quote(name)}, row {int(bad.argmax())}: the vector has NaN or infinity in it; correct it, or fill the "
            "whole row with NaN for an item without features"
        )
    return (np.where(missing[:, None], 0, vectors) if missing.any() else vectors), ~missing


def _to_words(cells: Sequence[Cell], separator: str | None) -> list[list[str]]:
    """Return the words of each cell: tags, split at the separator in a text, or the lower-case words of a text."""
    rows = []
    for cell in cells:
        if isinstance(cell, list):
            words = [_to_text(tag) for tag in cell if not is_missing(tag)]
        elif separator is None:
            words = _WORD.findall(_to_text(cell).lower())
        else:
            words = _to_text(cell).split(separator) if separator else [_to_text(cell)]
        rows.append([word.strip() for word in words if word.strip()])
    return rows


def _to_text(cell: object) -> str:
    """Return a cell as text, empty where missing; whole numbers are written without a fraction."""
    if cell is None:
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()
