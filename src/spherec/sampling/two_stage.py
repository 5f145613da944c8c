"""Two-stage sampling (section 3.2 of the paper): popular candidates for a batch, then those that lie near the positive.

Stage one draws C candidates a batch by popularity^β. Stage two draws, for each pair, N of them with

    Pr(n | v_j) ∝ 1 / p(s)^κ ∝ (1 − s²)^(−κ(D−3)/2)    for 0 ≤ s ≤ 1, else 0        s = v_j · v_n

where p is the density of the dot product of two independent directions in D dimensions; its constant,
1/Beta((D−1)/2, ½), cancels. κ is ours: the paper has κ = 1, under which the nearest candidate nearly always wins.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, check_choice, check_count, check_number
from spherec.geometry import Geometry, gather, unit
from spherec.kernels import backend
from spherec.kernels.protocol import Candidates, TwoStageLaw
from spherec.kernels.reference.negatives import weigh
from spherec.sampling.draw import items_of_users, make_law_tables, popularity_weights
from spherec.sampling.sampler import Negatives, Sampler, Sampling

_MOST_DRAWS = 8  # for each candidate; beyond it, noise over all items is cheaper
_SIGMAS = 6.0  # margin, in standard deviations, by which the draws are enough
_TUNED_BETA = {1: 0.8, 2: 0.7, 5: 0.525}  # the more negatives, the harder popular items are pushed away already


@dataclass(frozen=True)
class TwoStage(Sampling):
    """Two-stage sampling: draw popular candidates, then those of them that are near the positive."""

    negatives: int = 5
    "N, negatives for each positive; no item twice."
    beta: float = 0.525
    "β of stage one: above 0 favours popular items, below 0 rare ones. The more negatives, the smaller it should be."
    sharpness: float = 0.02
    "κ of stage two: 0 draws uniformly among the candidates with s >= 0, 1 is the paper's text."
    candidates: int = 2000
    "C, items drawn in stage one, for a whole batch."
    replacement: bool = False
    "True lets stage one draw an item more than once; drawn m times, it counts m times in stage two."
    vectors: Literal["live", "frozen"] = "live"
    "The item vectors of stage two: as they are at this step, or as they were before the first."
    cap: float = 0.875
    "Larger s counts as this; beyond it the weights would leave nothing to the others."
    draws_alike = True

    def __post_init__(self) -> None:
        check_count("negatives", self.negatives)
        check_count("candidates", self.candidates)
        check_number("beta", self.beta, -100, 100, "0.5 to 0.8")
        if self.negatives > self.candidates:
            raise ArgumentError(
                f"negatives must be at most candidates, got {self.negatives} of {self.candidates}; draw more candidates"
            )
        check_number("sharpness", self.sharpness, 0, 1000, "0.02")
        check_number("cap", self.cap, 0.001, 0.999999, "0.875")
        check_choice("vectors", self.vectors, ("live", "frozen"))

    def build(self, train: Interactions, device: torch.device, *, initial_items: Tensor) -> Sampler:
        return TwoStageSampler(train, self, device, initial_items=initial_items)

    def law(self, train: Interactions) -> NDArray[np.float64]:
        return popularity_weights(train, self.beta)

    @classmethod
    def tuned(cls, negatives: int = 5) -> "TwoStage":
        """Return the default: live vectors, a gentle sharpness, and the β that goes with this number of negatives."""
        nearest = min(_TUNED_BETA, key=lambda known: abs(known - negatives))
        return cls(negatives=negatives, beta=_TUNED_BETA[nearest])

    @classmethod
    def as_written(cls, negatives: int = 1, beta: float = 0.8) -> "TwoStage":
        """Return the sampler of the paper's text: live vectors, κ = 1. Training collapses; it is here to be studied."""
        return cls(negatives=negatives, beta=beta, sharpness=1.0)

    @classmethod
    def as_released(cls, negatives: int = 1, beta: float = 0.8) -> "TwoStage":
        """Return the sampler of the paper's public code: κ = 1, always on the initial vectors."""
        return cls(negatives=negatives, beta=beta, sharpness=1.0, vectors="frozen")


