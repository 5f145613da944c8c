"""Two-stage sampling on a GPU: the first distinct of many draws, and distinct draws by weight for each pair.

`spherec.sampling.candidates` and `two_stage` have the laws. Whether a user has a candidate is asked the other way
round: `column` (I,) tells where an item stands among the candidates, and each user's row is walked through it.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from spherec.kernels.cuda.draw import first_above

NOWHERE = 2147483647
"What `column` holds for items that are not among the candidates."
_BLOCK = 1024
_CLOSED = -2.0  # no similarity is as low


def first_distinct(
    random: Tensor,  # (n,) whole numbers
    ends: Tensor,  # (I,)
    total: int,
    count: int,  # C
    column: Tensor,  # (I,) all NOWHERE; becomes where each candidate stands
) -> tuple[Tensor, Tensor]:
    """The first C distinct items that the numbers name (C,), and how many there are (1,); 0 in places left over."""
    draws, n_items = len(random), len(ends)
    items = torch.empty_like(random)
    found = torch.empty(count, dtype=torch.int64, device=random.device)
    known = torch.empty(1, dtype=torch.int64, device=random.device)
    _mark[(triton.cdiv(draws, 128),)](random, ends, items, column, total, n_items, draws, n_items.bit_length(), 128)
    _collect[(1,)](items, column, found, known, draws, count, NOWHERE, _BLOCK, num_warps=8)
    return found, known


def draw_distinct(
    similarity: Tensor,  # (B, C) s, changed
    candidates: tuple[Tensor, Tensor],  # (C,) item indices, and how many of them there are (1,)
    users: Tensor,  # (B,)
    rows: tuple[Tensor, Tensor],  # starts (U + 1,) and the items (E,) of user 0, then of user 1 …
    column: Tensor,  # (I,); becomes all NOWHERE again
    seed: Tensor,  # (1,) random
    *,
    exponent: float,
    cap: float,
    n: int,
) -> tuple[Tensor, Tensor]:
    """For each pair n distinct candidates (B, n), and whether there was one left to draw."""
    pairs, count = similarity.shape
    items = torch.empty(pairs, n, dtype=torch.int64, device=users.device)
    valid = torch.empty(pairs, n, dtype=torch.bool, device=users.device)
    _close[(pairs,)](similarity, users, *rows, column, count, NOWHERE, _CLOSED, _BLOCK, num_warps=8)
    width = triton.next_power_of_2(count)
    shape = {"WIDTH": width, "num_warps": max(1, min(16, width // 256))}
    arrays = similarity, *candidates, column, seed, items, valid
    _pick[(pairs,)](*arrays, float(exponent), float(cap), count, pairs, NOWHERE, _CLOSED, n, **shape)
    return items, valid


@triton.jit
def _mark(random, ends, items, column, total, n_items, draws, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    """Which item each number names; in `column`, the first draw that names it."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < draws
    number = tl.load(random + at, mask=inside, other=0) % total
    item = first_above(ends, tl.zeros_like(number), tl.zeros_like(number) + n_items, number, ROUNDS)
    tl.store(items + at, item, mask=inside)
    tl.atomic_min(column + item, at, mask=inside)


@triton.jit
def _collect(items, column, found, known, draws, count, NOWHERE: tl.constexpr, BLOCK: tl.constexpr):
    """The items of first draws, one after the other, until there are enough; one program does all."""
    placed = 0
    for first in range(0, draws, BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < draws
        item = tl.load(items + at, mask=inside, other=0)
        # A place is never after the draw that took it, so no later draw takes what is written here for its own.
        is_first = inside & (tl.load(column + item, mask=inside, other=-1) == at)
        place = placed + tl.cumsum(is_first.to(tl.int32), 0) - 1
        taken = is_first & (place < count)
        tl.store(found + place, item, mask=taken)
        tl.debug_barrier()
        tl.store(column + item, tl.where(taken, place, NOWHERE), mask=is_first)
        tl.debug_barrier()
        placed += tl.sum(is_first.to(tl.int32), 0)
    for first in range(0, count, BLOCK):
        place = first + tl.arange(0, BLOCK)
        tl.store(found + place, tl.zeros((BLOCK,), tl.int64), mask=(place >= placed) & (place < count))
    tl.store(known, tl.minimum(placed, count).to(tl.int64))


@triton.jit
def _close(
    similarity, users, starts, held, column, count,
    NOWHERE: tl.constexpr, CLOSED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Close the user's own."""
    pair = tl.program_id(0).to(tl.int64)
    user = tl.load(users + pair)
    end = tl.load(starts + user + 1)
    for first in range(tl.load(starts + user), end, BLOCK):
        at = first + tl.arange(0, BLOCK)
        place = tl.load(column + tl.load(held + at, mask=at < end, other=0), mask=at < end, other=NOWHERE)
        tl.store(similarity + pair * count + place, tl.zeros((BLOCK,), tl.float32) + CLOSED, mask=place != NOWHERE)


@triton.jit
def _pick(
    similarity, candidates, known, column, seed, items, valid, exponent, cap, count, pairs,
    NOWHERE: tl.constexpr, CLOSED: tl.constexpr, N: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The n largest of log weight plus Gumbel noise."""
    pair = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, WIDTH)
    inside = c < tl.load(known)
    candidate = tl.load(candidates + c, mask=inside, other=0)
    s = tl.load(similarity + pair * count + c, mask=inside, other=CLOSED)
    open_ = inside & (s != CLOSED)
    near = open_ & (s >= 0)
    none_near = tl.max(near.to(tl.int32), 0) == 0
    capped = tl.minimum(tl.maximum(s, 0.0), cap)
    log_weight = tl.where(none_near, 0.0, exponent * tl.log(1 - capped * capped))
    noise = tl.rand(tl.load(seed), (pair * count + c).to(tl.int32))
    key = log_weight - tl.log(-tl.log(tl.maximum(noise, 1e-38)))
    key = tl.where(tl.where(none_near, open_, near), key, float("-inf"))
    for k in range(N):
        best, place = tl.max(key, 0, return_indices=True)
        tl.store(items + pair * N + k, tl.max(tl.where(c == place, candidate, 0), 0))
        tl.store(valid + pair * N + k, best > float("-inf"))
        key = tl.where(c == place, float("-inf"), key)
    # All users have been asked about by now: `column` forgets the candidates, each program its share of them.
    tl.store(column + candidate, tl.zeros((WIDTH,), tl.int32) + NOWHERE, mask=inside & (c % pairs == pair))
