"""Metrics of ranked lists: arrays in, one value a user out.

Throughout, `hit` (B, K) says which places of B lists hold an item that was held out, and `held_out` (B,) how many each
user has of those, at least 1.
"""

import numpy as np
from numpy.typing import NDArray

from spherec.data.interactions import Interactions

Hits = NDArray[np.bool_]
Counts = NDArray[np.int64]
PerUser = NDArray[np.float64]


def hits(items: NDArray[np.int64], users: NDArray[np.int64], held_out: Interactions) -> Hits:
    """(B, K) whether each of the items (B, K) listed for users (B,) is among those held out; never for -1."""
    keys = held_out.users * np.int64(held_out.n_items) + held_out.indices  # (E,) ascending
    wanted = users[:, None] * np.int64(held_out.n_items) + items  # (B, K)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.asarray((keys[place] == wanted) & (items >= 0))


def average_precision(hit: Hits, held_out: Counts) -> PerUser:
    """(B,) Σ over hits of the precision down to there, divided by min(held out, K): AP@K, whose mean is MAP@K."""
    ranks = np.arange(1, hit.shape[1] + 1)  # (K,)
    precision = np.cumsum(hit, axis=1) / ranks  # (B, K)
    return np.asarray((precision * hit).sum(1) / np.minimum(held_out, hit.shape[1]))


def ndcg(hit: Hits, held_out: Counts) -> PerUser:
    """(B,) Σ over hits of 1/log2(rank + 1), divided by what min(held out, K) hits on top would give."""
    discount = 1 / np.log2(np.arange(2, hit.shape[1] + 2))  # (K,)
    ideal = np.cumsum(discount)[np.minimum(held_out, hit.shape[1]) - 1]  # (B,)
    return np.asarray((hit * discount).sum(1) / ideal)


def recall(hit: Hits, held_out: Counts) -> PerUser:
    """(B,) share of the held-out items that are in the list."""
    return np.asarray(hit.sum(1) / held_out)


def precision(hit: Hits) -> PerUser:
    """(B,) share of the K places that are hits."""
    return np.asarray(hit.mean(1, dtype=np.float64))


def hit_rate(hit: Hits) -> PerUser:
    """(B,) 1 where there is any hit, else 0."""
    return np.asarray(hit.any(1), dtype=np.float64)


def reciprocal_rank(hit: Hits) -> PerUser:
    """(B,) 1 / rank of the first hit, 0 without any: its mean is MRR@K."""
    return np.asarray(hit.any(1) / (hit.argmax(1) + 1.0))


def median_popularity(items: NDArray[np.int64], popularity: Counts) -> PerUser:
    """(B,) the median popularity (I,) of the items (B, K) in a list, NaN for an empty one: its mean is MMR@K."""
    ascending = np.sort(_popularity_of(items, popularity), axis=1)  # (B, K) NaN last
    listed = (items >= 0).sum(1, keepdims=True)  # (B, 1)
    middle = np.concatenate(((listed - 1) // 2, listed // 2), axis=1).clip(0, items.shape[1] - 1)  # (B, 2)
    return np.asarray(np.take_along_axis(ascending, middle, axis=1).mean(1))


def mean_popularity(items: NDArray[np.int64], popularity: Counts) -> PerUser:
    """(B,) the mean popularity (I,) of the items (B, K) in a list, NaN for an empty one."""
    listed = (items >= 0).sum(1)  # (B,)
    total = np.nansum(_popularity_of(items, popularity), axis=1)
    return np.where(listed > 0, total / np.maximum(listed, 1), np.nan)


def coverage(items: NDArray[np.int64], n_items: int) -> float:
    """The share of all items that are in any of the lists (B, K)."""
    return len(np.unique(items[items >= 0])) / n_items


def gini(items: NDArray[np.int64], n_items: int) -> float:
    """How unevenly lists (B, K) spread over all items: 0 if all come as often, near 1 if a few take everything."""
    counts = np.sort(np.bincount(items[items >= 0], minlength=n_items))  # (I,) ascending
    ranks = np.arange(1, n_items + 1)
    total = counts.sum()
    return float((2 * ranks - n_items - 1) @ counts / (n_items * total)) if total else 0.0


def _popularity_of(items: NDArray[np.int64], popularity: Counts) -> PerUser:
    """(B, K), NaN where there is no item."""
    return np.where(items >= 0, popularity[np.maximum(items, 0)], np.nan)
