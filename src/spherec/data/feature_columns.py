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
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spherec import rng
from spherec.data.frames import column_of
from spherec.data.id_arrays import decode_names, encode_names
from spherec.data.ids import is_missing
from spherec.errors import DataError, quote

Kind = Literal["number", "category", "tags", "text", "vector", "skip"]
"""Meaning of a table's column; "skip" leaves it out."""

Counts = tuple[tuple[str, int], ...]
"""Content that gave no numbers: a description such as "genre: missing", and how often."""

_WORD = re.compile(r"\w\w+")
_NO_NUMBER = {"", "n/a", "na", "null", "none", "-", "?"}  # for a missing cell among numbers
_LONG_TEXT = 3  # words; texts with more of them on average are text
_ROUNDING = 1e-3  # by which a vector may seem longer than it is, in float16
_MOST_WORDS = 1 << 17  # of a column; the most frequent stay. V then takes 160 MB with 300 dimensions
_MORE_DIRECTIONS = 16  # than wanted are followed, for accuracy
_ITERATIONS = 5


@dataclass(frozen=True)
class FitOptions:
    """Options of fitting, the same for all columns."""

    dims: int
    min_items: int
    seed: int


@dataclass(frozen=True, eq=False)
class Encoded:
    """Cells of a column as numbers."""

    numbers: NDArray[np.float32]
    "(n, size)"
    known: NDArray[np.bool_]
    "(n,) whether the cell says anything."
    left_out: Counts = ()
    unknown: Counts = ()
    "Content that was not there when the column was fitted."


@dataclass(frozen=True, eq=False)
class Column(ABC):
    """A fitted column. Its fields are numbers, texts, tuples of texts and arrays; files keep them as they are."""

    name: str

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of numbers for each cell."""

    @abstractmethod
    def encode(self, cells: Any) -> Encoded:
        """Return cells, an array of `read_cells` or the rows of a matrix, as numbers."""

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the fields that JSON can hold, with the class, and the others as arrays."""
        table: dict[str, Any] = {"class": type(self).__name__}
        arrays: dict[str, NDArray[Any]] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                arrays[field.name] = value
            elif isinstance(value, tuple):
                arrays |= encode_names(value, field.name)
            else:
                table[field.name] = value
        return table, arrays


