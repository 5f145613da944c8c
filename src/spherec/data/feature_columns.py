"""Columns of item features: how a cell becomes numbers, fitted once and then the same for other items.

    number           (x − mean) / deviation, cut to the range of the fit          1 number
    category         1 at its place, 0 elsewhere; the most frequent have one      at most `dims` numbers
    tags, text       unit(unit(w) V) with w = ln(1 + count) · idf²                at most `dims` numbers
    sparse matrix    the same, for a row of counts
    dense matrix     x / √(mean |x|²), no longer than the longest of the fit      as many numbers as it has

idf = ln((1 + n) / (1 + m)) + 1, where m of n items have the word. V (words, dims) has the right singular vectors of the
items' rows unit(w) with the largest singular values; with no more words than `dims` it is left out.

A column of any kind has a mean squared length of at most 1, so none drowns the others. A cell without content is
missing: its numbers are 0, which is the mean of a number.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spherec import rng
from spherec.data.frames import column_of
from spherec.data.ids import is_missing
from spherec.errors import DataError, check_number, quote

Kind = Literal["number", "category", "tags", "text", "skip"]
"""Meaning of a table's column; "skip" leaves it out."""

Cell = int | float | str | list[str] | None
"""A cell of a table, None where missing."""

_WORD = re.compile(r"\w\w+")
_NO_NUMBER = {"", "n/a", "na", "null", "none", "-", "?"}  # for a missing cell among numbers
_LONG_TEXT = 3  # words; texts with more of them on average are text
_FEWEST_ITEMS = 2  # that have a word or category; rarer ones are left out
_MOST_WORDS = 1 << 17  # of a column; the most frequent stay. V then takes 160 MB with 300 dimensions
_MORE_DIRECTIONS = 16  # than wanted are followed, for accuracy
_ITERATIONS = 5
_ROUNDING = 1e-3  # by which a vector may seem longer than it is, in float16


Encoded = tuple[NDArray[np.float32], NDArray[np.bool_], dict[str, int]]
"""Numbers (n, size) of cells, which of them say anything (n,), and how many do not, or were not in the fit."""

MISSING = "missing"
"""Description of cells without content."""


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """Numbers, scaled to mean 0 and variance 1. Those of other items are cut to the range of the first."""

    name: str
    size: int
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

    def encode(self, cells: Sequence[Cell]) -> Encoded:
        """Return cells as numbers."""
        values = _to_numbers(self.name, cells)  # (n,)
        known = ~np.isnan(values)
        inside = np.clip(values, self.lowest, self.highest)
        scaled = ((np.where(known, inside, self.mean) - self.mean) / self.deviation).astype(np.float32)
        n_cut = int((known & (inside != values)).sum())
        return scaled[:, None], known, {MISSING: int((~known).sum()), "cut to the range of the first items": n_cut}


@dataclass(frozen=True, eq=False)
class VectorColumn:
    """The rows of a dense matrix, such as embeddings, all divided by one number.

    Those of other items that are longer than the longest of the first are shortened.
    """

    name: str
    size: int
    scale: float
    "Root of the mean squared length."
    longest: float
    "Length of the longest vector, divided by the scale."

    @classmethod
    def fit(cls, name: str, rows: NDArray[Any]) -> Self | None:
        """Return the fitted column; None if all rows are missing or zero."""
        known = np.isfinite(rows).all(1)  # (n,)
        squares = np.square(rows[known], dtype=np.float64).sum(1)  # (≤ n,)
        scale = float(np.sqrt(squares.mean())) if known.any() else 0.0
        return cls(name, rows.shape[1], scale, float(np.sqrt(squares.max())) / scale) if 0 < scale < np.inf else None

    def encode(self, rows: Any) -> Encoded:
        """Return rows (n, size) as numbers."""
        missing = np.isnan(rows).all(1)  # (n,)
        vectors = np.where(missing[:, None], 0, rows.astype(np.result_type(rows, np.float32), copy=False))
        numbers = (vectors / self.scale).astype(np.float32)
        lengths = np.sqrt(np.einsum("nd,nd->n", numbers, numbers, dtype=np.float64))  # (n,)
        is_longer = lengths > self.longest * (1 + _ROUNDING)  # (n,)
        numbers[is_longer] *= (self.longest / lengths[is_longer])[:, None]
        shortened = {"shortened to the longest of the first items": int(is_longer.sum())}
        return numbers, ~missing, {MISSING: int(missing.sum()), **shortened}


