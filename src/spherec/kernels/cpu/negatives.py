"""Draws of negatives on a CPU. `spherec.sampling.draw` and `two_stage` have the methods and the laws.

Stage two of two-stage sampling draws by rejection where that pays, so that most candidates are never looked at: a
candidate drawn at random is taken with the probability w(s)/w_max, else another one is drawn. So the candidate that is
taken has the law of the weights w. Failed tries carry no information about the eventual draw, so after many of them a
pair can be drawn from all candidates instead, without a change of the law.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec import rng
from spherec.device import run_at_once, split_work
from spherec.kernels.cpu.compiled import compiled
from spherec.kernels.protocol import Candidates, Directions, Flags, Floats, Ints, LawTables, OwnItems, TwoStageLaw
from spherec.kernels.reference.negatives import ReferenceLaw, ReferenceMembership, ReferenceTwoStage

Guide = NDArray[np.int32]

_AT_ONCE = 1 << 20  # numbers looked up at once
_LOOK = 32  # multiplications that take as long as a place of a mask, or an item of a user
_WIDEST = 80.0  # between the logarithms of two weights; exp(-87) is about the smallest float32
_NEAR = 0.5  # share of the candidates with s >= 0, about
_LEVEL_BITS = 10  # bits of u that select an entry of the threshold table
_ROUNDING = np.float32(1e-4)  # far more than the error of sums of float32


class CpuLaw(ReferenceLaw):
    """Draws from a law, by short searches that begin at a guide."""

    def __init__(self, tables: LawTables) -> None:
        super().__init__(tables)
        self._ends, self._free = tables.ends.numpy(), tables.free.numpy()
        self._rows = tables.starts.numpy(), tables.owned.numpy(), tables.keys.numpy()
        self._guide, self._shift = make_guide(self._ends)

    def any(self, n: int, generator: torch.Generator) -> Tensor:
        numbers = rng.draw_numbers((n,), generator)
        items = torch.empty_like(numbers)
        look_up_items(numbers.numpy(), self.tables.total, self._ends, self._guide, self._shift, items.numpy())
        return items

    def without(self, users: Tensor, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        numbers = rng.draw_numbers_of_pairs(len(users), n, generator)
        items, valid = torch.empty_like(numbers), torch.empty(numbers.shape, dtype=torch.bool)
        law, rows = (self._ends, self._guide, self._shift), (*self._rows, self._free)
        name_free_items(users.numpy(), numbers.numpy(), rows, law, items.numpy(), valid.numpy())
        return items, valid


class CpuMembership(ReferenceMembership):
    """Walks through the users' rows."""

    def __init__(self, own: OwnItems, device: torch.device) -> None:
        super().__init__(own, device)
        self._rows = own.starts, own.items
        self._counts = np.diff(own.starts)  # (U,)
        self._column = np.full(own.n_items, -1, dtype=np.int32)  # (I,) scratch of `link_places`

    def mask(self, users: Tensor, items: Tensor) -> Tensor:
        mask, who = torch.zeros(len(users), len(items), dtype=torch.bool), users.numpy()
        earlier = link_places(items.numpy(), self._column)

        def mark(some: slice) -> None:
            mark_own(who[some], *self._rows, self._column, earlier, mask[some].numpy())

        looks = mask.numel() + int(self._counts[who].sum())
        run_at_once([partial(mark, some) for some in split_work(len(users), looks * _LOOK)])
        self._column[items.numpy()] = -1
        return mask


class Meeting(NamedTuple):
    """Pairs and the candidates for their negatives."""

    users: Tensor
    "(B,)"
    near: Tensor
    "(B, D) directions of the positives, of length 1."
    candidates: Candidates
    others: Tensor
    "(C, D) directions of the candidates."


