"""The base class of rankers: how they are asked for the nearest items, and what is checked; and several as one."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.events import pair_keys
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError, check_count, quote
from spherec.geometry import DenseVectors, Vectors, check_mainstream

_AT_ONCE = 4096  # queries whose vectors and left-out items are held at once
_LARGEST = 1_000_000  # number in a vector: squares stay finite

Indices = NDArray[np.integer[Any]]
"""Item indices (n,)."""

Mainstream = float | NDArray[np.floating[Any]]
"""λ, the share of reach that counts: one number for all queries, or one for each (B,)."""


@dataclass(frozen=True)
class Ranking:
    """The best items of B users, best first."""

    items: NDArray[np.int64]
    "(B, K) item indices; -1 where a user has fewer than K items left."
    scores: NDArray[np.float32]
    "(B, K) larger is nearer; -inf where there is no item."

    @classmethod
    def empty(cls, n_queries: int, k: int) -> Self:
        """Return lists without any item, to be filled block by block."""
        items = np.full((n_queries, k), -1, dtype=np.int64)
        return cls(items, np.full(items.shape, -np.inf, dtype=np.float32))

    def put(self, block: slice | NDArray[np.int64], items: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        """Write the lists (b, ≤ K) of a block of queries."""
        self.items[block, : items.shape[1]] = items
        self.scores[block, : scores.shape[1]] = scores


@dataclass(frozen=True)
class LeftOut:
    """The items that each of B queries must not get."""

    counts: NDArray[np.int64]
    "(B,) number of items left out for each query."
    items: NDArray[np.int64]
    "(r,) their indices, query after query; no item twice for one query."

    @classmethod
    def of_users(cls, users: NDArray[np.int64], without: Interactions | None) -> Self:
        """Leave out the items that users (B,) have in `without`."""
        if without is None:
            return cls(np.zeros(len(users), dtype=np.int64), np.zeros(0, dtype=np.int64))
        counts = without.indptr[users + 1] - without.indptr[users]  # (B,)
        return cls(counts, without.indices[ranges(without.indptr[users], counts)].astype(np.int64))

    @classmethod
    def of_lists(cls, lists: Sequence[Indices]) -> Self:
        """Leave out the items in B lists, of which none has an item twice."""
        counts = np.array([len(items) for items in lists], dtype=np.int64)
        return cls(counts, np.concatenate([np.zeros(0, dtype=np.int64), *lists]))

    @property
    def queries(self) -> NDArray[np.int64]:
        """(r,) the query of each of `items`."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def select(self, rows: slice | NDArray[np.integer[Any]]) -> "LeftOut":
        """Return the same for some of the queries."""
        starts = np.cumsum(self.counts) - self.counts  # (B,)
        return LeftOut(self.counts[rows], self.items[ranges(starts[rows], self.counts[rows])])

    def take(self, j: int, m: int) -> "LeftOut":
        """Return what is left out of the items i with i mod m = j, under the indices i // m that they have then."""
        taken = self.items % m == j
        return LeftOut(np.bincount(self.queries[taken], minlength=len(self.counts)), self.items[taken] // m)

    def extend(self, exclude: Indices | None, n_items: int) -> "LeftOut":
        """Return the same with the items `exclude` left out for every query, too."""
        if exclude is None:
            return self
        own = pair_keys(self.queries, self.items, n_items)
        new = pair_keys(np.arange(len(self.counts))[:, None], exclude, n_items).ravel()
        keys = np.union1d(own, new)  # ascending: query after query
        return LeftOut(np.bincount(keys // n_items, minlength=len(self.counts)), keys % n_items)


@dataclass(frozen=True)
class Asked:
    """Checked questions for a ranker: lists for B queries."""

    queries: Tensor
    "(B, D) on the device of the ranker."
    k: int
    "Length of the lists."
    left_out: LeftOut
    "The items that each query must not get."
    dial: NDArray[np.float32]
    "(B,) λ."
    only: Indices | None = None
    "The only items that any query gets, ascending, none twice; None for all."
    exclude: Indices | None = None
    "Items that no query gets, likewise."

    def select(self, rows: slice | NDArray[np.int64]) -> "Asked":
        """Return the same for some of the queries."""
        index = rows if isinstance(rows, slice) else torch.from_numpy(rows)
        return replace(self, queries=self.queries[index], left_out=self.left_out.select(rows), dial=self.dial[rows])


class Ranker(ABC):
    """Ranks items by score: on the sphere u·v, in the ball u·v − |v|²/2, and λ times the item's reach if it has one.

    Of equal scores the lower index comes first. `top` and `top_of` check what they are asked; `search` trusts it.
    """

    vectors: Vectors

    def top(
        self,
        users: NDArray[np.int64],
        k: int,
        *,
        without: Interactions | None = None,
        only: Indices | None = None,
        exclude: Indices | None = None,
        mainstream: Mainstream | None = None,
    ) -> Ranking:
        """Return the k best items for users.

        Args:
            users: User indices (B,).
            k: Length of the lists.
            without: Interactions whose items are left out, each user's own for that user.
            only: The only items that may be listed, for all users.
            exclude: Items that must not be listed, for all users.
            mainstream: λ; by default that of the vectors.
        """
        users = check_indices(users, self.vectors.n_users, "users")
        index = torch.as_tensor(users, device=self.vectors.device)
        blocks = (
            (self.vectors.users(index[block]), LeftOut.of_users(users[block], without))
            for block in split_blocks(len(users), _AT_ONCE)
        )
        return self._search_blocks(blocks, len(users), k, only, exclude, mainstream)

    def top_of(
        self,
        queries: NDArray[np.float32],
        k: int,
        *,
        without: Sequence[Indices] | None = None,
        only: Indices | None = None,
        exclude: Indices | None = None,
        mainstream: Mainstream | None = None,
    ) -> Ranking:
        """Return the k best items for vectors (B, D); `without` has a list of item indices for each of them."""
        check_queries(queries, self.vectors.dim)
        lists = [np.zeros(0, dtype=np.int64)] * len(queries) if without is None else without
        each = zip(queries, lists, strict=True)
        closed = [np.unique(check_indices(items, self.vectors.n_items, "without")) for _, items in each]
        blocks = (
            (torch.as_tensor(queries[block], device=self.vectors.device), LeftOut.of_lists(closed[block]))
            for block in split_blocks(len(queries), _AT_ONCE)
        )
        return self._search_blocks(blocks, len(queries), k, only, exclude, mainstream)

    @abstractmethod
    def search(self, asked: Asked) -> Ranking:
        """Return the k best items for each query. Nothing is checked."""

    def _search_blocks(
        self,
        blocks: Iterable[tuple[Tensor, LeftOut]],
        n_queries: int,
        k: int,
        only: Indices | None,
        exclude: Indices | None,
        mainstream: Mainstream | None,
    ) -> Ranking:
        """Check what is asked, and search for block after block of queries (b, D)."""
        ranking = Ranking.empty(n_queries, check_count("k", k))
        dial = _check_dial(mainstream, n_queries, self.vectors)  # (B,)
        allowed, closed = (
            None if items is None else np.unique(check_indices(items, self.vectors.n_items, name))
            for items, name in ((only, "only"), (exclude, "exclude"))
        )
        first = 0
        for queries, left_out in blocks:
            block = slice(first, first + len(queries))
            found = self.search(Asked(queries, int(k), left_out, dial[block], allowed, closed))
            ranking.put(block, found.items, found.scores)
            first = block.stop
        return ranking


class MergedRanker(Ranker):
    """A `Ranker` of all items that asks m others and merges their lists: number j ranks the items i with i mod m = j.

    So an index of each shard of a model can be built on a machine of its own. Scores do not depend on the ranker that
    found an item, so merged lists of exact rankers are those of one.

    Args:
        rankers: The m rankers, of the vectors that `take_items` returns.
        vectors: Vectors of users and of all items.
    """

    def __init__(self, rankers: Sequence[Ranker], vectors: DenseVectors) -> None:
        self.rankers = tuple(rankers)
        self.vectors = vectors

    def with_vectors(self, vectors: DenseVectors) -> "MergedRanker":
        """Return a ranker with the same graphs for vectors with the same items and other users."""
        return MergedRanker(self.rankers, vectors)  # they are asked for vectors, and need no users

    def extend(self, vectors: DenseVectors) -> None:
        """Return no ranker for vectors with more items: the graphs of several files take none in."""
        del vectors

    def search(self, asked: Asked) -> Ranking:
        """Merge the lists of all rankers."""
        ranking, m = Ranking.empty(len(asked.queries), asked.k), len(self.rankers)
        items, scores = [ranking.items], [ranking.scores]
        for j, ranker in enumerate(self.rankers):
            if ranker.vectors.n_items:
                filters = (asked.only, asked.exclude)
                only, exclude = (None if index is None else index[index % m == j] // m for index in filters)
                own = replace(asked, left_out=asked.left_out.take(j, m), only=only, exclude=exclude)
                found = ranker.search(own)
                items.append(np.where(found.items < 0, -1, found.items * m + j))
                scores.append(found.scores)
        every, score = np.concatenate(items, 1), np.concatenate(scores, 1)  # (B, (m + 1) · K)
        order = np.lexsort((every, -score), axis=1)[:, : asked.k]
        return Ranking(np.take_along_axis(every, order, 1), np.take_along_axis(score, order, 1))


def take_items(vectors: DenseVectors, j: int, m: int) -> DenseVectors:
    """Return vectors of all users, and of the items i with i mod m = j."""
    reach = None if vectors.item_reach is None else vectors.item_reach[j::m].contiguous()
    return replace(vectors, item_table=vectors.item_table[j::m], item_reach=reach)


def _check_dial(mainstream: Mainstream | None, n_queries: int, vectors: Vectors) -> NDArray[np.float32]:
    """Return λ of each query (B,), by default that of the vectors; raise an `ArgumentError` unless it is in range."""
    if mainstream is None:
        mainstream = vectors.mainstream
    if not isinstance(mainstream, np.ndarray):
        return np.full(n_queries, check_mainstream(mainstream), np.float32)
    if mainstream.dtype.kind not in "iuf" or mainstream.shape not in ((), (n_queries,)):
        raise ArgumentError(f"mainstream must be a number, or {n_queries:,} of them, got {quote(mainstream)}")
    for extreme in (mainstream.min(initial=0), mainstream.max(initial=0)):
        check_mainstream(float(extreme))
    return np.broadcast_to(mainstream, n_queries).astype(np.float32)


def refuse_idle_dial(mainstream: object, vectors: Vectors) -> None:
    """Raise an `ArgumentError` if λ is given, but items have no reach that it could count."""
    if mainstream is not None and vectors.reach is None:
        raise ArgumentError(
            "mainstream has no effect, because this model has no reach; leave it out, or train with reach, as the "
            "preset accurate does"
        )


def check_indices(index: Indices, n: int, name: str) -> NDArray[np.int64]:
    """Return indices (m,) as an array; raise an `ArgumentError` unless all are in 0 … n − 1."""
    array = np.asarray(index)
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
        raise ArgumentError(f"{name} must be a row of indices, which are whole numbers, got {quote(index)}")
    if len(array) and not 0 <= int(array.min()) <= int(array.max()) < n:
        wrong = array[(array < 0) | (array >= n)][0]
        raise ArgumentError(f"{name} must be indices in 0 … {n - 1}, got {wrong}")
    return array.astype(np.int64, copy=False)


def check_queries(queries: NDArray[np.float32], dim: int) -> None:
    """Raise an `ArgumentError` unless the queries (B, D) are vectors of this space, of numbers whose squares add up."""
    is_array = isinstance(queries, np.ndarray) and queries.shape[1:] == (dim,) and queries.dtype == np.float32
    if not is_array or not np.abs(queries).max(initial=0) <= _LARGEST:
        raise ArgumentError(
            f"queries must be vectors of {dim} numbers (float32) from -{_LARGEST:,} to {_LARGEST:,}, got "
            f"{quote(queries)}, {getattr(queries, 'dtype', '')}"
        )


def refuse_nan(scores: NDArray[np.float32]) -> None:
    """Raise a `DataError` for scores of lists that are NaN or infinite, because a vector is."""
    if np.isnan(scores).any() or (scores == np.inf).any():
        raise DataError(
            "a user or item vector holds NaN or infinity, so that nothing can be ranked; model.save names its row"
        )


def split_blocks(n_queries: int, size: int) -> Iterator[slice]:
    """Yield slices of `size` queries; the last may be shorter."""
    for first in range(0, n_queries, size):
        yield slice(first, min(first + size, n_queries))


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return start, start + 1, … of each range (n,), one range after the other."""
    return np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)