@dataclass(frozen=True, eq=False)
class WordColumn:
    """Categories, tags, words of texts, or columns of a sparse matrix of counts."""

    name: str
    size: int
    words: tuple[str, ...]
    "(V,) the words that count; of a matrix the numbers of its columns."
    rarity: NDArray[np.float32]
    "(V,) weight of each word, idf²."
    directions: NDArray[np.float32] | None
    "(V, size) right singular vectors; None where the words themselves are the numbers."
    separator: str | None = None
    "Separator of tags in one text, empty for categories; None for running text."
    width: int | None = None
    "Columns of the matrix; None for tables."

    @classmethod
    def fit(cls, name: str, cells: Any, dims: int, kind: Kind | None = None) -> Self | None:
        """Return the column fitted to cells of a table, or to rows of a matrix of counts; None if no word is left."""
        check_number("dims", dims, 2, 4096, "300")
        separator, width = None, None
        counts: Any = cells
        if sp.issparse(cells):
            counts, width = counts.tocsr(), counts.shape[1]
            words = list(map(str, range(width)))
        else:
            marks = "|;," if kind == "tags" else ""
            found = (mark for mark in marks if any(isinstance(cell, str) and mark in cell for cell in cells))
            separator = None if kind == "text" else next(found, "")
            rows = _to_words(cells, separator)
            number = Counter(chain.from_iterable(rows)) if len(set(map(tuple, rows))) > 1 else Counter[str]()
            words = list(number)
            if kind == "category":  # the most frequent first
                words = sorted(number, key=lambda word: (-number[word], word))[:dims]
            counts = _count_words(rows, words)
        kept, rarity = _weigh_words(counts)
        directions = None
        if len(kept) > dims:
            directions = top_directions(_weigh(sp.csr_array(counts[:, kept]), rarity), dims)
        size = len(kept) if directions is None else directions.shape[1]
        chosen = tuple(words[word] for word in kept)
        return cls(name, size, chosen, rarity, directions, separator, width) if size else None

    def encode(self, cells: Any) -> Encoded:
        """Return cells, or rows of counts (n, width), as numbers."""
        if self.width is None:
            rows = _to_words(cells, self.separator)
            counts, n_words = _count_words(rows, self.words), np.array([len(set(row)) for row in rows])  # (n, V), (n,)
        else:
            given = cells.tocsr()
            counts, n_words = sp.csr_array(given[:, list(map(int, self.words))]), np.diff(given.indptr)
        weights = _weigh(counts, self.rarity)
        numbers = weights.toarray() if self.directions is None else weights @ self.directions
        known = np.diff(weights.indptr) > 0
        scaled = unit_rows(numbers.astype(np.float32, copy=False))
        return scaled, known, {MISSING: int((n_words == 0).sum()), "rare or unknown": int(n_words.sum()) - counts.nnz}


Column = NumberColumn | VectorColumn | WordColumn


def fit_cells(name: str, cells: Sequence[Cell], kind: Kind | None, dims: int) -> Column | None:
    """Return the column fitted to cells, by default of the kind that they suggest; None if it tells nothing apart."""
    kind = kind or guess_kind(cells)
    return NumberColumn.fit(name, cells) if kind == "number" else WordColumn.fit(name, cells, dims, kind)


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


