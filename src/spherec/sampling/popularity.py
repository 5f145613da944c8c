"""Negatives drawn by popularity (equation 4 of the paper).

Pr(k | user i) ∝ f(k)^β        for each item k that i does not have; f(k) is the number of users who have k
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.errors import check_count, check_number
from spherec.sampling.draw import FixedLawSampler, popularity_weights
from spherec.sampling.sampler import Sampler, Sampling


@dataclass(frozen=True)
class Popularity(Sampling):
    """Popular items are drawn more often; items that nobody has are never drawn."""

    negatives: int = 1
    "N, negatives for each positive."
    beta: float = 0.8
    "β: above 0 favours popular items, 0 is uniform over the items that anybody has, below 0 favours rare ones."
    shared: bool = False
    """True lets a batch share its negatives: hundreds or thousands of them, for softmin. No more are drawn than there
    are items."""
    gives_log_q = True
    draws_alike = True

    def __post_init__(self) -> None:
        check_count("negatives", self.negatives)
        check_number("beta", self.beta, -100, 100, "0.5 to 0.8")

    def build(self, train: Interactions, device: torch.device, *, initial_items: Tensor) -> Sampler:  # noqa: ARG002
        return FixedLawSampler(train, self.law(train), self.negatives, device, shared=self.shared)

    def law(self, train: Interactions) -> NDArray[np.float64]:
        return popularity_weights(train, self.beta)
