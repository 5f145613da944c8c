"""Draws of negatives in plain torch. `spherec.sampling.draw` and `two_stage` have the methods and the laws."""

import torch
from torch import Tensor

from spherec import rng
from spherec.kernels.protocol import Candidates, Directions, LawTables, OwnItems, TwoStageLaw
from spherec.lazy import Lazy


class ReferenceLaw:
    """Independent draws from a law, with replacement; by binary searches."""

    def __init__(self, tables: LawTables) -> None:
        self.tables = tables

    def any(self, n: int, generator: torch.Generator) -> Tensor:
        """Return items (n,)."""
        numbers = rng.draw_numbers((n,), generator)
        return torch.searchsorted(self.tables.ends, numbers % self.tables.total, right=True)

    def without(self, users: Tensor, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return n items (B, n) that each user (B,) does not have, and whether there is any (B, n)."""
        total, ends, owned, starts, free, keys = self.tables
        numbers = rng.draw_numbers_of_pairs(len(users), n, generator)
        free = free[users][:, None]  # (B, 1)
        numbers %= free.clamp_min(1)
        place = torch.searchsorted(keys, users[:, None] * total + numbers, right=True)  # (B, n)
        numbers += owned[place] - owned[starts[users]][:, None]
        items = torch.searchsorted(ends, numbers, right=True).clamp_max_(len(ends) - 1)
        return items, (free > 0).expand(-1, n)


class ReferenceMembership:
    """Membership of items in users' histories, for many at once.

    Looks for each pair among all pairs: far more to look at than a user's row, but all at once.
    """

    def __init__(self, own: OwnItems, device: torch.device) -> None:
        self._own = own
        self._device = device

    def mask(self, users: Tensor, items: Tensor) -> Tensor:
        """Return a mask (B, C): whether user b (B,) has item c (C,)."""
        wanted = users[:, None] * self._own.n_items + items  # (B, C)
        if not len(self._keys):
            return torch.zeros_like(wanted, dtype=torch.bool)
        place = torch.searchsorted(self._keys, wanted).clamp_max_(len(self._keys) - 1)
        return self._keys[place] == wanted

    @Lazy
    def _keys(self) -> Tensor:
        """(E,) ascending: a number for each pair."""
        starts, items = (torch.tensor(part, dtype=torch.int64, device=self._device) for part in self._own[:2])
        users = torch.arange(len(starts) - 1, device=self._device).repeat_interleave(starts.diff())  # (E,)
        return users * self._own.n_items + items


class ReferenceTwoStage:
    """Candidates for a batch, then negatives for each pair, by Gumbel noise over all candidates of all pairs."""

    def __init__(self, law: TwoStageLaw, own: OwnItems, device: torch.device) -> None:
        self.law = law
        self._draws = ReferenceLaw(law.stage_one)
        self._membership = ReferenceMembership(own, device)

    def candidates(self, generator: torch.Generator) -> Candidates:
        """Draw stage one."""
        law = self.law
        if law.replacement:
            return count_repeats(self._draws.any(law.n_candidates, generator))
        if law.by_noise:
            items, _ = rng.draw_without_replacement(law.log_law, law.n_candidates, generator)  # (C,)
            return Candidates(items, torch.ones_like(items, dtype=torch.float32))
        return first_distinct(self._draws.any(law.draws, generator), law.n_candidates)

    def draw(
        self, users: Tensor, positives: Tensor, directions: Directions, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Draw both stages: n distinct items (B, n) for each pair (B,), (B,), and whether there was one (B, n)."""
        candidates = self.candidates(generator)
        vectors = directions(torch.cat((positives, candidates.items)))  # (B + C, D)
        similarity = vectors[: len(positives)] @ vectors[len(positives) :].T  # (B, C)
        closed = self._membership.mask(users, candidates.items)  # (B, C)
        log_weights = weigh(similarity, closed, candidates.multiplicity, self.law.exponent, self.law.cap)  # (B, C)
        places, valid = rng.draw_without_replacement(log_weights, n, generator)  # (B, n)
        return candidates.items[places], valid


def weigh(similarity: Tensor, closed: Tensor, multiplicity: Tensor, exponent: float, cap: float) -> Tensor:
    """Return the log weights (B, C) of stage two, up to a constant for each row; -inf for what must not be drawn.

    `similarity` (B, C) are the dot products s, `closed` (B, C) the users' own items. Where no open candidate has
    s >= 0, all open ones count alike.
    """
    closed = closed | (multiplicity == 0)  # (B, C)
    far = closed | (similarity < 0)  # (B, C)
    log_weights = exponent * torch.log1p(-similarity.clamp(0.0, cap).square())  # (B, C)
    log_weights += multiplicity.clamp_min(1).log()
    none_near = far.all(1, keepdim=True)  # (B, 1)
    log_weights = torch.where(none_near, multiplicity.log(), log_weights)
    return log_weights.masked_fill(torch.where(none_near, closed, far), float("-inf"))


def first_distinct(items: Tensor, count: int) -> Candidates:
    """Return the first `count` distinct of items (n,), in the order of drawing."""
    ascending, order = items.sort(stable=True)  # (n,)
    is_first = torch.ones_like(items, dtype=torch.bool)
    is_first[order[1:]] = ascending[1:] != ascending[:-1]  # (n,) whether no earlier draw is the same
    place = torch.where(is_first, is_first.cumsum(0) - 1, count).clamp_max_(count)  # (n,) `count` is past the end
    distinct = torch.full((count + 1,), -1, device=items.device, dtype=items.dtype).index_copy_(0, place, items)[:count]
    return Candidates(distinct.clamp_min(0), (distinct >= 0).float())


def count_repeats(items: Tensor) -> Candidates:
    """Return the distinct among items (C,) with how often they come; the places of the repeats hold no candidate."""
    ascending, _ = items.sort()
    ends = torch.searchsorted(ascending, ascending, right=True)  # (C,)
    begins = torch.searchsorted(ascending, ascending)  # (C,)
    is_first = begins == torch.arange(len(items), device=items.device)
    return Candidates(ascending, torch.where(is_first, ends - begins, 0).float())
