"""Draws from a fixed law without the items that a user has. `spherec.sampling.draw` has the method."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 128


class State(NamedTuple):
    """Which whole numbers belong to which item, and what of them is free to which user."""

    total: int  # T
    ends: Tensor  # (I,)
    owned: Tensor  # (E + 1,)
    starts: Tensor  # (U + 1,)
    free: Tensor  # (U,)
    keys: Tensor  # (E,)


def without(state: State, users: Tensor, random: Tensor) -> tuple[Tensor, Tensor]:
    """For users (B,) and random whole numbers (B, n): items (B, n), and whether there is any (B, n)."""
    total, *tables = state
    items, valid = (torch.empty(random.shape, dtype=kind, device=users.device) for kind in (torch.int64, torch.bool))
    count, n, n_items = random.numel(), random.shape[1], len(state.ends)
    rounds = n_items.bit_length(), len(state.keys).bit_length()
    grid = (triton.cdiv(count, _BLOCK),)
    _without[grid](
        *tables,
        users.contiguous(),
        random.contiguous(),
        items,
        valid,
        total,
        n_items,
        count,
        n,
        *rounds,
        _BLOCK,
        num_warps=4,
    )
    return items, valid


@triton.jit
def _without(
    ends, owned, starts, free, keys, users, random, items, valid, total, n_items, count, n,
    ITEM_ROUNDS: tl.constexpr, ROW_ROUNDS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    user = tl.load(users + at // n, mask=inside, other=0)
    room = tl.load(free + user)
    number = tl.load(random + at, mask=inside, other=0) % tl.maximum(room, 1)
    start = tl.load(starts + user)
    place = first_above(keys, start, tl.load(starts + user + 1), user * total + number, ROW_ROUNDS)
    number += tl.load(owned + place) - tl.load(owned + start)
    none = tl.zeros_like(number)
    item = first_above(ends, none, none + n_items, number, ITEM_ROUNDS)
    tl.store(items + at, tl.minimum(item, n_items - 1), mask=inside)
    tl.store(valid + at, room > 0, mask=inside)


@triton.jit
def first_above(values, low, high, wanted, ROUNDS: tl.constexpr):
    """The first place from `low` on, and before `high`, at which ascending values are above `wanted`; else `high`."""
    for _ in range(ROUNDS):
        middle = (low + high) // 2
        searching = low < high
        above = tl.load(values + middle, mask=searching, other=0) > wanted
        high = tl.where(searching & above, middle, high)
        low = tl.where(searching & ~above, middle + 1, low)
    return low
