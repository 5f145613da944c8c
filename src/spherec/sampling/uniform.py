"""Negatives drawn uniformly: the sampler of the original CML.

Pr(k | user i) = 1 / (I − |items of i|)        for each item k that i does not have
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spherec.data.interactions import Interactions
from spherec.sampling.negatives import check_count


@dataclass(frozen=True)
class Uniform:
    """Every item that the user does not have is as likely as any other."""

    negatives: int = 1
    "N, negatives for each positive."
    shared: bool = False
    """Whether a batch shares its negatives: with hundreds or thousands of them, for softmin. No more are drawn than
    there are items."""

    def __post_init__(self) -> None:
        check_count("negatives", self.negatives)

    def weights(self, train: Interactions) -> NDArray[np.float64]:
        """(I,) all 1."""
        return np.ones(train.n_items)
