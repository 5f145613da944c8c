"""Metrics of ranked lists: arrays in, one value a user out."""

import numpy as np
from numpy.typing import NDArray

from spherec.data.interactions import Interactions


def hits(items: NDArray[np.int64], users: NDArray[np.int64], held_out: Interactions) -> NDArray[np.bool_]:
    """(B, K) whether each of the items (B, K) listed for users (B,) is among those held out; never for -1."""
    keys = held_out.users * np.int64(held_out.n_items) + held_out.indices  # (E,) ascending
    wanted = users[:, None] * np.int64(held_out.n_items) + items  # (B, K)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found: NDArray[np.bool_] = (keys[place] == wanted) & (items >= 0)
    return found


def ndcg(hit: NDArray[np.bool_], n_held_out: NDArray[np.int64]) -> NDArray[np.float64]:
    """(B,) normalised discounted cumulative gain of hits (B, K), for users with n >= 1 items held out (B,).

    Σ_{hits at rank r} 1/log2(r + 1), divided by what min(n, K) hits on top would give.
    """
    discount = 1 / np.log2(np.arange(2, hit.shape[1] + 2))  # (K,)
    ideal = np.cumsum(discount)[np.minimum(n_held_out, hit.shape[1]) - 1]  # (B,)
    gain = hit.astype(np.float64) @ discount  # (B,)
    return np.asarray(gain / ideal)
