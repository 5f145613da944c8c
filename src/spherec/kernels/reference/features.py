"""Products with the features of items, which add to raw rows and pass gradients to their map, in plain torch."""

from torch import Tensor

FIRST, SECOND, THIRD = 0x9E3779B97F4A7C1, 0xBF58476D1CE4E5B, 0x94D049BB133111E
"""Odd multipliers of the hash."""

HASH_BITS = 24
"""Bits of the hash that are compared with the share of rows that are left out."""


def keep_rows(items: Tensor, steps: Tensor, always: Tensor, seed: int, left_out: int) -> Tensor:
    """Return 1 for items (m,) whose rows take part in this step, 0 for others, by a hash of seed, step and item.

    `left_out` of 2^HASH_BITS items are left out, but none of those that `always` (I,) names.
    """
    mixed = items * FIRST + (steps * SECOND + wrap(seed * THIRD))  # (m,)
    mixed = (mixed ^ (mixed >> 31)) * THIRD
    mixed = (mixed ^ (mixed >> 29)) * SECOND
    hashed = (mixed >> 20) & ((1 << HASH_BITS) - 1)
    return ((hashed >= left_out) | always[items]).float()


def wrap(number: int) -> int:
    """Return a whole number as int64 holds it."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


class ReferenceFeatures:
    """Products with the features of items (I, F + 1). `spherec.embedding` has the formula."""

    def __init__(self, numbers: Tensor) -> None:
        self._numbers = numbers  # (I, F + 1)

    def add(self, rows: Tensor, index: Tensor, weights: Tensor, keep: Tensor | None = None) -> None:
        """Add [x, 1] W of indices (m,) to raw rows (P, m, d) in place; rows where `keep` (m,) is 0 are replaced.

        `weights` (P, F + 1, d) is W. Indices from I on are of users, who have no features: nothing is added.
        """
        self._last = index
        is_item = index < len(self._numbers)  # (m,)
        numbers = self._numbers.index_select(0, index.clamp_max(len(self._numbers) - 1)) * is_item[:, None]
        if keep is not None:
            rows *= keep[:, None]
        rows += numbers @ weights

    def learn(self, gradient: Tensor, keep: Tensor | None = None) -> Tensor:
        """Return the gradient (P, F + 1, d) of W, from that of the raw rows (P, m, d) that `add` added to last.

        Afterwards, the gradient of rows where `keep` (m,) is 0 becomes 0, in place: they took no part.
        """
        learned = self._numbers.index_select(0, self._last).T @ gradient
        if keep is not None:
            gradient *= keep[:, None]
        return learned
