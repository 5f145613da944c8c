"""Negatives drawn uniformly: the sampler of the original CML.

Pr(k | user i) = 1 / (I − |items of i|)        for each item k that i does not have
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.errors import check_count
from spherec.sampling.draw import FixedLawSampler
from spherec.sampling.sampler import Sampler, Sampling


@dataclass(frozen=True)
class Uniform(Sampling):
    """Every item that the user does not have is as likely as any other."""

    negatives: int = 1
    "N, negatives for each positive."
    shared: bool = False
    """True lets a batch share its negatives: hundreds or thousands of them, for softmin. No more are drawn than there
    are items."""
    gives_log_q = True
    draws_alike = True

    def __post_init__(self) -> None:
        check_count("negatives", self.negatives)

    def build(self, train: Interactions, device: torch.device, *, initial_items: Tensor) -> Sampler:  # noqa: ARG002
        return FixedLawSampler(train, self.law(train), self.negatives, device, shared=self.shared)
