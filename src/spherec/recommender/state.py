"""One version of a trained model, and its lists in index space, on which all answers stand."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.artifact import Artifact
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, quote
from spherec.geometry import Constraint, DenseVectors, check_mainstream, squared_distance
from spherec.ranking import ExactRanker, MergedRanker, Ranker, Ranking
from spherec.ranking.ranker import (
    Asked,
    Indices,
    LeftOut,
    check_filter,
    check_indices,
    check_k,
    refuse_idle_dial,
    refuse_nan,
)
from spherec.recommender.fold_in import FoldIn

if TYPE_CHECKING:
    from spherec.ranking.usearch import UsearchRanker  # an extra

_LARGEST = 1_000_000  # number in a vector: squares stay finite


class Query(NamedTuple):
    """One list that is wanted: around whom or what, and which items may be on it. Ids are dense indices here.

    One of `user`, `basket`, `vector` and `item` says where the list is.
    """

    user: int | None = None
    "A user whom the model knows."
    basket: Indices | None = None
    "(n,) items of a user whom the model does not know, who is placed by them; at least one."
    vector: NDArray[np.floating[Any]] | None = None
    "(D,) any place."
    item: int | None = None
    "An item whose neighbours are wanted. It is not listed itself, and reach does not count."
    k: int = 10
    "Length of the list. It is shorter only if fewer items are left."
    exclude_seen: bool = True
    "Leave out the items of the user, or of the basket."
    only: Indices | None = None
    "(o,) items that may be listed; None for all. Queries with the same are ranked together."
    exclude: Indices | None = None
    "(e,) items that must not be listed."
    mainstream: float | None = None
    "λ, the share of reach that counts; None for that of the model."


@dataclass(frozen=True)
class ModelState:
    """One version of a trained model, with all that is derived from it. It never changes; a new version replaces it."""

    artifact: Artifact
    "Vectors, data, config and history: the content of a model file."
    exact: ExactRanker
    "Ranks all items."
    fold_in: FoldIn
    "Places new users."
    index: "UsearchRanker | MergedRanker | None" = None
    "Ranks through a graph, or through one for each shard, if they were built or loaded."

    @classmethod
    def of(cls, artifact: Artifact, index: "UsearchRanker | MergedRanker | None" = None) -> "ModelState":
        """Derive the rest."""
        return cls(artifact, ExactRanker(artifact.vectors), FoldIn(artifact), index)

    @property
    def vectors(self) -> DenseVectors:
        """The vectors of all users and items."""
        return self.artifact.vectors

    @property
    def data(self) -> Interactions:
        """The users and items with ids and names, and the items of each user."""
        return self.artifact.data

    @property
    def ranker(self) -> Ranker:
        """The index if there is one, else the exact ranker."""
        return self.exact if self.index is None else self.index

    def rank(self, queries: Sequence[Query]) -> Ranking:
        """Return a list for each query; see `TrainedModel.rank`."""
        lengths = np.array([self._check(query) for query in queries], dtype=np.int64)  # (B,)
        ranking = Ranking.empty(len(queries), max(int(lengths.max(initial=0)), 1))
        places = self._place(queries)  # (B, D)
        dial = np.array([self._dial_of(query) for query in queries], dtype=np.float32)  # (B,)
        allowed, closed = (self._check_filters(queries, name) for name in ("only", "exclude"))
        for rows in self._group(queries, lengths, allowed):
            group, k = [queries[row] for row in rows], max(int(lengths[rows].max()), 1)
            left_out, shared = self._leave_out(group, closed)
            asked = Asked(torch.from_numpy(places[rows]), k, left_out, dial[rows], allowed[id(group[0].only)], shared)
            found = self.ranker.search(asked)
            ranking.put(np.array(rows), found.items, found.scores)
        beyond = np.arange(ranking.items.shape[1]) >= lengths[:, None]  # (B, K)
        ranking.items[beyond], ranking.scores[beyond] = -1, -np.inf
        return Ranking(ranking.items, to_nearness(ranking.scores, places, self.vectors.constraint))

    def score(self, users: Indices, items: Indices, mainstream: float | None = None) -> NDArray[np.float32]:
        """Return how near pairs of users and items (n,) are; see `TrainedModel.score`."""
        self._check_dial(mainstream)
        try:
            pairs = np.broadcast_arrays(users, items)  # (n,), (n,)
        except ValueError:
            raise ArgumentError(
                f"users and items must have the same length, or one must be a single id, got {len(users)} and "
                f"{len(items)}"
            ) from None
        who, what = (torch.from_numpy(np.array(index, dtype=np.int64)) for index in pairs)
        scores = (1 - squared_distance(self.vectors.users(who), self.vectors.items(what)) / 2).numpy()
        if self.vectors.reach is not None:
            share = np.float32(self.vectors.mainstream if mainstream is None else mainstream)
            scores += share * self.vectors.reach.numpy()[what]
        refuse_nan(np.abs(scores))
        return scores

    def _check(self, query: Query) -> int:
        """Return the length of the list; raise an `ArgumentError` for a query that cannot be answered."""
        self._check_dial(query.mainstream)
        if not isinstance(query.exclude_seen, bool | np.bool_):
            raise ArgumentError(f"exclude_seen must be True or False, got {quote(query.exclude_seen)}")
        return min(check_k(query.k), self.data.n_items)

    def _check_dial(self, mainstream: float | None) -> None:
        if mainstream is not None:
            refuse_idle_dial(mainstream, self.vectors)
            check_mainstream(mainstream)

    def _check_filters(self, queries: Sequence[Query], name: str) -> dict[int, NDArray[np.int64] | None]:
        """Return the items of all filters of a name, ascending and none twice, each object once, by its `id`."""
        filters = {id(items): items for query in queries for items in (getattr(query, name),)}
        return {at: check_filter(items, self.data.n_items, name) for at, items in filters.items()}

    def _dial_of(self, query: Query) -> float:
        if query.item is not None:
            return 0.0
        return self.vectors.mainstream if query.mainstream is None else query.mainstream

    def _place(self, queries: Sequence[Query]) -> NDArray[np.float32]:
        """Return the places (B, D) that lists are around."""
        places = np.empty((len(queries), self.vectors.dim), dtype=np.float32)
        for name, count, gather in (
            ("user", self.vectors.n_users, self.vectors.users),
            ("item", self.vectors.n_items, self.vectors.items),
        ):
            rows = [row for row, query in enumerate(queries) if getattr(query, name) is not None]
            index = check_indices(np.array([getattr(queries[row], name) for row in rows]), count, name)
            places[rows] = gather(torch.from_numpy(index)).numpy()
        for row, query in enumerate(queries):
            if query.basket is not None:
                own = check_filter(query.basket, self.vectors.n_items, "basket")
                if own is None or not len(own):
                    raise ArgumentError("a new user needs at least one item that the model knows, got none")
                places[row] = self.fold_in.place(own.astype(np.int32)).numpy()
            elif query.vector is not None:
                places[row] = self._check_vector(query.vector)
        return places

    def _check_vector(self, vector: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        if np.shape(vector) != (self.vectors.dim,) or not np.abs(vector).max() <= _LARGEST:
            raise ArgumentError(
                f"a vector must have {self.vectors.dim} numbers from {-_LARGEST:,} to {_LARGEST:,}, got shape "
                f"{np.shape(vector)}, numbers up to {np.abs(vector).max(initial=0):g}"
            )
        return vector

    def _group(
        self, queries: Sequence[Query], lengths: NDArray[np.int64], allowed: dict[int, NDArray[np.int64] | None]
    ) -> Iterable[list[int]]:
        """Return the rows of queries that are ranked by one call: those with the same `only`.

        With an index those of the same length, too, because it looks further for longer lists.
        """
        names = {at: None if items is None else items.tobytes() for at, items in allowed.items()}
        groups: dict[tuple[bytes | None, int], list[int]] = {}
        for row, (query, k) in enumerate(zip(queries, lengths.tolist(), strict=True)):
            groups.setdefault((names[id(query.only)], 0 if self.index is None else k), []).append(row)
        return groups.values()

    def _leave_out(
        self, group: Sequence[Query], closed: dict[int, NDArray[np.int64] | None]
    ) -> tuple[LeftOut, NDArray[np.int64] | None]:
        """Return the items that each query does not get and, if they exclude the same items, these for all."""
        shared = closed[id(group[0].exclude)] if len({id(query.exclude) for query in group}) == 1 else None
        lists = []
        for query in group:
            own, exclude = self._own_items(query), closed[id(query.exclude)]
            lists.append(own if shared is not None or exclude is None else np.union1d(own, exclude))
        return LeftOut.of_lists(lists), shared

    def _own_items(self, query: Query) -> Indices:
        """Return the items that are not listed because of whom or what the list is around."""
        if query.item is not None:
            return np.array([query.item])
        if query.user is not None and query.exclude_seen:
            return self.data.items_of(query.user)
        return np.unique(query.basket) if query.basket is not None and query.exclude_seen else _NOTHING

    def __reduce__(self) -> tuple[Any, ...]:
        return ModelState.of, (self.artifact, self.index)


_NOTHING = np.zeros(0, dtype=np.int64)


def to_nearness(
    scores: NDArray[np.float32], queries: NDArray[np.float32], constraint: Constraint
) -> NDArray[np.float32]:
    """Turn scores (B, K) of queries (B, D) into 1 − d²/2: on the sphere they are that."""
    if constraint == "sphere":
        return scores
    lengths = np.square(queries, dtype=np.float64).sum(1)  # (B,) u·v − |v|²/2 is 1 − d²/2, less 1 − |u|²/2
    nearness: NDArray[np.float32] = (scores + (1 - lengths / 2)[:, None]).astype(np.float32)
    return nearness