def read_column(table: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Column:
    """Return the column that `to_state` described."""
    given = {name: value for name, value in table.items() if name != "class"}
    for name in {name.partition(".")[0] for name in arrays}:
        given[name] = arrays[name] if name in arrays else tuple(text or "" for text in decode_names(arrays, name) or ())
    kinds = {kind.__name__: kind for kind in (NumberColumn, CategoryColumn, TextColumn, CountsColumn, VectorColumn)}
    return kinds[table["class"]](**given)


@dataclass(frozen=True, eq=False)
class NumberColumn(Column):
    """Numbers, scaled to mean 0 and variance 1. Those of other items are cut to the range of the first."""

    mean: float
    deviation: float
    lowest: float
    highest: float
    size: ClassVar[int] = 1

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # too large numbers become infinite, and are refused
    def fit(cls, name: str, cells: NDArray[Any]) -> Self | None:
        """Return the fitted column; None if all cells are missing or equal."""
        values = _to_numbers(name, cells)
        values = values[~np.isnan(values)]
        if not len(values):
            return None
        mean, deviation = float(values.mean()), float(values.std())
        is_varied = deviation > 1e-9 * abs(mean)
        return cls(name, mean, deviation, float(values.min()), float(values.max())) if is_varied else None

    @np.errstate(over="ignore", invalid="ignore")  # too large numbers become infinite, and are refused
    def encode(self, cells: NDArray[Any]) -> Encoded:
        """Return cells as numbers."""
        values = _to_numbers(self.name, cells)  # (n,)
        known = ~np.isnan(values)
        inside = np.clip(values, self.lowest, self.highest)
        scaled = ((np.where(known, inside, self.mean) - self.mean) / self.deviation).astype(np.float32)
        cut = _count(f"{self.name}: cut to {self.lowest:g} … {self.highest:g}", known & (inside != values))
        return Encoded(scaled[:, None], known, _count(f"{self.name}: missing", ~known), cut)


@dataclass(frozen=True, eq=False)
class CategoryColumn(Column):
    """Categories, each with a place of its own; rare ones share the last place."""

    categories: tuple[str, ...]
    rare: tuple[str, ...]

    @classmethod
    def fit(cls, name: str, cells: NDArray[Any], options: FitOptions) -> Self | None:
        """Return the fitted column; None if no two items share a category, or all do."""
        counts = Counter(text for text in _to_categories(cells) if text is not None)
        ordered = sorted(counts, key=lambda text: (-counts[text], text))  # the most frequent first
        frequent = [text for text in ordered if counts[text] >= options.min_items]
        if len(frequent) < len(ordered) or len(frequent) > options.dims:
            frequent = frequent[: options.dims - 1]
        column = cls(name, tuple(frequent), tuple(ordered[len(frequent) :]))
        return column if frequent and column.size > 1 else None

    @property
    def size(self) -> int:
        """Number of categories, of which all rare ones are one."""
        return len(self.categories) + bool(self.rare)

    def encode(self, cells: NDArray[Any]) -> Encoded:
        """Return cells as numbers."""
        places = {text: place for place, text in enumerate(self.categories)}
        places |= dict.fromkeys(self.rare, len(self.categories))
        texts = _to_categories(cells)
        place = np.array([places.get(text, -1) if text is not None else -1 for text in texts], dtype=np.int64)  # (n,)
        missing = np.array([text is None for text in texts], dtype=bool)
        known = place >= 0
        numbers = np.zeros((len(texts), self.size), dtype=np.float32)
        numbers[np.flatnonzero(known), place[known]] = 1
        unknown = _count(f"{self.name}: unknown categories", ~known & ~missing)
        return Encoded(numbers, known, _count(f"{self.name}: missing", missing), unknown)


@dataclass(frozen=True, eq=False)
class VectorColumn(Column):
    """Vectors such as embeddings of texts or images, all divided by one number.

    Those of other items that are longer than the first are shortened.
    """

    width: int
    scale: float
    "Root of the mean squared length."
    longest: float
    "Length of the longest vector, divided by the scale."

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # too large numbers become infinite, and are refused
    def fit(cls, name: str, cells: NDArray[Any]) -> Self | None:
        """Return the fitted column; None if all vectors are missing or zero."""
        vectors, known = _to_vectors(name, cells, None)
        squares = np.square(vectors[known], dtype=np.float64).sum(1)  # (n,)
        scale = float(np.sqrt(squares.mean())) if known.any() else 0.0
        if not 0 < scale < np.inf:
            return None
        return cls(name, vectors.shape[1], scale, float(np.sqrt(squares.max())) / scale)

    @property
    def size(self) -> int:
        """Number of dimensions."""
        return self.width

    @np.errstate(over="ignore", invalid="ignore")  # too large numbers become infinite, and are refused
    def encode(self, cells: NDArray[Any]) -> Encoded:
        """Return cells as numbers."""
        vectors, known = _to_vectors(self.name, cells, self.width)
        numbers = (vectors / self.scale).astype(np.float32)
        lengths = np.sqrt(np.einsum("nd,nd->n", numbers, numbers, dtype=np.float64))  # (n,)
        is_longer = lengths > self.longest * (1 + _ROUNDING)  # (n,)
        numbers[is_longer] *= (self.longest / lengths[is_longer])[:, None]
        longer = _count(f"{self.name}: shortened to the longest of the first vectors", is_longer)
        return Encoded(numbers, known, _count(f"{self.name}: missing", ~known), longer)


# --- Words -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class WordColumn(Column):
    """V words with weights, and the directions into which rows of their counts are reduced."""

    rarity: NDArray[np.float32]
    "(V,) weight of each word, idf²."
    directions: NDArray[np.float32] | None
    "(V, d) right singular vectors; None where the words themselves are the numbers."

    @property
    def size(self) -> int:
        """Number of directions or, without any, of words."""
        return len(self.rarity) if self.directions is None else self.directions.shape[1]

    def encode_counts(self, counts: "sp.csr_array[np.float32]", empty: NDArray[np.bool_], unknown: int) -> Encoded:
        """Return rows of counts (n, V) as numbers; which rows (n,) had no word, and how many words were not known."""
        weights = _weigh(counts, self.rarity)
        numbers = weights.toarray() if self.directions is None else weights @ self.directions
        known = np.diff(weights.indptr) > 0
        left_out = _count(f"{self.name}: missing", empty) + _count(f"{self.name}: no known word", ~known & ~empty)
        more = ((f"{self.name}: unknown words", unknown),) if unknown else ()
        return Encoded(unit_rows(numbers.astype(np.float32, copy=False)), known, left_out, more)


@dataclass(frozen=True, eq=False)
class TextColumn(WordColumn):
    """Texts, or lists of tags."""

    words: tuple[str, ...]
    "(V,) the known words."
    separator: str | None
    "Separator of tags in one text; None for running text."

    @classmethod
    def fit(cls, name: str, cells: NDArray[Any], options: FitOptions, *, tags: bool) -> tuple[Self | None, Counts]:
        """Return the fitted column, None if no word is left, and the words that were left out."""
        texts = [cell for cell in cells.tolist() if isinstance(cell, str)]
        mark = next((mark for mark in "|;," if any(mark in text for text in texts)), "")
        separator = mark if tags else None
        rows = _to_words(cells, separator)
        index = {word: place for place, word in enumerate(dict.fromkeys(word for row in rows for word in row))}
        counts, _ = _count_words(rows, index)
        kept, left_out = _choose_words(name, counts, options)
        if not len(kept):
            return None, left_out
        words = list(index)
        known = tuple(words[word] for word in kept.tolist())
        return cls(name, *_fit_weights(counts, kept, options), known, separator), left_out

    def encode(self, cells: NDArray[Any]) -> Encoded:
        """Return cells as numbers."""
        rows = _to_words(cells, self.separator)
        counts, unknown = _count_words(rows, {word: place for place, word in enumerate(self.words)})
        return self.encode_counts(counts, np.array([not row for row in rows], dtype=bool), unknown)


@dataclass(frozen=True, eq=False)
class CountsColumn(WordColumn):
    """Rows of a sparse matrix: how often each item has each word."""

    n_columns: int
    "Columns of the matrix."
    kept: NDArray[np.int64]
    "(V,) the columns in use, ascending."

    @classmethod
    def fit(cls, name: str, counts: "sp.csr_array[np.float32]", options: FitOptions) -> tuple[Self | None, Counts]:
        """Return the fitted column, None if no word is left, and the words that were left out."""
        kept, left_out = _choose_words(name, counts, options)
        if not len(kept):
            return None, left_out
        return cls(name, *_fit_weights(counts, kept, options), counts.shape[1], kept), left_out

    def encode(self, cells: "sp.csr_array[np.float32]") -> Encoded:
        """Return rows of counts (n, n_columns) as numbers."""
        kept = sp.csr_array(cells[:, self.kept])
        return self.encode_counts(kept, np.diff(cells.indptr) == 0, cells.nnz - kept.nnz)


def _count_words(rows: Sequence[Sequence[str]], index: Mapping[str, int]) -> "tuple[sp.csr_array[np.float32], int]":
    """Return how often each row has each word of `index` (n, V), and the number of words that are not in it."""
    places = [[index[word] for word in row if word in index] for row in rows]
    indices = np.fromiter((place for row in places for place in row), dtype=np.int64)
    ends = np.cumsum([0, *map(len, places)], dtype=np.int64)
    ones = np.ones(len(indices), dtype=np.float32)
    counts = sp.csr_array((ones, indices, ends), shape=(len(rows), len(index)))
    counts.sum_duplicates()
    return counts, sum(map(len, rows)) - len(indices)


def _choose_words(
    name: str, counts: "sp.csr_array[np.float32]", options: FitOptions
) -> tuple[NDArray[np.int64], Counts]:
    """Return the words (V,) of enough items, ascending, and how many others the column `name` has."""
    items_with = np.bincount(counts.indices, minlength=counts.shape[1])  # (V0,)
    kept = np.flatnonzero(items_with >= options.min_items)
    rare = int((items_with > 0).sum()) - len(kept)
    left_out = [(f"{name}: words of fewer than {options.min_items} items", rare)] if rare else []
    if len(kept) > _MOST_WORDS:
        left_out.append((f"{name}: words beyond the {_MOST_WORDS:,} most frequent", len(kept) - _MOST_WORDS))
        kept = np.sort(kept[np.argsort(-items_with[kept], kind="stable")[:_MOST_WORDS]])
    return kept, tuple(left_out)


def _fit_weights(
    counts: "sp.csr_array[np.float32]", kept: NDArray[np.int64], options: FitOptions
) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """Return rarity (V,) and directions (V, d) of the words `kept` (V,), by the counts (n, V0) of all words."""
    n_items = int((np.diff(counts.indptr) > 0).sum())
    used = sp.csr_array(counts[:, kept])  # (n, V)
    items_with = np.bincount(used.indices, minlength=len(kept))  # (V,)
    rarity = np.square(np.log((1 + n_items) / (1 + items_with)) + 1).astype(np.float32)
    if len(kept) <= options.dims:
        return rarity, None
    return rarity, top_directions(_weigh(used, rarity), options.dims, options.seed)


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


def fit_column(name: str, cells: NDArray[Any], kind: Kind | None, options: FitOptions) -> tuple[Column | None, Counts]:
    """Fit a column of a table; None if nothing in it tells items apart. The kind None is guessed from the cells."""
    match kind or guess_kind(name, cells):
        case "number":
            return NumberColumn.fit(name, cells), ()
        case "category":
            return CategoryColumn.fit(name, cells, options), ()
        case "vector":
            return VectorColumn.fit(name, cells), ()
        case words:
            return TextColumn.fit(name, cells, options, tags=words == "tags")


# --- Cells -----------------------------------------------------------------------------------------------------------


def read_cells(frame: Any, name: str) -> NDArray[Any]:
    """Return a column of a pandas or polars frame: float64 (n,) or (n, width), or objects (n,), None where missing."""
    column = column_of(frame, name)
    if column.dtype.kind in "biuf":
        return column.astype(np.float64)
    if column.dtype.kind == "M":
        return np.where(np.isnat(column), np.nan, column.astype("M8[us]").astype(np.int64) / 86_400e6)  # days
    return np.fromiter(map(_read_cell, column.tolist()), dtype=object, count=len(column))


def _read_cell(cell: Any) -> Any:
    if isinstance(cell, list | tuple) or getattr(cell, "shape", None):  # the latter are arrays, and series of polars
        return cell.tolist() if hasattr(cell, "tolist") else list(cell)
    if isinstance(cell, bool):
        return float(cell)
    return cell if isinstance(cell, dict) or not is_missing(cell) else None


def guess_kind(name: str, cells: NDArray[Any]) -> Kind:
    """Return the kind that the cells of a column suggest.

    Texts of numbers are numbers, even if some are n/a; lists of fractions are vectors, other lists are tags; of texts,
    those with | in at least half of them are tags, those of more than three words on average, or of more than one if
    most are different, text, and others categories.
    """
    if cells.dtype != object:
        return "number" if cells.ndim == 1 else "vector"
    values = [cell for cell in cells.tolist() if cell is not None]
    if any(isinstance(cell, dict) for cell in values):
        raise DataError(f"column {quote(name)} has tables in its cells; leave it out: {name_kind(name, 'skip')}")
    lists = [cell for cell in values if isinstance(cell, list)]
    if lists:
        are_fractions = all(isinstance(number, float) for cell in lists for number in cell)
        is_even = len({len(cell) for cell in lists if cell}) == 1
        return "vector" if are_fractions and is_even else "tags"
    texts = list(map(str, values))
    numbers = [text for text in texts if not _says_missing(text)]
    if all(map(_is_number, numbers)) and (numbers or not texts):
        return "number"
    if 2 * sum("|" in text for text in texts) >= len(texts):
        return "tags"
    n_words = sum(len(text.split()) for text in texts)
    are_titles = n_words > len(texts) and 2 * len(set(texts)) > len(texts)
    return "text" if are_titles or n_words > _LONG_TEXT * len(texts) else "category"


def name_kind(name: str, kind: Kind) -> str:
    """Return how the kind of a column is named, in Python and on the command line."""
    return f"kinds={{{quote(name)}: {quote(kind)}}}, or --feature-kind {shlex.quote(f'{name}={kind}')}"


def _to_numbers(name: str, cells: NDArray[Any]) -> NDArray[np.float64]:
    """Return cells as numbers (n,), NaN where missing."""
    values = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells.tolist()):
        try:
            values[row] = np.nan if cell is None or _says_missing(cell) else float(cell)
        except (TypeError, ValueError, OverflowError):
            values[row] = np.inf
        if np.isinf(values[row]):
            raise DataError(
                f"column {quote(name)}, row {row}: {quote(cell)} is not a finite number; correct it, or give the "
                f"column another kind in training: {name_kind(name, 'category')}"
            )
    return values


