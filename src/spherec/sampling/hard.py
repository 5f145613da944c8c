"""Hard negatives: the nearest to the user among a few drawn uniformly (dynamic negative sampling).

    argmin_k d²(u_i, v_k)        over m items k drawn uniformly from those that i does not have

Zhang et al., Optimizing Top-N Collaborative Filtering via Dynamic Negative Item Sampling (SIGIR 2013).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.geometry import Geometry
from spherec.sampling.best_of_few import BestOfFew
from spherec.sampling.sampler import Negatives, Sampler, Sampling, check_count


@dataclass(frozen=True)
class Hard(Sampling):
    """Of a few random items, the one that lies nearest to the user."""

    negatives: int = 1
    "N, negatives for each positive."
    candidates: int = 10
    "m, items drawn for each negative."

    def __post_init__(self) -> None:
        check_count("negatives", self.negatives)
        check_count("candidates", self.candidates)

    def build(self, train: Interactions, device: torch.device, *, initial_items: Tensor) -> Sampler:  # noqa: ARG002
        """Return the sampler for `train` on `device`."""
        return HardSampler(train, self, device)

    def search_space(self) -> dict[str, str]:
        """Return the number of candidates."""
        return {"candidates": "2..50:log"}


class HardSampler:
    """Drawn per pair; each negative has candidates of its own, drawn with replacement, so an item may come twice.

    A user who has every item gets none, and her places are masked.
    """

    def __init__(self, train: Interactions, config: Hard, device: torch.device) -> None:
        self._best = BestOfFew(train, config.negatives, config.candidates, device)

    def probabilities(self, users: Tensor, geometry: Geometry) -> Tensor:
        """The law (B, I) of each negative for users (B,), where no two items lie equally near."""
        return self._best.probabilities(users, _distance, geometry)

    def sample(self, users: Tensor, positives: Tensor, geometry: Geometry, generator: torch.Generator) -> Negatives:  # noqa: ARG002
        """N negatives for each of users (B,); positives play no part."""
        return self._best.sample(users, _distance, geometry, generator)


def _distance(distance: Tensor) -> Tensor:
    return distance
