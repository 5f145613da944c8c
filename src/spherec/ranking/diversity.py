"""Diversity within a list: maximal marginal relevance (Carbonell and Goldstein, 1998) on the vectors of items."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.geometry import Vectors
from spherec.ranking.ranker import Ranker, Ranking

POOL = 10
"""Times the length of a list: the nearest items, of which a diverse list is chosen."""


def diversify(
    vectors: Vectors, items: NDArray[np.int64], scores: NDArray[np.float32], k: int, diversity: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Choose k of the items (n,) by maximal marginal relevance (Carbonell and Goldstein 1998), and return them (1, k).

    One after the other, the item is taken whose (1 − δ) · score − δ · nearness to the nearest one taken is largest.
    """
    items = items[items >= 0]
    rows = vectors.items(torch.as_tensor(items, device=vectors.device)).cpu().numpy()  # (n, D)
    half = np.square(rows).sum(1) / 2  # (n,)
    near = 1 - half[:, None] - half + rows @ rows.T  # (n, n) 1 − d²/2
    taken: list[int] = []
    nearest, worth = np.zeros(len(items), dtype=np.float32), (1 - diversity) * scores[: len(items)]
    while len(taken) < min(k, len(items)):
        gain = worth - diversity * nearest
        gain[taken] = -np.inf
        best = int(gain.argmax())
        nearest = np.maximum(nearest, near[best]) if taken else near[best]
        taken.append(best)
    return items[taken][None], scores[taken][None]


class DiverseLister:
    """Lists of a ranker whose items are far from each other, for `evaluate`."""

    def __init__(self, ranker: Ranker, diversity: float) -> None:
        self._ranker, self._diversity = ranker, diversity

    def top(self, users: NDArray[np.int64], k: int, **options: Any) -> Ranking:
        """Return the lists (B, K) of users (B,); the options are those of the ranker."""
        vectors, found = self._ranker.vectors, Ranking.empty(len(users), k)
        pool = self._ranker.top(users, min(POOL * k, vectors.n_items), **options)
        for row, (items, scores) in enumerate(zip(pool.items, pool.scores, strict=True)):
            found.put(np.array([row]), *diversify(vectors, items, scores, k, self._diversity))
        return found
