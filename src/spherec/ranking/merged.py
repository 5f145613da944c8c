"""Ranking by several rankers, each of every m-th item: all are asked, and their lists are merged by score.

So an index of each shard of a model can be built by itself, on a machine of its own. Scores do not depend on the ranker
that found an item, so merged lists of exact rankers are those of one.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from spherec.geometry import DenseVectors
from spherec.ranking.ranker import Asked, Ranker, Ranking


class MergedRanker(Ranker):
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
