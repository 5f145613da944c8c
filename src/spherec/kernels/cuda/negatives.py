"""Draws of negatives on a GPU. `spherec.sampling.draw` and `two_stage` have the methods and the laws."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from spherec import rng
from spherec.kernels.protocol import Directions, LawTables, OwnItems, TwoStageLaw
from spherec.kernels.reference.negatives import ReferenceLaw, ReferenceMembership, ReferenceTwoStage
from spherec.lazy import Lazy

_BLOCK = 1024
_MOST_AT_ONCE = 8192  # draws that one program looks at, at once
_DRAWS = 128  # in one program
_MOST_CANDIDATES = 16384  # that one program can look at
_BATCHES = tl.constexpr(2147483647)  # of one sampler, at most


class CudaLaw(ReferenceLaw):
    """Draws from a law; those without a user's items in one kernel."""

    def without(self, users: Tensor, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return draw_without(self.tables, users, rng.draw_numbers_of_pairs(len(users), n, generator))


class CudaMembership(ReferenceMembership):
    """Looks for each item in the user's row."""

    def mask(self, users: Tensor, items: Tensor) -> Tensor:
        mask = torch.empty(len(users), len(items), dtype=torch.bool, device=users.device)
        if mask.numel():
            grid = len(users), triton.cdiv(len(items), _BLOCK)
            _mask[grid](users.contiguous(), items.contiguous(), *self._rows, mask, len(items), _BLOCK, num_warps=4)
        return mask

    @Lazy
    def _rows(self) -> tuple[Tensor, Tensor]:
        """(U + 1,) starts, and (E,) items."""
        starts, items, _ = self._own
        return torch.tensor(starts, device=self._device), torch.tensor(items, device=self._device)


class CudaTwoStage(ReferenceTwoStage):
    """Two-stage draws in a few kernels; in plain torch where stage one is unusual or has too many candidates."""

    def __init__(self, law: TwoStageLaw, own: OwnItems, device: torch.device) -> None:
        super().__init__(law, own, device)
        self._membership = CudaMembership(own, device)
        self._is_usual = not (law.replacement or law.by_noise) and law.n_candidates <= _MOST_CANDIDATES
        if self._is_usual:
            self._first_draws = make_first_draws(own.n_items, device)

    def draw(
        self, users: Tensor, positives: Tensor, directions: Directions, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        if not self._is_usual or rng.draws_for_others(generator):
            return super().draw(users, positives, directions, n, generator)
        law, count = self.law, len(positives)
        numbers = rng.draw_numbers((law.draws + 1,), generator)  # the last is a seed
        candidates = find_first_distinct(
            numbers[:-1], law.stage_one.ends, law.stage_one.total, law.n_candidates, self._first_draws
        )
        closed = self._membership.mask(users, candidates[0])  # (B, C)
        # All that needs no vectors comes before this line: it may be done while the last step still moves them.
        vectors = directions(torch.cat((positives, candidates[0])))  # (B + C, D)
        similarity = vectors[:count] @ vectors[count:].T  # (B, C)
        return draw_distinct(similarity, closed, candidates, numbers[-1:], exponent=law.exponent, cap=law.cap, n=n)


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
    random: Tensor, ends: Tensor, total: int, count: int, first_draws: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Return the first C distinct items that numbers (n,) name (C,), 0 in places left over, and their number (1,).

    `first_draws` are those of `make_first_draws`; both change.
    """
    draws, n_items = len(random), len(ends)
    items = torch.empty_like(random)
    found = torch.empty(count, dtype=torch.int64, device=random.device)
    known = torch.empty(1, dtype=torch.int64, device=random.device)
    _mark[(triton.cdiv(draws, _DRAWS),)](
        random, ends, items, *first_draws, total, n_items, draws, n_items.bit_length(), _DRAWS
    )
    at_once = min(triton.next_power_of_2(max(draws, count)), _MOST_AT_ONCE)
    shape = {"BLOCK": at_once, "num_warps": max(1, min(16, at_once // 128))}
    _collect[(1,)](items, *first_draws, found, known, draws, count, **shape)
    return found, known


def draw_distinct(
    similarity: Tensor, closed: Tensor, candidates: tuple[Tensor, Tensor], seed: Tensor,
    *, exponent: float, cap: float, n: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return n distinct candidates (B, n) for each pair, and whether there was one left to draw.

    `similarity` (B, C) s, `closed` (B, C) whether the candidate is the user's own item; `candidates` are item indices
    (C,) and their number (1,); `seed` (1,) is random.
    """
    pairs, count = similarity.shape
    items = torch.empty(pairs, n, dtype=torch.int64, device=seed.device)
    valid = torch.empty(pairs, n, dtype=torch.bool, device=seed.device)
    width = triton.next_power_of_2(count)
    shape = {"WIDTH": width, "num_warps": max(1, min(16, width // 256))}
    _pick[(pairs,)](similarity, closed, *candidates, seed, items, valid, float(exponent), float(cap), count, n, **shape)
    return items, valid


def make_first_draws(n_items: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return for each item the first draw of the last batch that names it (I,), and the number of batches (1,).

    The entries are never cleared. Their upper half is the number of the batch, counted down: those of earlier batches
    are larger than any of this one.
    """
    entries = torch.full((n_items,), torch.iinfo(torch.int64).max, device=device)
    return entries, torch.zeros(1, dtype=torch.int64, device=device)


@triton.jit
def _mask(users, items, starts, held, mask, count, BLOCK: tl.constexpr):
    """One program for each user and block of items."""
    row = tl.program_id(0).to(tl.int64)
    user = tl.load(users + row)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    item = tl.load(items + c, mask=c < count, other=0)
    start, end = tl.load(starts + user), tl.load(starts + user + 1)
    low = tl.zeros_like(item) + start  # the last place whose item is not larger, unless all are
    left = end - start
    while left > 1:
        half = left // 2
        low = tl.where(tl.load(held + low + half) <= item, low + half, low)
        left -= half
    has = tl.load(held + low, mask=low < end, other=-1) == item
    tl.store(mask + row * count + c, has, mask=c < count)


@triton.jit
def _mark(random, ends, items, first_draws, batches, total, n_items, draws, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    """Write the item that each number names, and for the item the first draw that names it."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < draws
    number = tl.load(random + at, mask=inside, other=0) % total
    item = first_above(ends, tl.zeros_like(number), tl.zeros_like(number) + n_items, number, ROUNDS)
    tl.store(items + at, item, mask=inside)
    tl.atomic_min(first_draws + item, _first_entry(tl.load(batches)) + at, mask=inside)


@triton.jit
def _collect(items, first_draws, batches, found, known, draws, count, BLOCK: tl.constexpr):
    """Collect the items of first draws, one after the other, until there are enough; one program does all."""
    batch = tl.load(batches)
    placed = 0
    for first in range(0, draws, BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < draws
        item = tl.load(items + at, mask=inside, other=0)
        is_first = inside & (tl.load(first_draws + item, mask=inside, other=-1) == _first_entry(batch) + at)
        place = placed + tl.cumsum(is_first.to(tl.int32), 0) - 1
        tl.store(found + place, item, mask=is_first & (place < count))
        placed += tl.sum(is_first.to(tl.int32), 0)
    for first in range(0, count, BLOCK):
        place = first + tl.arange(0, BLOCK)
        tl.store(found + place, tl.zeros((BLOCK,), tl.int64), mask=(place >= placed) & (place < count))
    tl.store(known, tl.minimum(placed, count).to(tl.int64))
    tl.store(batches, batch + 1)


@triton.jit
def _first_entry(batch):
    """Return what `first_draws` holds for draw 0 of a batch."""
    return (-batch + _BATCHES) << 32


@triton.jit
def _pick(
    similarity, closed, candidates, known, seed, items, valid, exponent, cap, count,
    N: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Take the n largest of log weight plus Gumbel noise."""
    pair = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, WIDTH)
    inside = c < tl.load(known)
    s = tl.load(similarity + pair * count + c, mask=inside, other=0.0)
    open_ = inside & (tl.load(closed + pair * count + c, mask=inside, other=1) == 0)
    near = open_ & (s >= 0)
    none_near = tl.max(near.to(tl.int32), 0) == 0
    capped = tl.minimum(tl.maximum(s, 0.0), cap)
    log_weight = tl.where(none_near, 0.0, exponent * tl.log(1 - capped * capped))
    noise = tl.rand(tl.load(seed), (pair * count + c).to(tl.int32))
    key = log_weight - tl.log(-tl.log(tl.maximum(noise, 1e-38)))
    key = tl.where(tl.where(none_near, open_, near), key, float("-inf"))
    for k in range(N):
        best, place = tl.max(key, 0, return_indices=True)
        tl.store(items + pair * N + k, tl.load(candidates + place))
        tl.store(valid + pair * N + k, best > float("-inf"))
        key = tl.where(c == place, float("-inf"), key)


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
