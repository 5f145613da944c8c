"""Stage one of two-stage sampling: a set of candidates for a batch, drawn by weight.

Drawing one after the other without replacement is the same as drawing with replacement and passing over what came
before. So the first C distinct of a few more draws are such a set, at a cost that does not grow with the catalogue.
Where that would take many draws (a small catalogue, or a law that a few items own), noise over all items gives it.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.kernels.draw import first_distinct
from spherec.sampling.draw import Draw
from spherec.sampling.gumbel import distinct

_MOST_DRAWS = 8  # for each candidate; beyond it, noise over all items is the cheaper way
_SIGMAS = 6.0  # how surely the draws are enough


@dataclass(frozen=True)
class Candidates:
    """Distinct items, and how often each was drawn."""

    items: Tensor
    "(C,) item indices."
    multiplicity: Tensor
    "(C,) float32: how often each was drawn; 0 where there is no candidate in this place."


class CandidateSource:
    """Draws C candidates from the law of `weights` (I,)."""

    def __init__(
        self, train: Interactions, weights: NDArray[np.float64], count: int, device: torch.device, *, replacement: bool
    ) -> None:
        self.law = Draw(train, weights, device)
        self._replacement = replacement
        law = weights / weights.sum()  # (I,)
        drawable = int((law > 0).sum())
        self.count = count if replacement else min(count, drawable)
        self.draws = count if replacement else _draws_for(law, self.count)
        self._by_noise = not replacement and self.draws > _MOST_DRAWS * self.count
        self.is_first_distinct = not (replacement or self._by_noise)
        self._seen = np.zeros(train.n_items if device.type == "cpu" else 0, np.bool_)  # scratch
        self._log_law = torch.tensor(np.log(law, where=law > 0, out=np.full_like(law, -np.inf)), device=device).float()

    def probabilities(self) -> Tensor:
        """The law (I,) of the first draw."""
        return self.law.probabilities()

    def draw(self, generator: torch.Generator) -> Candidates:
        """A new set."""
        if self._replacement:
            return _counted(self.law.any(self.count, generator))
        if self._by_noise:
            items, _ = distinct(self._log_law, self.count, generator)  # (C,)
            return Candidates(items, torch.ones_like(items, dtype=torch.float32))
        drawn = self.law.any(self.draws, generator)
        return _first_distinct(drawn, self.count) if len(self._seen) == 0 else self._first_distinct(drawn)

    def _first_distinct(self, items: Tensor) -> Candidates:
        """The same in one pass, on a CPU."""
        found, multiplicity = torch.zeros(self.count, dtype=torch.int64), torch.zeros(self.count)
        first_distinct(items.numpy(), self._seen, found.numpy(), multiplicity.numpy())
        return Candidates(found, multiplicity)


def _draws_for(law: NDArray[np.float64], count: int) -> int:
    """How many draws from the law (I,) hold `count` distinct items for sure, or nearly so; too many where none do."""
    draws = count
    while draws <= _MOST_DRAWS * count:
        seen = -np.expm1(draws * np.log1p(-np.minimum(law, 1 - 1e-16)))  # (I,) the chance that an item is among them
        if seen.sum() - _SIGMAS * np.sqrt((seen * (1 - seen)).sum()) >= count:
            break
        draws += max(count // 8, 1)
    return draws


def _first_distinct(items: Tensor, count: int) -> Candidates:
    """The first `count` distinct of items (n,), in the order of drawing."""
    ascending, order = items.sort(stable=True)  # (n,)
    is_first = torch.ones_like(items, dtype=torch.bool)
    is_first[order[1:]] = ascending[1:] != ascending[:-1]  # (n,) whether no earlier draw is the same
    place = torch.where(is_first, is_first.cumsum(0) - 1, count).clamp_max_(count)  # (n,) `count` is past the end
    found = torch.full((count + 1,), -1, device=items.device, dtype=items.dtype).index_copy_(0, place, items)[:count]
    return Candidates(found.clamp_min(0), (found >= 0).float())


def _counted(items: Tensor) -> Candidates:
    """The distinct among items (C,) with how often they come; in the places of the repeats, nothing."""
    ascending, _ = items.sort()
    ends = torch.searchsorted(ascending, ascending, right=True)  # (C,)
    begins = torch.searchsorted(ascending, ascending)  # (C,)
    is_first = begins == torch.arange(len(items), device=items.device)
    return Candidates(ascending, torch.where(is_first, ends - begins, 0).float())
