"""Words with counts as a few numbers for each item: tf-idf² and a truncated SVD.

    unit(unit(w) V) with w = ln(1 + count) · idf²

idf = ln((1 + n) / (1 + m)) + 1, where m of n items have the word. V (words, dims) has the right singular vectors of the
items' rows unit(w) with the largest singular values; with no more words than `dims` it is left out.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spherec import rng

LeftOutCounts = tuple[tuple[str, int], ...]
"""Content that gave no numbers: a description such as "genre: missing", and how often."""

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
class WordWeights:
    """Weights of V words, and the directions into which rows of them are reduced."""

    rarity: NDArray[np.float32]
    "(V,) weight of each word, idf²."
    directions: NDArray[np.float32] | None
    "(V, d) right singular vectors; None where the words themselves are the numbers."

    @classmethod
    def fit(cls, counts: "sp.csr_array[np.float32]", kept: NDArray[np.int64], options: FitOptions) -> Self:
        """Fit the weights of the words `kept` (V,), by the counts (n, …) of all words."""
        n_items = int((np.diff(counts.indptr) > 0).sum())
        used = sp.csr_array(counts[:, kept])  # (n, V)
        items_with = np.bincount(used.indices, minlength=len(kept))  # (V,)
        rarity = np.square(np.log((1 + n_items) / (1 + items_with)) + 1).astype(np.float32)
        if len(kept) <= options.dims:
            return cls(rarity, None)
        return cls(rarity, top_directions(_weigh(used, rarity), options.dims, options.seed))

    @property
    def size(self) -> int:
        """Number of numbers for each item."""
        return len(self.rarity) if self.directions is None else self.directions.shape[1]

    def encode(self, counts: "sp.csr_array[np.float32]") -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return rows of counts (n, V) as numbers (n, size), and which rows (n,) have any word."""
        weights = _weigh(counts, self.rarity)
        numbers = weights.toarray() if self.directions is None else weights @ self.directions
        known: NDArray[np.bool_] = np.diff(weights.indptr) > 0
        return unit_rows(numbers.astype(np.float32, copy=False)), known

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the weights and the directions by name."""
        return {"idf": self.rarity} | ({} if self.directions is None else {"directions": self.directions})

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return what `to_arrays` described; a `ValueError` if it is damaged."""
        rarity, directions = arrays["idf"], arrays.get("directions")
        for name, weights in (("idf", rarity), ("directions", directions)):
            if weights is not None and (weights.dtype != np.float32 or not np.isfinite(weights).all()):
                raise ValueError(f"{name} must be finite float32")
        fits = directions is None or (directions.ndim == 2 and len(directions) == len(rarity))
        if rarity.ndim != 1 or not len(rarity) or not fits:
            raise ValueError("the weights of words do not fit")
        return cls(rarity, directions)


def choose_words(
    name: str, counts: "sp.csr_array[np.float32]", options: FitOptions
) -> tuple[NDArray[np.int64], LeftOutCounts]:
    """Return the words (V,) of enough items, ascending, and how many others the column `name` has."""
    items_with = np.bincount(counts.indices, minlength=counts.shape[1])  # (V0,)
    kept = np.flatnonzero(items_with >= options.min_items)
    rare = int((items_with > 0).sum()) - len(kept)
    left_out = [(f"{name}: words of fewer than {options.min_items} items", rare)] if rare else []
    if len(kept) > _MOST_WORDS:
        left_out.append((f"{name}: words beyond the {_MOST_WORDS:,} most frequent", len(kept) - _MOST_WORDS))
        kept = np.sort(kept[np.argsort(-items_with[kept], kind="stable")[:_MOST_WORDS]])
    return kept, tuple(left_out)


def count_words(rows: Iterable[Sequence[str]], index: Mapping[str, int]) -> "tuple[sp.csr_array[np.float32], int]":
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


def _weigh(counts: "sp.csr_array[np.float32]", rarity: NDArray[np.float32]) -> "sp.csr_array[np.float32]":
    """Return counts (n, V) weighed by tf-idf², rows of length 1."""
    weights = (np.log1p(counts.data) * rarity[counts.indices]).astype(np.float32)
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    lengths = np.sqrt(np.bincount(rows, np.square(weights, dtype=np.float64), minlength=counts.shape[0]))  # (n,)
    weights /= np.where(lengths > 0, lengths, 1)[rows].astype(np.float32)
    return sp.csr_array((weights, counts.indices, counts.indptr), shape=counts.shape)
