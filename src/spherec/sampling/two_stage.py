"""Two-stage sampling (section 3.2 of the paper): popular candidates for a batch, then those that lie near the positive.

Stage one draws C candidates a batch by popularity^β. Stage two draws, for each pair, N of them with

    Pr(n | v_j) ∝ 1 / p(s)^κ ∝ (1 − s²)^(−κ(D−3)/2)    for 0 ≤ s ≤ 1, else 0        s = v_j · v_n

where p is the density of the dot product of two independent directions in D dimensions; its constant,
1/Beta((D−1)/2, ½), cancels. κ is ours: the paper has κ = 1, under which the nearest candidate nearly always wins.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError
from spherec.geometry import Geometry, gather, unit
from spherec.kernels import cuda
from spherec.kernels import two_stage as kernels
from spherec.sampling.candidates import Candidates, CandidateSource
from spherec.sampling.gumbel import distinct
from spherec.sampling.membership import Membership
from spherec.sampling.popularity import check_beta, popularity_weights
from spherec.sampling.rejection import Rejection
from spherec.sampling.sampler import Negatives, Sampler, Sampling, check_count

_MOST_AT_ONCE = 16384  # candidates that one program of a GPU can look at
_WIDEST = 80.0  # between the logarithms of two weights; exp(-87) is about the smallest float32
_TUNED_BETA = {1: 0.8, 2: 0.7, 5: 0.525}  # the more negatives, the harder popular items are pushed away already


@dataclass(frozen=True)
class TwoStage(Sampling):
    """Popular candidates first, then the informative among them."""

    negatives: int = 5
    "N, negatives for each positive; no item twice."
    beta: float = 0.525
    "β of stage one: above 0 favours popular items, below 0 rare ones. The more negatives, the smaller it should be."
    sharpness: float = 0.02
    "κ of stage two: 0 draws uniformly among the candidates with s >= 0, 1 is the paper's text."
    candidates: int = 2000
    "C, items drawn in stage one, for a whole batch."
    replacement: bool = False
    "Whether stage one may draw an item more than once; drawn m times, it counts m times in stage two."
    vectors: Literal["live", "frozen"] = "live"
    "The item vectors of stage two: as they are at this step, or as they were before the first."
    cap: float = 0.875
    "Larger s counts as this; beyond it the weights would leave nothing to the others."

    def __post_init__(self) -> None:
        check_count("negatives", self.negatives)
        check_count("candidates", self.candidates)
        check_beta(self.beta)
        if self.negatives > self.candidates:
            raise ArgumentError(
                f"negatives must be at most candidates, got {self.negatives} of {self.candidates}; draw more candidates"
            )
        if not 0 <= self.sharpness < float("inf"):
            raise ArgumentError(f"sharpness must be >= 0, got {self.sharpness}")
        if not 0 < self.cap < 1:
            raise ArgumentError(f"cap must lie between 0 and 1, got {self.cap}")
        if self.vectors not in ("live", "frozen"):
            raise ArgumentError(f"vectors must be 'live' or 'frozen', got {self.vectors!r}")

    def build(self, train: Interactions, device: torch.device, *, initial_items: Tensor) -> Sampler:
        """Return the sampler for `train` on `device`; frozen vectors are `initial_items` (I, D)."""
        return TwoStageSampler(train, self, device, initial_items=initial_items)

    def law(self, train: Interactions) -> NDArray[np.float64]:
        """Return the weights (I,) of stage one."""
        return popularity_weights(train, self.beta)

    def search_space(self) -> dict[str, str]:
        """Return β, and κ where it sees live vectors."""
        return {"beta": "0.0..1.0"} | ({"sharpness": "0.005..0.1:log"} if self.vectors == "live" else {})

    def advice(self, data: Interactions) -> list[str]:
        """Say that β has no effect where stage one takes all items that somebody has."""
        drawable = int(np.count_nonzero(data.users_per_item))
        if drawable > self.candidates or self.replacement:
            return []
        return [
            f"all {drawable:,} items are candidates in every batch, so the sampler's beta has no effect; "
            f"--set sampler.candidates={-(-drawable // 4)} gives it one; --preset accurate is likely better on so few"
        ]

    @classmethod
    def tuned(cls, negatives: int = 5) -> "TwoStage":
        """The default: live vectors, a gentle sharpness, and the β that goes with this number of negatives."""
        nearest = min(_TUNED_BETA, key=lambda known: abs(known - negatives))
        return cls(negatives=negatives, beta=_TUNED_BETA[nearest])

    @classmethod
    def as_written(cls, negatives: int = 1, beta: float = 0.8) -> "TwoStage":
        """What the paper's text says: live vectors, κ = 1. Training collapses; it is here to be studied."""
        return cls(negatives=negatives, beta=beta, sharpness=1.0)

    @classmethod
    def as_released(cls, negatives: int = 1, beta: float = 0.8) -> "TwoStage":
        """What the paper's public code does: κ = 1 on the initial vectors for ever."""
        return cls(negatives=negatives, beta=beta, sharpness=1.0, vectors="frozen")


