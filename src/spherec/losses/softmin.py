"""Softmin: every negative pushes, the nearer the harder; γ is the dial of popularity.

    log(1 + Σ_k exp((s_ik − s_ij) / τ − γ · log(q_k · I)))        s = −d²/2, on the sphere the dot product less 1

q_k is the probability with which item k was drawn, I the number of items. γ = 1 undoes the bias of sampling: items that
are drawn often count less. With negatives drawn by popularity, a smaller γ leaves popular items pushed away.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from spherec.errors import ArgumentError
from spherec.losses.triplets import Triplets


@dataclass(frozen=True)
class Softmin:
    """A soft minimum over all negatives instead of the hinge on the nearest."""

    temperature: float = 0.1
    "τ; the smaller, the more the nearest negatives count."
    gamma: float = 1.0
    """How far the bias of sampling is undone: 1 fully, 0 not at all. It acts with the sampler Popularity; Uniform has
    no bias, and the others draw by a law that has no closed form, so their negatives count alike."""

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise ArgumentError(f"temperature must be > 0, got {self.temperature}")
        if not abs(self.gamma) < float("inf"):
            raise ArgumentError(f"gamma must be a number, got {self.gamma}")

    def __call__(self, triplets: Triplets) -> Tensor:
        """The loss of each pair (B,)."""
        return softmin(triplets, self.temperature, self.gamma)

    def active(self, triplets: Triplets) -> Tensor:
        """Which pairs (B,) have a negative nearer than the positive."""
        return triplets.nearest() < triplets.positive


def likely_temperature(n_items: int) -> float:
    """A τ that is near the best for so many items; the fewer, the higher. Measured in docs/beyond.md."""
    return round(0.09 * math.pow(max(1.0, 10_000 / max(n_items, 1)), 0.3), 2)


def softmin(triplets: Triplets, temperature: float, gamma: float) -> Tensor:
    """The softmin of each pair (B,); 0 where a pair has no negative."""
    exponent = (triplets.positive[:, None] - triplets.negative) / (2 * temperature)  # (B, N)
    if triplets.log_q is not None:
        exponent = exponent - gamma * (triplets.log_q + math.log(triplets.n_items))
    exponent = exponent.masked_fill(~triplets.valid, float("-inf"))
    zero = torch.zeros_like(triplets.positive)[:, None]  # (B, 1) the 1 in the logarithm
    return torch.cat((zero, exponent), dim=1).logsumexp(1)