def _to_categories(cells: NDArray[Any]) -> list[str | None]:
    """Return cells as categories, None where missing; whole numbers are written without a fraction."""
    return [None if is_missing(cell) else _to_text(cell).strip() or None for cell in cells.tolist()]


def _to_words(cells: NDArray[Any], separator: str | None) -> list[list[str]]:
    """Return the words of each cell: tags, split at the separator in a text, or the lower-case words of a text."""
    rows: list[list[str]] = []
    for cell in cells.tolist():
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


def _to_vectors(name: str, cells: NDArray[Any], width: int | None) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return cells as vectors (n, width), zeros where missing, and which are known (n,)."""
    vectors: NDArray[Any] = cells if cells.ndim == 2 else cells[:, None]
    if cells.dtype == object or (width and cells.ndim == 1 and np.isnan(cells).all()):
        width = width or next((len(cell) for cell in cells.tolist() if isinstance(cell, list)), 0)
        vectors = np.full((len(cells), width), np.nan)
        for row, cell in enumerate(cells.tolist() if cells.dtype == object else ()):
            try:
                vectors[row] = np.array([None] * width if cell is None else cell, dtype=np.float64).reshape(width)
            except (TypeError, ValueError):
                raise DataError(
                    f"column {quote(name)}, row {row}: {quote(cell)} is not a list of {width} numbers; correct it"
                ) from None
    if width is not None and vectors.shape[1] != width:
        raise DataError(f"{quote(name)} has vectors of {vectors.shape[1]:,} numbers, but {width:,} when it was fitted")
    missing = np.isnan(vectors).all(1)  # (n,)
    bad = ~np.isfinite(vectors).all(1) & ~missing
    if bad.any():
        raise DataError(
            f"{quote(name)}, row {int(bad.argmax())}: the vector has NaN or infinity in it; correct it, or fill the "
            "whole row with NaN for an item without features"
        )
    return (np.where(missing[:, None], 0, vectors) if missing.any() else vectors), ~missing


def _to_text(cell: object) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _says_missing(cell: object) -> bool:
    return isinstance(cell, str) and cell.strip().lower() in _NO_NUMBER


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _count(description: str, mask: NDArray[np.bool_]) -> Counts:
    return ((description, int(mask.sum())),) if mask.any() else ()