class TwoStageSampler:
    """Candidates are drawn per batch, negatives per pair and without replacement.

    A user's own items, the positive among them, are never drawn. Where no candidate has s >= 0, the pair's negatives
    are drawn uniformly from the candidates. Where fewer than N can be drawn, the places left over are masked.
    `initial_items` (I, D) are the item vectors before the first step, at which frozen ones stay.
    """

    def __init__(self, train: Interactions, config: TwoStage, device: torch.device, *, initial_items: Tensor) -> None:
        self.config = config
        self._frozen = unit(initial_items) if config.vectors == "frozen" else None  # (I, D)
        kernels, own = backend(device), items_of_users(train)
        self._law = _make_law(train, config, initial_items.shape[1], device)
        self._membership = kernels.membership(own, device)
        self._draws = kernels.two_stage(self._law, own, device)
        self._n = min(config.negatives, self._law.n_candidates)  # a small catalogue has fewer than N

    def candidates(self, generator: torch.Generator) -> Candidates:
        return self._draws.candidates(generator)

    def probabilities(self, users: Tensor, positives: Tensor, candidates: Candidates, geometry: Geometry) -> Tensor:
        """Return the law of stage two (B, C): of the first negative that is drawn for each pair."""
        near, others = (self._directions(index, geometry) for index in (positives, candidates.items))  # (B, D), (C, D)
        closed = self._membership.mask(users, candidates.items)  # (B, C)
        log_weights = weigh(near @ others.T, closed, candidates.multiplicity, self._law.exponent, self.config.cap)
        return log_weights.softmax(1).nan_to_num(0.0)

    def sample(self, users: Tensor, positives: Tensor, geometry: Geometry, generator: torch.Generator) -> Negatives:
        directions = partial(self._directions, geometry=geometry)
        items, valid = self._draws.draw(users, positives, directions, self._n, generator)  # (B, n)
        missing = self.config.negatives - self._n
        if missing:
            items, valid = (pad(found, (0, missing)) for found in (items, valid))
        return Negatives(items, valid)

    def _directions(self, index: Tensor, geometry: Geometry) -> Tensor:
        """Return vectors of length 1 (m, D) of items at indices (m,)."""
        if self._frozen is not None:
            return gather(self._frozen, index)
        vectors = geometry.items(index)
        return vectors if geometry.constraint == "sphere" else unit(vectors)


def _make_law(train: Interactions, config: TwoStage, dim: int, device: torch.device) -> TwoStageLaw:
    """Return the laws of both stages, and how stage one is drawn.

    Drawing items one after the other without replacement is the same as drawing with replacement and skipping repeats.
    So the first C distinct of a few more draws are such a set, at a cost that does not grow with the catalogue. Where
    that would take many draws (a small catalogue, or a law that a few items own), they are drawn by adding noise to the
    weights of all items.
    """
    weights = popularity_weights(train, config.beta)  # (I,)
    stage_one = make_law_tables(train, weights, device)
    law = weights / weights.sum()  # (I,)
    count, draws = config.candidates, config.candidates
    if not config.replacement:
        count = min(count, int((law > 0).sum()))
        draws = _draws_for(law, count)
    log_law = np.log(law, where=law > 0, out=np.full_like(law, -np.inf))  # (I,)
    return TwoStageLaw(
        stage_one=stage_one,
        log_law=torch.tensor(log_law, device=device).float(),
        n_candidates=count,
        draws=draws,
        replacement=config.replacement,
        by_noise=not config.replacement and draws > _MOST_DRAWS * count,
        exponent=-config.sharpness * (dim - 3) / 2,
        cap=config.cap,
    )


def _draws_for(law: NDArray[np.float64], count: int) -> int:
    """Return how many draws from the law (I,) nearly surely hold `count` distinct items; too many where none do."""
    draws = count
    while draws <= _MOST_DRAWS * count:
        seen = -np.expm1(draws * np.log1p(-np.minimum(law, 1 - 1e-16)))  # (I,) the chance that an item is among them
        if seen.sum() - _SIGMAS * np.sqrt((seen * (1 - seen)).sum()) >= count:
            break
        draws += max(count // 8, 1)
    return draws
