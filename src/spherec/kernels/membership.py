"""Who has which of some items."""

import numpy as np
from numpy.typing import NDArray

from spherec.kernels.compiled import compiled

Ints = NDArray[np.int64]


@compiled()
def mark_own(
    users: Ints,  # (B,)
    items: Ints,  # (C,)
    starts: Ints,  # (U + 1,)
    held: NDArray[np.int32],  # (E,) the items of user 0, then of user 1 …
    column: NDArray[np.int32],  # (I,) all -1, and so again when done
    mask: NDArray[np.bool_],  # (B, C) all false
) -> None:
    """Set mask[b, c] where user b has item c."""
    earlier = np.empty(len(items), np.int32)  # the place before this one that holds the same item
    for place in range(len(items)):
        earlier[place] = column[items[place]]
        column[items[place]] = place
    for row in range(len(users)):
        user = users[row]
        for at in range(starts[user], starts[user + 1]):
            place = column[held[at]]
            while place >= 0:
                mask[row, place] = True
                place = earlier[place]
    for place in range(len(items)):
        column[items[place]] = -1
