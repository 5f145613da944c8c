"""Ranking by several rankers, each of every m-th item: all are asked, and their lists are merged by score.

So an index of each shard of a model can be built by itself, on a machine of its own. Scores do not depend on the ranker
that found an item, so merged lists of exact rankers are those of one.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.data.interactions import Interactions
from spherec.geometry import DenseVectors
from spherec.ranking.ranker import (
    Indices,
    LeftOut,
    Mainstream,
    Ranker,
    Ranking,
    check_dial,
    check_items,
    check_queries,
    check_users,
)


class MergedRanker:
    """A `Ranker` of all items that asks m others: number j ranks the items i with i mod m = j.

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
        """Return the k best items for user indices (B,), without those that the users have in `without`."""
        users = check_users(users, self.vectors.n_users)
        queries = self.vectors.users(torch.as_tensor(users, device=self.vectors.device)).cpu().numpy()  # (B, D)
        return self._ask(queries, k, LeftOut.of_users(users, without), only, exclude, mainstream)

    def top_of(
        self,
        queries: NDArray[np.float32],
        k: int,
        *,
        without: LeftOut | Sequence[Indices] | None = None,
        only: Indices | None = None,
        exclude: Indices | None = None,
        mainstream: Mainstream | None = None,
    ) -> Ranking:
        """Return the k best items for vectors (B, D), without those in each query's list of item indices."""
        check_queries(queries, self.vectors.dim)
        left_out = LeftOut.of_lists(without, len(queries), self.vectors.n_items)
        return self._ask(queries, k, left_out, only, exclude, mainstream)

    def _ask(
        self,
        queries: NDArray[np.float32],
        k: int,
        left_out: LeftOut,
        only: Indices | None,
        exclude: Indices | None,
        mainstream: Mainstream | None,
    ) -> Ranking:
        """Merge the lists of all rankers; of equal scores the lower index comes first."""
        ranking, m = Ranking.empty(len(queries), k), len(self.rankers)
        dial = check_dial(mainstream, len(queries), self.vectors)  # (B,)
        items, scores = [ranking.items], [ranking.scores]
        for j, ranker in enumerate(self.rankers):
            if ranker.vectors.n_items:
                allowed, closed = self._take(only, "only", j), self._take(exclude, "exclude", j)
                some = left_out.take(j, m)
                found = ranker.top_of(queries, k, without=some, only=allowed, exclude=closed, mainstream=dial)
                items.append(np.where(found.items < 0, -1, found.items * m + j))
                scores.append(found.scores)
        every, score = np.concatenate(items, 1), np.concatenate(scores, 1)  # (B, (m + 1) · K)
        order = np.lexsort((every, -score), axis=1)[:, : int(k)]
        return Ranking(np.take_along_axis(every, order, 1), np.take_along_axis(score, order, 1))

    def _take(self, items: Indices | None, name: str, j: int) -> Indices | None:
        """Return those of some items that ranker j has, under its own indices."""
        if items is None:
            return None
        known, m = check_items(items, self.vectors.n_items, name), len(self.rankers)
        taken: Indices = known[known % m == j] // m
        return taken


def take_items(vectors: DenseVectors, j: int, m: int) -> DenseVectors:
    """Return vectors of all users, and of the items i with i mod m = j."""
    reach = None if vectors.item_reach is None else vectors.item_reach[j::m].contiguous()
    return replace(vectors, item_table=vectors.item_table[j::m], item_reach=reach)
