"""The ranker protocol: the nearest items of users, or of any vectors, without the items that they must not get."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from spherec.data.events import pair_keys
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError, quote
from spherec.geometry import Constraint, Vectors, check_mainstream

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
        check_k(k)
        try:
            items = np.full((n_queries, int(k)), -1, dtype=np.int64)
            return cls(items, np.full(items.shape, -np.inf, dtype=np.float32))
        except (MemoryError, ValueError):
            raise ArgumentError(
                f"k must be a length for which there is memory, got {quote(k)} for {n_queries:,} lists"
            ) from None

    def put(self, block: slice, items: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        """Write the lists (b, ≤ K) of a block of queries."""
        self.items[block, : items.shape[1]] = items
        self.scores[block, : scores.shape[1]] = scores


@runtime_checkable
class Ranker(Protocol):
    """Ranks items by score: on the sphere u·v, in the ball u·v − |v|²/2, and λ times the item's reach if it has one."""

    @property
    def vectors(self) -> Vectors:
        """The vectors that it ranks."""
        ...

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
        ...

    def top_of(
        self,
        queries: NDArray[np.float32],
        k: int,
        *,
        without: "LeftOut | Sequence[Indices] | None" = None,
        only: Indices | None = None,
        exclude: Indices | None = None,
        mainstream: Mainstream | None = None,
    ) -> Ranking:
        """Return the k best items for vectors (B, D); `without` has a list of item indices for each of them."""
        ...


