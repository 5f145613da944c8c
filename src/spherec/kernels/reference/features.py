"""What item features add to raw rows, and what their map learns from gradients, in plain torch."""

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


def add_features(rows: Tensor, table: Tensor, index: Tensor, weights: Tensor) -> None:
    """Add [x, 1] W to raw rows (P, m, d) in place: features at `index` (m,) in the table, map (P, F + 1, d).

    Nothing is added where the index is beyond the table.
    """
    is_item = index < len(table)  # (m,)
    rows += (table.index_select(0, index.clamp_max(len(table) - 1)) * is_item[:, None]) @ weights


def learn_features(table: Tensor, index: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient (P, F + 1, d) of the map, from that of raw rows (P, m, d) with features at `index` (m,)."""
    return table.index_select(0, index).T @ gradient
