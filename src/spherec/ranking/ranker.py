"""What every ranker answers: the nearest items of users, or of any vectors, without those that they must not get."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError
from spherec.geometry import Vectors

Rows = slice | NDArray[np.integer[Any]]
"""Some of the queries: a block of them, or their positions."""


@dataclass(frozen=True)
class Ranking:
    """The best items of B users, best first."""

    items: NDArray[np.int64]
    "(B, K) item indices; -1 where a user has fewer than K items left."
    scores: NDArray[np.float32]
    "(B, K) the larger the nearer; -inf where there is no item."


class Ranker(Protocol):
    """Lists the nearest items. On the sphere the score is u·v, in the ball u·v − |v|²/2: the same in every ranker."""

    @property
    def vectors(self) -> Vectors:
        """What it ranks."""
        ...

    def top(self, users: NDArray[np.int64], k: int, *, without: Interactions | None = None) -> Ranking:
        """The k best items for user indices (B,), those that the users have in `without` left out."""
        ...

    def top_of(
        self, queries: NDArray[np.float32], k: int, *, without: Sequence[NDArray[np.integer[Any]]] | None = None
    ) -> Ranking:
        """The k best items for vectors (B, D), those in a query's list of item indices left out: B lists, or none."""
        ...


@dataclass(frozen=True)
class LeftOut:
    """The items that each of B queries must not get."""

    counts: NDArray[np.int64]
    "(B,) how many for each query."
    items: NDArray[np.int64]
    "(r,) their indices, one query's after the other's; no item twice for one query."

    @classmethod
    def nothing(cls, n_queries: int) -> Self:
        """For queries that may get everything."""
        return cls(np.zeros(n_queries, dtype=np.int64), np.zeros(0, dtype=np.int64))

    @classmethod
    def of_users(cls, users: NDArray[np.int64], without: Interactions | None) -> Self:
        """What users (B,) have in `without`."""
        if without is None:
            return cls.nothing(len(users))
        counts = without.items_per_user[users]  # (B,)
        return cls(counts, without.indices[ranges(without.indptr[users], counts)].astype(np.int64))

    @classmethod
    def of_lists(cls, lists: Sequence[NDArray[np.integer[Any]]] | None, n_queries: int, n_items: int) -> Self:
        """What B lists name."""
        if lists is None:
            return cls.nothing(n_queries)
        if len(lists) != n_queries:
            raise ArgumentError(f"without must have one list for each of {n_queries:,} queries, got {len(lists):,}")
        distinct = [np.unique(np.asarray(one, dtype=np.int64)) for one in lists]
        items = np.concatenate([np.zeros(0, dtype=np.int64), *distinct])
        if len(items) and not 0 <= items.min() <= items.max() < n_items:
            wrong = items[(items < 0) | (items >= n_items)][0]
            raise ArgumentError(f"without must hold item indices in 0 … {n_items - 1}, got {wrong}")
        return cls(np.array([len(one) for one in distinct], dtype=np.int64), items)

    @property
    def queries(self) -> NDArray[np.int64]:
        """(r,) the query of each of `items`."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def of(self, rows: Rows) -> "LeftOut":
        """The same for some of the queries."""
        starts = np.cumsum(self.counts) - self.counts  # (B,)
        return LeftOut(self.counts[rows], self.items[ranges(starts[rows], self.counts[rows])])


def in_blocks(n_queries: int, k: int, size: int, rank: Callable[[slice], Ranking]) -> Ranking:
    """The ranking (B, K) of all queries from those (b, ≤ K) of `size` queries at a time."""
    if k < 1:
        raise ArgumentError(f"k must be a whole number >= 1, got {k}")
    items = np.full((n_queries, k), -1, dtype=np.int64)
    scores = np.full((n_queries, k), -np.inf, dtype=np.float32)
    for first in range(0, n_queries, size):
        part = slice(first, first + size)
        found = rank(part)
        items[part, : found.items.shape[1]] = found.items
        scores[part, : found.scores.shape[1]] = found.scores
    return Ranking(items, scores)


def check_queries(queries: NDArray[np.float32], dim: int) -> None:
    """Raises an `ArgumentError` unless they are vectors of this space."""
    if queries.ndim != 2 or queries.shape[1] != dim or queries.dtype != np.float32:
        raise ArgumentError(f"queries must be float32 of shape (B, {dim}), got {queries.dtype} {queries.shape}")


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """start, start + 1, … of each range (n,), one after the other."""
    return np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)