@dataclass(frozen=True)
class LeftOut:
    """The items that each of B queries must not get."""

    counts: NDArray[np.int64]
    "(B,) number of items left out for each query."
    items: NDArray[np.int64]
    "(r,) their indices, query after query; no item twice for one query."

    @classmethod
    def nothing(cls, n_queries: int) -> Self:
        """Leave nothing out."""
        return cls(np.zeros(n_queries, dtype=np.int64), np.zeros(0, dtype=np.int64))

    @classmethod
    def of_users(cls, users: NDArray[np.int64], without: Interactions | None) -> Self:
        """Leave out the items that users (B,) have in `without`."""
        if without is None:
            return cls.nothing(len(users))
        counts = without.indptr[users + 1] - without.indptr[users]  # (B,)
        return cls(counts, without.indices[ranges(without.indptr[users], counts)].astype(np.int64))

    @classmethod
    def of_lists(cls, lists: "LeftOut | Sequence[Indices] | None", n_queries: int, n_items: int) -> "LeftOut":
        """Leave out the items in B lists of indices."""
        if lists is None:
            return cls.nothing(n_queries)
        if isinstance(lists, LeftOut):
            return lists
        if len(lists) != n_queries:
            raise ArgumentError(f"without must have one list for each of {n_queries:,} queries, got {len(lists):,}")
        distinct = [np.unique(check_items(items, n_items, "without")) for items in lists]
        items = np.concatenate([np.zeros(0, dtype=np.int64), *distinct])
        return cls(np.array([len(items) for items in distinct], dtype=np.int64), items)

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
        everybody = check_items(exclude, n_items, "exclude")
        new = pair_keys(np.arange(len(self.counts))[:, None], everybody, n_items).ravel()
        keys = np.union1d(own, new)  # ascending: query after query
        return LeftOut(np.bincount(keys // n_items, minlength=len(self.counts)), keys % n_items)


def check_dial(mainstream: Mainstream | None, n_queries: int, vectors: Vectors) -> NDArray[np.float32]:
    """Return λ of each query (B,), by default that of the vectors; raise an `ArgumentError` unless it is in range."""
    if mainstream is None:
        return np.full(n_queries, vectors.mainstream, dtype=np.float32)
    try:
        dial = np.asarray(mainstream)
    except ValueError:  # rows of different lengths
        dial = None
    if dial is None or dial.ndim == 0 or dial.dtype.kind not in "fiu":
        return np.full(n_queries, check_mainstream(mainstream), dtype=np.float32)  # type: ignore[arg-type]
    if dial.shape != (n_queries,):
        raise ArgumentError(
            f"mainstream must be one number, or one for each of {n_queries:,} queries, got {dial.shape}"
        )
    for extreme in (dial.min(initial=0), dial.max(initial=0)):
        check_mainstream(float(extreme))
    return dial.astype(np.float32)


def refuse_idle_dial(mainstream: Mainstream | None, vectors: Vectors) -> None:
    """Raise an `ArgumentError` if λ is given, but items have no reach that it could count."""
    if mainstream is not None and vectors.reach is None:
        raise ArgumentError(
            "mainstream has no effect, because this model has no reach; leave it out, or train with reach, as the "
            "preset accurate does"
        )


def check_k(k: int) -> None:
    """Raise an `ArgumentError` unless the length of lists is a whole number of at least 1."""
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise ArgumentError(f"k must be a whole number >= 1, got {quote(k)}")


def check_users(users: NDArray[np.int64], n_users: int) -> NDArray[np.int64]:
    """Return user indices (B,) as an array; raise an `ArgumentError` unless all are in range."""
    array = np.asarray(users)
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
        raise ArgumentError(f"users must be a row of whole numbers, got {quote(users)}")
    if len(array) and not 0 <= int(array.min()) <= int(array.max()) < n_users:
        wrong = array[(array < 0) | (array >= n_users)][0]
        raise ArgumentError(f"users must be indices in 0 … {n_users - 1}, got {wrong}")
    return array.astype(np.int64, copy=False)


def check_items(items: Indices, n_items: int, name: str) -> NDArray[np.int64]:
    """Return item indices (n,) as an array; raise an `ArgumentError` unless all are in range."""
    array = np.asarray(items)
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
        raise ArgumentError(f"{name} must be a row of item indices, got {quote(items)}")
    if len(array) and not 0 <= int(array.min()) <= int(array.max()) < n_items:
        wrong = array[(array < 0) | (array >= n_items)][0]
        raise ArgumentError(f"{name} must hold item indices in 0 … {n_items - 1}, got {wrong}")
    return array.astype(np.int64, copy=False)


def split_blocks(n_queries: int, size: int) -> Iterator[slice]:
    """Yield slices of `size` queries; the last may be shorter."""
    for first in range(0, n_queries, size):
        yield slice(first, min(first + size, n_queries))


def check_queries(queries: NDArray[np.float32], dim: int) -> None:
    """Raise an `ArgumentError` unless the queries are finite vectors of this space."""
    array = np.asarray(queries)
    if array is not queries or array.ndim != 2 or array.shape[1] != dim or array.dtype != np.float32:
        kind = "" if array is queries else f"{type(queries).__name__} of "
        raise ArgumentError(f"queries must be float32 of shape (B, {dim}), got {kind}{array.dtype} {array.shape}")
    if not np.isfinite(queries).all():
        row = int((~np.isfinite(queries)).any(1).argmax())
        raise ArgumentError(f"queries must be finite, got NaN or infinity in row {row}")


def refuse_nan(scores: NDArray[np.float32]) -> None:
    """Raise a `DataError` for scores of lists that are NaN or infinite, because a vector is."""
    if np.isnan(scores).any() or (scores == np.inf).any():
        raise DataError(
            "a user or item vector holds NaN or infinity, so that nothing can be ranked; model.save names its row"
        )


def to_nearness(
    scores: NDArray[np.float32], queries: NDArray[np.float32], constraint: Constraint
) -> NDArray[np.float32]:
    """Turn scores (B, K) of queries (B, D) into 1 − d²/2: on the sphere they are that."""
    if constraint == "sphere":
        return scores
    lengths = np.square(queries, dtype=np.float64).sum(1)  # (B,) u·v − |v|²/2 is 1 − d²/2, less 1 − |u|²/2
    nearness: NDArray[np.float32] = (scores + (1 - lengths / 2)[:, None]).astype(np.float32)
    return nearness


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return start, start + 1, … of each range (n,), one range after the other."""
    return np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)
