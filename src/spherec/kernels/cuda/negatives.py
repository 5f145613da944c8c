"""Draws of negatives on a GPU. `spherec.sampling.draw` and `two_stage` have the methods and the laws.

Whether a user has a candidate is asked the other way round: `column` (I,) tells where an item stands among the
candidates, and each user's row is walked through it.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from spherec.kernels.protocol import Directions, LawTables, OwnItems, TwoStageLaw
from spherec.kernels.reference.negatives import ReferenceLaw, ReferenceTwoStage
from spherec.process_group import ShareGenerator

NOWHERE = 2147483647
"Entry of `column` for items that are not among the candidates."
_BLOCK = 1024
_DRAWS = 128  # in one program
_MOST_CANDIDATES = 16384  # that one program can look at
_CLOSED = -2.0  # lower than any similarity


class CudaLaw(ReferenceLaw):
    """Draws from a law; those without a user's items in one kernel."""

    def without(self, users: Tensor, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return n items (B, n) that each user (B,) does not have, and whether there is any (B, n)."""
        return draw_without(self.tables, users, self.numbers_of_pairs(len(users), n, generator))


class CudaTwoStage(ReferenceTwoStage):
    """Two-stage draws in a few kernels; in plain torch where stage one is unusual or has too many candidates."""

    def __init__(self, law: TwoStageLaw, own: OwnItems, device: torch.device) -> None:
        super().__init__(law, own, device)
        self._is_usual = not (law.replacement or law.by_noise) and law.n_candidates <= _MOST_CANDIDATES
        if self._is_usual:
            starts, items, n_items = own
            self._rows = torch.tensor(starts, device=device), torch.tensor(items, device=device)
            self.column = torch.full((n_items,), NOWHERE, dtype=torch.int32, device=device)

    def draw(
        self, users: Tensor, positives: Tensor, directions: Directions, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Draw both stages: n distinct items (B, n) for each pair (B,), (B,), and whether there was one (B, n)."""
        if not self._is_usual or isinstance(generator, ShareGenerator):
            return super().draw(users, positives, directions, n, generator)
        law, count = self.law, len(positives)
        numbers = self._draws.numbers((law.draws + 1,), generator)  # the last is a seed
        candidates = find_first_distinct(
            numbers[:-1], law.stage_one.ends, law.stage_one.total, law.n_candidates, self.column
        )
        vectors = directions(torch.cat((positives, candidates[0])))  # (B + C, D)
        similarity = vectors[:count] @ vectors[count:].T  # (B, C)
        seed = numbers[-1:]
        return draw_distinct(
            similarity, candidates, users, self._rows, self.column, seed, exponent=law.exponent, cap=law.cap, n=n
        )


def draw_without(tables: LawTables, users: Tensor, random: Tensor) -> tuple[Tensor, Tensor]:
    """Return for users (B,) and random whole numbers (B, n) the items (B, n), and whether there is any (B, n)."""
    total, ends, owned, starts, free, keys = tables
    items, valid = (torch.empty(random.shape, dtype=kind, device=users.device) for kind in (torch.int64, torch.bool))
    count, n, n_items = random.numel(), random.shape[1], len(ends)
    rounds = n_items.bit_length(), len(keys).bit_length()
    given = ends, owned, starts, free, keys, users.contiguous(), random.contiguous(), items, valid
    _without[(triton.cdiv(count, _DRAWS),)](*given, total, n_items, count, n, *rounds, _DRAWS, num_warps=4)
    return items, valid


def find_first_distinct(
    random: Tensor,  # (n,) whole numbers
    ends: Tensor,  # (I,)
    total: int,
    count: int,  # C
    column: Tensor,  # (I,) all NOWHERE; becomes where each candidate stands
) -> tuple[Tensor, Tensor]:
    """Return the first C distinct items that the numbers name (C,), 0 in places left over, and their number (1,)."""
    draws, n_items = len(random), len(ends)
    items = torch.empty_like(random)
    found = torch.empty(count, dtype=torch.int64, device=random.device)
    known = torch.empty(1, dtype=torch.int64, device=random.device)
    _mark[(triton.cdiv(draws, _DRAWS),)](
        random, ends, items, column, total, n_items, draws, n_items.bit_length(), _DRAWS
    )
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
    """Return n distinct candidates (B, n) for each pair, and whether there was one left to draw."""
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
    """Write the item that each number names, and into `column` the first draw that names it."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < draws
    number = tl.load(random + at, mask=inside, other=0) % total
    item = first_above(ends, tl.zeros_like(number), tl.zeros_like(number) + n_items, number, ROUNDS)
    tl.store(items + at, item, mask=inside)
    tl.atomic_min(column + item, at, mask=inside)


@triton.jit
def _collect(items, column, found, known, draws, count, NOWHERE: tl.constexpr, BLOCK: tl.constexpr):
    """Collect the items of first draws, one after the other, until there are enough; one program does all.

    `column` serves two purposes. Before a draw is looked at, the entry of its item is the first draw that names it;
    afterwards it is the item's place among the candidates. Both fit into one array because a place is never after the
    draw that took it: no later draw can take a place for its own number. Example, items by draw: 7 3 7 5.

        column[7], column[3], column[5] = 0, 1, 3      from `_mark`
        draw 0 is first: 7 takes place 0; draw 1: 3 takes place 1
        draw 2: column[7] is 0, not 2, so it repeats; draw 3 is first: 5 takes place 2, and column[5] becomes 2
    """
    placed = 0
    for first in range(0, draws, BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < draws
        item = tl.load(items + at, mask=inside, other=0)
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
    """Close the user's own items."""
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
    """Take the n largest of log weight plus Gumbel noise."""
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
    # `_close` is done with all users by now: clear the candidates from `column`, each program its share of them.
    tl.store(column + candidate, tl.zeros((WIDTH,), tl.int32) + NOWHERE, mask=inside & (c % pairs == pair))


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
    """Return the first place from `low` on, and before `high`, where ascending values exceed `wanted`; else `high`."""
    for _ in range(ROUNDS):
        middle = (low + high) // 2
        searching = low < high
        above = tl.load(values + middle, mask=searching, other=0) > wanted
        high = tl.where(searching & above, middle, high)
        low = tl.where(searching & ~above, middle + 1, low)
    return low