class TwoStageSampler:
    """Candidates are drawn per batch, negatives per pair and without replacement.

    A user's own items, the positive among them, are never chosen. Where no candidate has s >= 0, the pair's negatives
    are drawn uniformly from the candidates. Where fewer than N can be chosen, the places left over are masked.
    """

    def __init__(
        self, train: Interactions, config: TwoStage, device: torch.device, *, initial_items: Tensor | None = None
    ) -> None:
        if config.vectors == "frozen" and initial_items is None:
            raise ArgumentError("vectors is 'frozen', but no initial item vectors were given; give initial_items")
        self.config = config
        self._frozen = None if initial_items is None or config.vectors == "live" else unit(initial_items)  # (I, D)
        self._source = CandidateSource(
            train,
            popularity_weights(train, config.beta),
            config.candidates,
            device,
            replacement=config.replacement,
        )
        self._membership = Membership(train, device)
        self._rejection = cache(lambda dim: Rejection(train, self._exponent(dim), config.cap))
        is_usual = self._source.is_first_distinct and config.candidates <= _MOST_AT_ONCE
        self._triton = cuda.kernels("two_stage", device) if is_usual else None
        if self._triton:
            self._rows = tuple(torch.tensor(one, device=device) for one in (train.indptr, train.indices))
            self._column = torch.full((train.n_items,), self._triton.NOWHERE, dtype=torch.int32, device=device)

    def candidate_probabilities(self) -> Tensor:
        """The law of stage one (I,)."""
        return self._source.probabilities()

    def candidates(self, generator: torch.Generator) -> Candidates:
        """Stage one."""
        return self._source.draw(generator)

    def probabilities(self, users: Tensor, positives: Tensor, candidates: Candidates, geometry: Geometry) -> Tensor:
        """The law of stage two (B, C): of the first negative that is drawn for each pair."""
        return self._log_weights(users, positives, candidates, geometry).softmax(1).nan_to_num(0.0)

    def sample(self, users: Tensor, positives: Tensor, geometry: Geometry, generator: torch.Generator) -> Negatives:
        """N negatives for each of users (B,) with their positives (B,)."""
        missing = (0, max(self.config.negatives - self._source.count, 0))  # a small catalogue has fewer than N
        if self._triton:
            chosen, valid = self._draw_fused(users, positives, geometry, generator)  # (B, n)
            return Negatives(pad(chosen, missing), pad(valid, missing))
        candidates = self.candidates(generator)
        n = min(self.config.negatives, len(candidates.items))
        if users.device.type == "cpu" and self._is_mild(geometry.items(positives[:1]).shape[1]):
            chosen, valid = self._draw_compiled(users, positives, candidates, geometry, n, generator)  # (B, n)
        else:
            chosen, valid = distinct(self._log_weights(users, positives, candidates, geometry), n, generator)  # (B, n)
        return Negatives(pad(candidates.items[chosen], missing), pad(valid, missing))

    def _draw_fused(
        self, users: Tensor, positives: Tensor, geometry: Geometry, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Both stages on a GPU in a few kernels: n items (B, n), and whether they count."""
        fused, source = cast("Any", self._triton), self._source
        numbers = source.law.numbers((source.draws + 1,), generator)  # the last is a seed
        candidates = fused.first_distinct(numbers[:-1], source.law.ends, source.law.total, source.count, self._column)
        directions = self._directions(torch.cat((positives, candidates[0])), geometry)  # (B + C, D)
        ones, others = directions[: len(positives)], directions[len(positives) :]
        drawn: tuple[Tensor, Tensor] = fused.draw_distinct(
            ones @ others.T,
            candidates,
            users,
            self._rows,
            self._column,
            numbers[-1:],
            exponent=self._exponent(ones.shape[1]),
            cap=self.config.cap,
            n=min(self.config.negatives, source.count),
        )
        return drawn

    def _is_mild(self, dim: int) -> bool:
        """Whether float32 can hold the largest weight beside the smallest."""
        return self.config.sharpness * abs(dim - 3) / 2 * -math.log1p(-(self.config.cap**2)) < _WIDEST

    def _draw_compiled(
        self,
        users: Tensor,
        positives: Tensor,
        candidates: Candidates,
        geometry: Geometry,
        n: int,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor]:
        """Stage two on a CPU: n places among the candidates, and whether they count."""
        ones, others = (self._directions(one, geometry) for one in (positives, candidates.items))  # (B, D), (C, D)
        rejection = self._rejection(ones.shape[1])
        if not rejection.pays(candidates, n):
            return self._draw_from_all(users, ones, candidates, others, users[:, None][:, :0], n, generator)
        places, found = rejection.draw(users, ones, candidates, others, n, generator)
        valid = torch.ones(len(users), n, dtype=torch.bool)
        for had in sorted(set(found.tolist()) - {n}):
            left = found == had  # few, if any
            rest = users[left], ones[left], candidates, others, places[left, :had]
            places[left, had:], valid[left, had:] = self._draw_from_all(*rest, n - had, generator)
        return places, valid

    def _draw_from_all(
        self,
        users: Tensor,
        ones: Tensor,
        candidates: Candidates,
        others: Tensor,
        had: Tensor,
        n: int,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor]:
        """The same with few passes over (B, C), beside places (B, h) that were drawn before."""
        weights, exponent = ones @ others.T, self._exponent(ones.shape[1])  # (B, C)
        closed = self._membership.mask(users, candidates.items)  # (B, C)
        heaviest = torch.empty(len(users))  # (B,)
        multiplicity = candidates.multiplicity
        arrays = weights.numpy(), multiplicity.numpy(), closed.numpy()
        kernels.prepare(*arrays, exponent, self.config.cap, heaviest.numpy())
        closed.scatter_(1, had, value=True)
        weights.log1p_().sub_(heaviest.log1p_()[:, None]).mul_(exponent).exp_()  # at most 1
        if self.config.replacement:
            weights *= multiplicity
        uniform = torch.empty(len(users), n).uniform_(generator=generator)  # (B, n)
        places, valid = torch.empty(len(users), n, dtype=torch.int64), torch.empty(len(users), n, dtype=torch.bool)
        kernels.draw_distinct(weights.numpy(), closed.numpy(), uniform.numpy(), places.numpy(), valid.numpy())
        return places, valid

    def _log_weights(self, users: Tensor, positives: Tensor, candidates: Candidates, geometry: Geometry) -> Tensor:
        """(B, C) of stage two, up to a constant for each row; -inf for what must not be chosen."""
        similarity, exponent = self._similarity(positives, candidates, geometry)  # (B, C)
        closed = self._membership.mask(users, candidates.items) | (candidates.multiplicity == 0)  # (B, C)
        far = closed | (similarity < 0)  # (B, C)
        log_weights = exponent * torch.log1p(-similarity.clamp(0.0, self.config.cap).square())  # (B, C)
        log_weights += candidates.multiplicity.clamp_min(1).log()
        none_near = far.all(1, keepdim=True)  # (B, 1)
        log_weights = torch.where(none_near, candidates.multiplicity.log(), log_weights)
        return log_weights.masked_fill(torch.where(none_near, closed, far), float("-inf"))

    def _similarity(self, positives: Tensor, candidates: Candidates, geometry: Geometry) -> tuple[Tensor, float]:
        """Dot products s (B, C), and the exponent of 1 − s² in this space."""
        ones, others = (self._directions(one, geometry) for one in (positives, candidates.items))  # (B, D), (C, D)
        return ones @ others.T, self._exponent(ones.shape[1])

    def _directions(self, index: Tensor, geometry: Geometry) -> Tensor:
        """Of items at indices (…), vectors of length 1 (…, D)."""
        if self._frozen is not None:
            return gather(self._frozen, index)
        vectors = geometry.items(index)
        return vectors if geometry.constraint == "sphere" else unit(vectors)

    def _exponent(self, dim: int) -> float:
        return -self.config.sharpness * (dim - 3) / 2