class CpuTwoStage(ReferenceTwoStage):
    """Two-stage draws: the first distinct in one pass, then rejection, or a pass over all candidates."""

    def __init__(self, law: TwoStageLaw, own: OwnItems, device: torch.device) -> None:
        self.law, self._own = law, own
        self._draws, self._membership = CpuLaw(law.stage_one), CpuMembership(own, device)
        self._seen = np.zeros(own.n_items, np.bool_)  # (I,) scratch of `keep_first_distinct`
        self._thresholds = threshold_table(law.exponent, law.cap)
        # Weights as float32 need a largest that float32 can hold next to the smallest.
        self._is_mild = abs(law.exponent) * -math.log1p(-(law.cap**2)) < _WIDEST

    def candidates(self, generator: torch.Generator) -> Candidates:
        if self.law.replacement or self.law.by_noise:
            return super().candidates(generator)
        drawn, count = self._draws.any(self.law.draws, generator), self.law.n_candidates
        items, multiplicity = torch.zeros(count, dtype=torch.int64), torch.zeros(count)
        keep_first_distinct(drawn.numpy(), self._seen, items.numpy(), multiplicity.numpy())
        return Candidates(items, multiplicity)

    def draw(
        self, users: Tensor, positives: Tensor, directions: Directions, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        if not self._is_mild:
            return super().draw(users, positives, directions, n, generator)
        candidates = self.candidates(generator)
        vectors = directions(torch.cat((positives, candidates.items)))  # (B + C, D)
        pairs = Meeting(users, vectors[: len(positives)], candidates, vectors[len(positives) :])
        if self.rejection_pays(candidates, n):
            places, valid = self._draw_mostly_by_rejection(pairs, n, generator)
        else:
            uniform = _draw_uniform(len(users), n, generator)
            places, valid = self._draw_from_all(pairs, users[:, None][:, :0], uniform)
        return candidates.items[places], valid

    def rejection_pays(self, candidates: Candidates, n: int) -> bool:
        """Tell whether n places take fewer looks at candidates than there are."""
        _, log_most = self._thresholds
        count = len(candidates.items)
        return log_most < math.log(count) and n * math.exp(log_most) * _most_often(candidates) < count * _NEAR

    def draw_by_rejection(self, pairs: Meeting, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return places among the candidates (B, n), and how many of the n were found (B,).

        As many tries in a row as there are candidates are made for one place.
        """
        users, near, candidates, others = pairs
        places = torch.zeros(len(users), n, dtype=torch.int64)
        found = torch.empty(len(users), dtype=torch.int64)
        seed = int(rng.draw_numbers((), generator))
        seeds = rng.draw_numbers_of_pairs(
            len(users), int(rng.draws_for_others(generator)), generator
        )  # (B, 1) or (B, 0)
        law = self.law.exponent, self.law.cap, *self._thresholds
        drawn = candidates.items.numpy(), candidates.multiplicity.numpy(), _most_often(candidates)
        own = users.numpy(), self._own.starts, self._own.items
        reject((near.numpy(), others.numpy()), law, drawn, own, (seed, seeds.numpy()), (places.numpy(), found.numpy()))
        return places, found

    def _draw_mostly_by_rejection(self, pairs: Meeting, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return places (B, n) among the candidates, those that rejection did not find drawn from all."""
        places, found = self.draw_by_rejection(pairs, n, generator)
        valid = torch.ones(places.shape, dtype=torch.bool)
        for_all = _draw_uniform(len(places), n, generator) if rng.draws_for_others(generator) else None  # (B, n)
        for had in sorted(set(found.tolist()) - {n}):
            left = found == had  # few, if any
            rest = pairs._replace(users=pairs.users[left], near=pairs.near[left])
            uniform = _draw_uniform(len(rest.users), n - had, generator) if for_all is None else for_all[left, had:]
            places[left, had:], valid[left, had:] = self._draw_from_all(rest, places[left, :had], uniform)
        return places, valid

    def _draw_from_all(self, pairs: Meeting, had: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Return places (B, n) with few passes over (B, C), without the places (B, h) that were drawn before.

        `uniform` (B, n) has the numbers by which they are drawn.
        """
        exponent, (items, multiplicity) = self.law.exponent, pairs.candidates
        weights = pairs.near @ pairs.others.T  # (B, C)
        closed = self._membership.mask(pairs.users, items)  # (B, C)
        heaviest = torch.empty(len(closed))  # (B,)
        close_far(weights.numpy(), multiplicity.numpy(), closed.numpy(), exponent, self.law.cap, heaviest.numpy())
        closed.scatter_(1, had, value=True)
        weights.log1p_().sub_(heaviest.log1p_()[:, None]).mul_(exponent).exp_()  # at most 1
        if self.law.replacement:
            weights *= multiplicity
        places, valid = (torch.empty(uniform.shape, dtype=kind) for kind in (torch.int64, torch.bool))
        draw_places(weights.numpy(), closed.numpy(), uniform.contiguous().numpy(), places.numpy(), valid.numpy())
        return places, valid


def _draw_uniform(rows: int, n: int, generator: torch.Generator) -> Tensor:
    """Return random numbers (B, n) from 0 to 1, for each pair of a batch."""
    return rng.draw_rows(lambda b: torch.empty(b, n).uniform_(generator=generator), rows, generator)


def _most_often(candidates: Candidates) -> float:
    """Return how often the most frequent candidate was drawn."""
    return float(candidates.multiplicity.numpy().max())


def make_guide(ends: Ints) -> tuple[Guide, int]:
    """Return for each block of 2^shift numbers the item that its first number names, and the shift.

    `ends` (I,) are the numbers past those of each item. There are about as many blocks as items, so a search that
    begins at the guide is nearly over.
    """
    shift = max(int(ends[-1] // max(len(ends), 1)).bit_length() - 1, 0)
    blocks = (int(ends[-1]) >> shift) + 2
    guide = np.empty(blocks, np.int32)
    for first in range(0, blocks, _AT_ONCE):  # a catalogue may be large
        numbers = np.arange(first, min(first + _AT_ONCE, blocks)) << shift
        guide[first : first + len(numbers)] = np.searchsorted(ends, numbers, side="right")
    return np.minimum(guide, len(ends) - 1, out=guide), shift


@compiled()
def look_up_items(numbers: Ints, total: int, ends: Ints, guide: Guide, shift: int, items: Ints) -> None:
    """Write the items that the numbers (n,) name, each taken modulo the total in place."""
    for at in range(len(numbers)):  # two loops, so that one need not wait for memory that the other loads
        numbers[at] %= total
        items[at] = guide[numbers[at] >> shift]
    for at in range(len(numbers)):
        if ends[items[at]] <= numbers[at]:
            items[at] = _first_above(numbers[at], ends, items[at] + 1, guide[(numbers[at] >> shift) + 1])


@compiled()
def name_free_items(
    users: Ints, numbers: Ints, rows: tuple[Ints, Ints, Ints, Ints], law: tuple[Ints, Guide, int],
    items: Ints, valid: Flags,
) -> None:  # fmt: skip
    """Write the items (B, n) that numbers (B, n) >= 0 name among those that each user (B,) does not have.

    `rows` are starts, owned, keys and free, `law` are ends, guide and shift.
    """
    starts, owned, keys, free = rows
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
def keep_first_distinct(drawn: Ints, seen: Flags, items: Ints, multiplicity: Floats) -> None:
    """Write the first distinct of the drawn (n,) into items (count,), in the order of drawing; the rest stays 0.

    `seen` (I,) is all false, and so again when done.
    """
    count = 0
    for item in drawn:
        if count < len(items) and not seen[item]:
            seen[item] = True
            items[count] = item
            multiplicity[count] = 1
            count += 1
    for item in items[:count]:
        seen[item] = False


@compiled(inline="always")  # handing over arrays for each number would cost more than the search
def _first_above(number: int, ascending: Ints | Guide, low: int, high: int) -> int:
    """Return the first place from `low` on that holds more than the number, at most `high`."""
    while low < high:
        middle = (low + high) >> 1
        if ascending[middle] <= number:
            low = middle + 1
        else:
            high = middle
    return low


@compiled()
def link_places(items: Ints, column: Guide) -> Guide:
    """Link the places of each of the items (C,): a linked list for each item.

    Writes the last place of each item into `column` (I,), which is all -1. Returns for each place the one before it
    with the same item (C,), -1 at the first.
    """
    earlier = np.empty(len(items), np.int32)
    for place in range(len(items)):
        earlier[place] = column[items[place]]
        column[items[place]] = place
    return earlier


@compiled()
def mark_own(users: Ints, starts: Ints, held: Guide, column: Guide, earlier: Guide, mask: Flags) -> None:
    """Set mask[b, c] where user b has item c; `column` (I,) and `earlier` (C,) are those of `link_places`."""
    for row in range(len(users)):
        user = users[row]
        for at in range(starts[user], starts[user + 1]):
            place = column[held[at]]
            while place >= 0:
                mask[row, place] = True
                place = earlier[place]


def threshold_table(exponent: float, cap: float) -> tuple[Floats, float]:
    """Return the least s at which a try can succeed, for each level of u (L,), and log w_max.

        w(s) = (1 − min(s, cap)²)^exponent for s >= 0, else 0

    A try succeeds if u < w(s)/w_max. Level l covers u from l/L to (l + 1)/L; below the s of its entry w(s)/w_max is
    less than l/L for sure, so one comparison ends nearly all tries.
    """
    levels = 1 << _LEVEL_BITS  # L
    log_most = max(exponent * math.log1p(-cap * cap), 0.0)
    if exponent >= 0:  # the largest weight is that of s = 0
        return np.zeros(levels, np.float32), log_most
    u = np.maximum(np.arange(levels), 1e-300) / levels  # the lower end of each level
    with np.errstate(over="ignore"):
        enough = -np.expm1(np.minimum((np.log(u) + log_most) / exponent, 0))  # s² at which the weight is u w_max
    return np.maximum(np.sqrt(np.minimum(enough, cap * cap)) - _ROUNDING, 0).astype(np.float32), log_most


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})
def reject(
    vectors: tuple[Floats, Floats], law: tuple[float, float, Floats, float], candidates: tuple[Ints, Floats, float],
    own: tuple[Ints, Ints, Guide], random: tuple[int, Ints], out: tuple[Ints, Ints],
) -> None:  # fmt: skip
    """Draw places among the candidates for each pair, one after the other without replacement.

    It gives up a pair after as many failures in a row as there are candidates.

    The law is the exponent, the cap, their threshold table and log w_max; candidates are items (C,), their multiplicity
    and the largest one; own are the users of the pairs, the starts of all users and their items; random is a seed, and
    seeds (B, 0), or (B, 1) with one for each pair; out are the places, and how many were found.

    A try takes one 64-bit number z. Its high half, as a 32-bit fraction, chooses the candidate: fraction · C. Its low
    half, as another fraction, is the u that decides whether the candidate is taken.
    """
    exponent, cap, least, log_most = law
    (ones, others), (items, times, most), (users, starts, held) = vectors, candidates, own
    (seed, seeds), (places, found) = random, out
    count, dim = others.shape
    state = np.uint64(seed)
    for row in range(len(ones)):
        n, left = 0, count
        if seeds.shape[1]:
            state = np.uint64(seeds[row, 0])
        while n < places.shape[1] and left > 0:
            left -= 1
            # splitmix64 (Steele, Lea and Flood, OOPSLA 2014): a counter with a large odd step, mixed in two rounds
            state += np.uint64(0x9E3779B97F4A7C15)
            z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z ^= z >> np.uint64(31)
            # 32.32 fixed point: high half times C is C · fraction with 32 bits after the point, which the shift drops
            c = np.int64(((z >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32))
            low = z & np.uint64(0xFFFFFFFF)  # u · 2^32
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
            at = _first_above(items[c] - 1, held, first, past)
            if is_new and not (at < past and held[at] == items[c]):
                n += 1
                left = count
        found[row] = n


@compiled()
def close_far(
    similarity: Floats, multiplicity: Floats, closed: Flags, exponent: float, cap: float, heaviest: Floats
) -> None:
    """Close the candidates with s < 0, unless no other is open: then all that are open count alike.

    `closed` (B, C), the users' own items, become all that must not be drawn; `similarity` (B, C) s becomes −s², with s
    cut at the cap; `heaviest` (B,) becomes −s² of the candidate with the largest weight.
    """
    # Half of the candidates are closed, and which ones cannot be foreseen: a branch in the loops over them would be
    # mispredicted every other time. So conditions are numbers, 0 or 1, and the loops are masked extremes:
    #     nearest, farthest = max and min of s over the candidates that are open and not far
    rows, count = similarity.shape
    for row in range(rows):
        s, shut = similarity[row], closed[row]
        nearest, farthest = np.float32(-1), np.float32(2)
        for c in range(count):
            shut[c] |= multiplicity[c] == 0
            far = np.float32(shut[c] | (s[c] < 0))
            nearest = max(nearest, (1 - far) * s[c] - far)  # s, or -1 if far: below all that count
            farthest = min(farthest, (1 - far) * s[c] + 2 * far)  # s, or 2 if far: above all that count
        none_near = nearest < 0
        best = min(nearest if exponent <= 0 else farthest, np.float32(cap))
        best = np.float32(0) if none_near else -best * best
        #     s = best where the candidate is closed, or where none is near; else −min(s, cap)²
        for c in range(count):
            shut[c] |= (s[c] < 0) & (not none_near)
            skip = np.float32(shut[c] | none_near)  # a closed candidate gets a weight that does no harm
            near = min(s[c], np.float32(cap))
            s[c] = skip * best - (1 - skip) * near * near
        heaviest[row] = best


@compiled()
def draw_places(weights: Floats, closed: Flags, uniform: Floats, places: Ints, valid: Flags) -> None:
    """Draw places (B, n) from each row of weights (B, C), one after the other; where `closed`, they count as 0.

    The weights change. `valid` (B, n) where there was one above 0 left to draw.
    """
    rows, count = weights.shape
    block = int(math.sqrt(count)) + 1  # sums of blocks spare most of the way along a row
    sums = np.empty((count + block - 1) // block, np.float64)
    for row in range(rows):
        w = weights[row]
        for b in range(len(sums)):
            total = np.float32(0)
            for c in range(b * block, min((b + 1) * block, count)):
                w[c] *= np.float32(1 - closed[row, c])  # no branch, as in `close_far`
                total += w[c]
            sums[b] = total
        for n in range(uniform.shape[1]):
            whole = np.sum(sums)
            valid[row, n] = whole > 0
            places[row, n] = _find_place(w, sums, block, uniform[row, n] * whole)
            w[places[row, n]] = 0
            b = places[row, n] // block
            sums[b] = np.sum(w[b * block : (b + 1) * block])


@compiled()
def _find_place(weights: Floats, sums: NDArray[np.float64], block: int, wanted: float) -> int:
    """Return the first place with a weight above 0 at which the running sum of the weights is above `wanted`."""
    b = 0
    while b < len(sums) - 1 and wanted >= sums[b]:
        wanted -= sums[b]
        b += 1
    for place in range(b * block, len(weights)):
        if weights[place] > 0:
            if wanted < weights[place]:
                return place
            wanted -= weights[place]
    for place in range(len(weights) - 1, -1, -1):  # rounding led past the end: the last that can be drawn
        if weights[place] > 0:
            return place
    return 0
