"""Semi-hard negatives: the nearest that violates the margin without lying nearer than the positive.

    argmin_k d²(u_i, v_k)    with d²(u_i, v_j) < d²(u_i, v_k) < d²(u_i, v_j) + margin

over m items k drawn uniformly from those that i does not have; where there is none, the nearest of all m.
Schroff et al., FaceNet (CVPR 2015).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.errors import check_count, check_number
from spherec.geometry import Geometry, squared_distance
from spherec.sampling.hard import HardSampler
from spherec.sampling.sampler import Sampler, Sampling

_LAST = 8.0  # more than any squared distance in the unit ball


@dataclass(frozen=True)
class SemiHard(Sampling):
    """Nearest item farther than the positive, but not by the margin, among a few random items."""

    negatives: int = 1
    "N, negatives for each positive."
    candidates: int = 10
    "m, items drawn for each negative."
    margin: float = 1.0
    "Margin of the loss, in squared distance."
    draws_alike = True

    def __post_init__(self) -> None:
        check_count("negatives", self.negatives)
        check_count("candidates", self.candidates)
        check_number("margin", self.margin, 1e-6, 1e6, "1")

    def build(self, train: Interactions, device: torch.device, *, initial_items: Tensor) -> Sampler:  # noqa: ARG002
        return SemiHardSampler(train, self, device)


class SemiHardSampler(HardSampler):
    """The best is the nearest of those that are semi-hard."""

    def __init__(self, train: Interactions, config: SemiHard, device: torch.device) -> None:
        super().__init__(train, config.negatives, config.candidates, device)
        self._margin = config.margin

    def penalize(self, distance: Tensor, users: Tensor, positives: Tensor, geometry: Geometry) -> Tensor:
        """Return the distances (B, n), plus more than any distance for items that are not semi-hard."""
        positive = squared_distance(geometry.users(users), geometry.items(positives[:, None]))  # (B, 1)
        is_semi_hard = (distance > positive) & (distance < positive + self._margin)
        return distance + _LAST * ~is_semi_hard
