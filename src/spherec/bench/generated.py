"""Interactions out of nothing, of any size: skewed as real ones are, made without a loop over pairs."""

import numpy as np

from spherec import rng
from spherec.data.ids import IdMap
from spherec.data.interactions import Interactions, row_starts


def generated(users: int, items: int, pairs: int, *, seed: int = 0) -> Interactions:
    """So many users and items, with at most so many pairs: those drawn twice are one.

    The density of popularity falls as rank^(−1/2), that of users' activity as rank^(−1/3). Which indices are popular is
    random, so that popular rows do not lie side by side.
    """
    random = rng.stream(seed, "generated")
    popular = random.permutation(items)[(items * random.random(pairs) ** 2).astype(np.int64)]  # (pairs,)
    active = (users * random.random(pairs) ** 1.5).astype(np.int64)  # (pairs,)
    keys = np.sort(active * items + popular)  # (pairs,) by user, then item
    user, item = np.divmod(keys[np.append(True, keys[1:] != keys[:-1])], items)  # (E,)
    return Interactions(
        indptr=row_starts(user.astype(np.int32), users),
        indices=item.astype(np.int32),
        user_ids=IdMap(np.arange(users)),
        item_ids=IdMap(np.arange(items)),
    )