def _weigh_words(counts: "sp.csr_array[np.float32]") -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the words (V,) of enough items among all (n, V0), ascending, and their rarity (V,)."""
    items_with = np.bincount(counts.indices, minlength=counts.shape[1])  # (V0,)
    kept = np.flatnonzero(items_with >= _FEWEST_ITEMS)
    kept = np.sort(kept[np.argsort(-items_with[kept], kind="stable")[:_MOST_WORDS]])
    n_items = int((np.diff(counts.indptr) > 0).sum())
    return kept, np.square(np.log((1 + n_items) / (1 + items_with[kept])) + 1).astype(np.float32)


def _weigh(counts: "sp.csr_array[np.float32]", rarity: NDArray[np.float32]) -> "sp.csr_array[np.float32]":
    """Return counts (n, V) weighed by tf-idf², rows of length 1."""
    weights = (np.log1p(counts.data) * rarity[counts.indices]).astype(np.float32)
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    lengths = np.sqrt(np.bincount(rows, np.square(weights, dtype=np.float64), minlength=counts.shape[0]))  # (n,)
    weights /= np.where(lengths > 0, lengths, 1)[rows].astype(np.float32)
    return sp.csr_array((weights, counts.indices, counts.indptr), shape=counts.shape)


def top_directions(matrix: "sp.csr_array[np.float32]", n: int) -> NDArray[np.float32]:
    """Return the right singular vectors (V, ≤ n) of a sparse matrix with the largest singular values.

    By subspace iteration from a random start (Halko, Martinsson, Tropp, 2011): the matrix is only multiplied. The
    largest entry of each vector is positive.
    """
    width = min(n + _MORE_DIRECTIONS, *matrix.shape)
    transposed = sp.csr_array(matrix.T)
    start = rng.stream(0, "directions of features").standard_normal((matrix.shape[0], width)).astype(np.float32)
    basis, _ = np.linalg.qr(transposed @ start)  # (V, width)
    for _ in range(_ITERATIONS):
        basis, _ = np.linalg.qr(transposed @ (matrix @ basis))
    image = (matrix @ basis).astype(np.float64)  # (n, width)
    squares, turns = np.linalg.eigh(image.T @ image)  # ascending
    squares, turns = squares[::-1][:n], turns[:, ::-1][:, :n]
    directions = basis @ turns[:, squares > 1e-9 * squares[0]].astype(np.float32)  # (V, ≤ n)
    largest = directions[np.abs(directions).argmax(0), np.arange(directions.shape[1])]
    return np.ascontiguousarray(directions * np.where(largest < 0, -1, 1), dtype=np.float32)


def unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows (n, d) scaled to length 1; rows of zeros stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)  # (n, 1)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), dtype=np.float32)


# --- Cells -----------------------------------------------------------------------------------------------------------


def read_cells(table: Any, name: str) -> list[Cell]:
    """Return the cells of a column of a pandas or polars frame, or of a dict of columns; times become days."""
    column = column_of(table, name)
    if isinstance(column, np.ndarray) and column.dtype.kind == "M":
        column = np.where(np.isnat(column), np.nan, column.astype("M8[us]").astype(np.int64) / 86_400e6)
    return [_read_cell(cell) for cell in (column.tolist() if isinstance(column, np.ndarray) else column)]


def _read_cell(cell: Any) -> Cell:
    to_list = getattr(cell, "tolist", None) or getattr(cell, "to_list", None)  # of an array; of a series of polars
    cell = to_list() if to_list else cell
    if isinstance(cell, list | tuple):
        return [_to_text(tag) for tag in cell if not is_missing(tag)]
    return None if is_missing(cell) else cell if isinstance(cell, int | float | str) else str(cell)


def guess_kind(cells: Sequence[Cell]) -> Kind:
    """Return the kind that the cells of a column suggest.

    Texts of numbers are numbers, even if some are n/a. Lists are tags, and so are texts of which at least half have a
    | in them. Texts of more than three words on average are text, as are titles: most are different, and have more than
    one word. Others are categories.
    """
    values = [cell for cell in cells if cell is not None]
    numbers = [_to_number(cell) for cell in values]
    if None not in numbers and not (values and np.isnan(numbers).all()):  # type: ignore[arg-type]
        return "number"
    texts = ["|" if isinstance(cell, list) else str(cell) for cell in values]
    if 2 * sum("|" in text for text in texts) >= len(texts):
        return "tags"
    n_words = sum(len(text.split()) for text in texts)
    are_titles = n_words > len(texts) and 2 * len(set(texts)) > len(texts)
    return "text" if are_titles or n_words > _LONG_TEXT * len(texts) else "category"


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
    row = next((row for row, value in enumerate(values) if value is None or abs(value) == np.inf), None)
    if row is not None:
        raise DataError(
            f"column {quote(name)}, row {row}: {quote(cells[row])} is not a finite number; correct it, or give the "
            f"column another kind in training: kinds={{{quote(name)}: 'category'}}, or --feature-kind {name}=category"
        )
    return np.array(values, dtype=np.float64)


def _to_words(cells: Sequence[Cell], separator: str | None) -> list[list[str]]:
    """Return the words of each cell: tags, split at the separator in a text, or the lower-case words of a text."""

    def split(cell: Cell) -> list[str]:
        if isinstance(cell, list):
            return cell
        if separator is None:
            return _WORD.findall(_to_text(cell).lower())
        return _to_text(cell).split(separator) if separator else [_to_text(cell)]

    return [[word.strip() for word in split(cell) if word.strip()] for cell in cells]


def _to_text(cell: object) -> str:
    """Return a cell as text, empty where missing; whole numbers are written without a fraction."""
    if cell is None:
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()
