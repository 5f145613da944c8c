"""Stage two of two-stage sampling by rejection: most candidates are never looked at.

A candidate drawn at random is taken with the probability w(s)/w_max, else another one is drawn; so what is taken has
the law of the weights w. How often nothing was taken says nothing about what will be: after many tries a pair may as
well be drawn in another way.

A try is a dot product and a comparison: u decides at once how large s must be at least, by a table. Only the few tries
that pass it are worked out.
"""

import math

import numpy as np
from numpy.typing import NDArray

from spherec.kernels.compiled import compiled

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

_LEVEL_BITS = 10  # of the 32 of u, those that say where to look into the table
_ROUNDING = np.float32(1e-4)  # far more than what sums of float32 may be wrong by


def bounds(exponent: float, cap: float) -> tuple[Floats, float]:
    """For each part of [0, 1) that u may lie in, an s >= 0 below which w(s)/w_max < u for sure (L,); and log w_max.

    w(s) = (1 − min(s, cap)²)^exponent for s >= 0, else 0
    """
    levels = 1 << _LEVEL_BITS  # L
    log_most = max(exponent * math.log1p(-cap * cap), 0.0)
    if exponent >= 0:  # the largest weight is that of s = 0
        return np.zeros(levels, np.float32), log_most
    u = np.maximum(np.arange(levels), 1e-300) / levels  # the lower end of each part
    with np.errstate(over="ignore"):
        enough = -np.expm1(np.minimum((np.log(u) + log_most) / exponent, 0))  # s² at which the weight is u w_max
    return np.maximum(np.sqrt(np.minimum(enough, cap * cap)) - _ROUNDING, 0).astype(np.float32), log_most


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})
def draw_by_rejection(
    ones: Floats,  # (B, D) directions of the positives, of length 1
    others: Floats,  # (C, D) and of the candidates
    multiplicity: tuple[Floats, float],  # (C,), the largest
    law: tuple[float, float, Floats, float],  # exponent, cap, their bounds
    users: Ints,  # (B,)
    items: Ints,  # (C,)
    rows: tuple[Ints, NDArray[np.int32]],  # starts (U + 1,), the items of user 0, then of user 1 …
    seed: int,
    tries: int,  # in a row, for one place
    places: Ints,  # (B, n)
    found: Ints,  # (B,) becomes how many of the n were found
) -> None:
    """For each pair, places among the candidates one after the other without replacement, until tries run out."""
    times, most = multiplicity
    exponent, cap, least, log_most = law
    starts, held = rows
    count, dim = others.shape
    state = np.uint64(seed)
    for row in range(len(ones)):
        n, left = 0, tries
        while n < places.shape[1] and left > 0:
            left -= 1
            state += np.uint64(0x9E3779B97F4A7C15)  # splitmix64
            z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z ^= z >> np.uint64(31)
            c = np.int64(((z >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32))
            low = z & np.uint64(0xFFFFFFFF)
            s = np.float32(0)
            for d in range(dim):
                s += ones[row, d] * others[c, d]
            if s < least[np.int64(low >> np.uint64(32 - _LEVEL_BITS))]:  # as nearly always; also where s < 0
                continue
            near = min(float(s), cap)
            share = math.exp(exponent * math.log1p(-near * near) - log_most) * times[c] / most
            if (float(low) + 0.5) / 4294967296.0 >= share:
                continue
            places[row, n] = c
            is_new = True
            for k in range(n):
                is_new &= places[row, k] != c
            first, past = starts[users[row]], starts[users[row] + 1]
            at = _first_from(held, first, past, items[c])
            if is_new and not (at < past and held[at] == items[c]):
                n += 1
                left = tries
        found[row] = n


@compiled(inline="always")
def _first_from(held: NDArray[np.int32], low: int, high: int, item: int) -> int:
    """The first place from `low` on that holds the item or a later one, at most `high`."""
    while low < high:
        middle = (low + high) >> 1
        if held[middle] < item:
            low = middle + 1
        else:
            high = middle
    return low
