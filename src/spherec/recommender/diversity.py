"""Diversity within a list: maximal marginal relevance (Carbonell and Goldstein, 1998) on the vectors of items."""

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.geometry import DenseVectors


def diversify(
    vectors: DenseVectors, items: NDArray[np.int64], scores: NDArray[np.float32], k: int, diversity: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Choose k of the items (n,) by maximal marginal relevance (Carbonell and Goldstein 1998), and return them (1, k).

    One after the other, the item is taken whose (1 − δ) · score − δ · nearness to the nearest one taken is largest.
    """
    items = items[items >= 0]
    rows = vectors.items(torch.from_numpy(items)).numpy()  # (n, D)
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
