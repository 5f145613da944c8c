"""From random numbers to items: what `spherec.sampling.draw` and `candidates` do with sorting and searching."""

import numpy as np
from numpy.typing import NDArray

from spherec.kernels.compiled import compiled

Ints = NDArray[np.int64]
Guide = NDArray[np.int32]


_AT_ONCE = 1 << 20  # numbers looked up at once


def guide_of(ends: Ints) -> tuple[Guide, int]:
    """For each block of 2^shift numbers, the item that its first number names; about as many blocks as items.

    `ends` (I,) are the numbers that end each item's own. With the guide a search begins where it nearly ends.
    """
    shift = max(int(ends[-1] // max(len(ends), 1)).bit_length() - 1, 0)
    blocks = (int(ends[-1]) >> shift) + 2
    guide = np.empty(blocks, np.int32)
    for first in range(0, blocks, _AT_ONCE):  # a catalogue may be large
        numbers = np.arange(first, min(first + _AT_ONCE, blocks)) << shift
        guide[first : first + len(numbers)] = np.searchsorted(ends, numbers, side="right")
    return np.minimum(guide, len(ends) - 1, out=guide), shift


@compiled()
def name_items(numbers: Ints, total: int, ends: Ints, guide: Guide, shift: int, items: Ints) -> None:
    """The items that the numbers (n,) name, each taken modulo the total, in place."""
    for at in range(len(numbers)):  # in two loops, so that one need not wait for what the other has to load
        numbers[at] %= total
        items[at] = guide[numbers[at] >> shift]
    for at in range(len(numbers)):
        if ends[items[at]] <= numbers[at]:
            items[at] = _first_above(numbers[at], ends, items[at] + 1, guide[(numbers[at] >> shift) + 1])


@compiled()
def name_free_items(
    users: Ints,  # (B,)
    numbers: Ints,  # (B, n) >= 0
    rows: tuple[Ints, Ints, Ints],  # starts (U + 1,), owned (E + 1,), keys (E,)
    free: Ints,  # (U,) numbers that a user's items do not own
    law: tuple[Ints, Guide, int],  # ends (I,), guide, shift
    items: Ints,  # (B, n)
    valid: NDArray[np.bool_],  # (B, n)
) -> None:
    """The items that the numbers name among those that each user does not have."""
    starts, owned, keys = rows
    ends, guide, shift = law
    total = ends[-1]
    for row in range(len(users)):
        user = users[row]
        first, past, room = starts[user], starts[user + 1], free[user]
        for at in range(numbers.shape[1]):
            number = numbers[row, at] % max(room, 1)
            place = _first_above(user * total + number, keys, first, past)
            number += owned[place] - owned[first]
            block = number >> shift
            items[row, at] = _first_above(number, ends, guide[block], guide[block + 1])
            valid[row, at] = room > 0


@compiled()
def first_distinct(
    items: Ints,  # (n,)
    seen: NDArray[np.bool_],  # (I,) all false, and so again when done
    found: Ints,  # (count,) all 0
    multiplicity: NDArray[np.float32],  # (count,) all 0
) -> None:
    """The first `count` distinct items, in their order; places that are left over stay 0."""
    count = 0
    for item in items:
        if count < len(found) and not seen[item]:
            seen[item] = True
            found[count] = item
            multiplicity[count] = 1
            count += 1
    for item in found[:count]:
        seen[item] = False


@compiled(inline="always")  # handing over arrays for each number would cost more than the search
def _first_above(number: int, ascending: Ints, low: int, high: int) -> int:
    """The first place from `low` on at which there is more than the number, at most `high`."""
    while low < high:
        middle = (low + high) >> 1
        if ascending[middle] <= number:
            low = middle + 1
        else:
            high = middle
    return low
