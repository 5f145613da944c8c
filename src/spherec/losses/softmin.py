"""Softmin: every negative pushes, the nearer the harder; γ is the dial of popularity.

    log(1 + Σ_k exp((s_ik − s_ij) / τ − γ · log(q_k · I)))        s = −d²/2, on the sphere the dot product less 1

q_k is the probability with which item k was drawn, I the number of items. γ = 1 undoes the bias of sampling: items that
are drawn often count less. With negatives drawn by popularity, a smaller γ leaves popular items pushed away.

By default τ comes from the data: 1/τ = (log(U · I / E) − log 2) / 0.65, with E pairs, and τ is at most 1. Chen et al.,
Adap-τ (WWW 2023), have the mean score of positives less that of all pairs where 0.65 stands; at the end of our runs it
was 0.45 to 0.77. In a space of D < 512 dimensions, τ is (512 / D)^0.2 times as high and the default number of epochs
(512 / D)^½ times: few dimensions cannot tell all items apart, and learn longer to tell most of them. D below 64 counts
as 64.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.errors import check_number
from spherec.losses.loss import Loss, Triplets

_GAP = 0.65  # mean score of positives less that of all pairs, at the end of a run
_WITHOUT_DATA = 0.1  # temperature
_HIGHEST = 1.0  # temperature, from a density of a quarter of all pairs on
_NARROW, _ROOMY = 64, 512  # dimensions between which τ and the epochs depend on their number


@dataclass(frozen=True)
class Softmin(Loss):
    """A soft minimum over all negatives instead of the hinge on the nearest."""

    temperature: float | None = None
    "τ; the smaller, the more the nearest negatives count. By default it comes from the data."
    gamma: float = 1.0
    """Share of the sampling bias that is undone: 1 all of it, 0 nothing. It acts with the sampler Popularity; Uniform
    has no bias, and the others draw by a law that has no closed form, so their negatives count alike."""
    default_epochs = 30  # fewer than for the hinge, because each pair pushes many negatives at once
    default_steps = 3_000

    def __post_init__(self) -> None:
        if self.temperature is not None:
            check_number("temperature", self.temperature, 1e-6, 1e6, "0.1")
        check_number("gamma", self.gamma, -100, 100, "0 to 1")

    def __call__(self, triplets: Triplets) -> Tensor:
        return softmin(triplets, self.distance_scale, self.gamma)

    def active(self, triplets: Triplets) -> Tensor:
        """Tell which pairs (B,) have a negative nearer than the positive."""
        return triplets.nearest() < triplets.positive

    def resolve(self, data: Interactions, dim: int) -> "Softmin":
        return self if self.temperature is not None else replace(self, temperature=temperature_for(data, dim))

    def lengthen(self, dim: int) -> float:
        return math.sqrt(_lack_of_room(dim))

    @property
    def distance_scale(self) -> float:
        """τ of training; 0.1 before there is data to take it from."""
        return _WITHOUT_DATA if self.temperature is None else self.temperature

    @property
    def bias_correction(self) -> float:  # type: ignore[override]
        return self.gamma


def temperature_for(data: Interactions, dim: int = _ROOMY) -> float:
    """Return τ for this data in D dimensions: the denser it is and the fewer they are, the higher."""
    items = np.count_nonzero(data.users_per_item)
    depth = math.log(max(data.active_users * items / max(data.n_pairs, 1), 1.0)) - math.log(2)
    return round(min(_GAP / depth * _lack_of_room(dim) ** 0.2, _HIGHEST) if depth > 0 else _HIGHEST, 3)


def _lack_of_room(dim: int) -> float:
    return _ROOMY / min(max(dim, _NARROW), _ROOMY)


def softmin(triplets: Triplets, temperature: float, gamma: float) -> Tensor:
    """Return the softmin of each pair (B,); 0 where a pair has no negative."""
    exponent = (triplets.positive[:, None] - triplets.negative) / (2 * temperature)  # (B, N)
    if triplets.log_q is not None:
        exponent = exponent - gamma * (triplets.log_q + math.log(triplets.n_items))
    exponent = exponent.masked_fill(~triplets.valid, float("-inf"))
    zero = torch.zeros_like(triplets.positive)[:, None]  # (B, 1) the 1 in the logarithm
    return torch.cat((zero, exponent), dim=1).logsumexp(1)
