"""Softmin: every negative pushes, the nearer the harder; γ is the dial of popularity.

    log(1 + Σ_k exp((s_ik − s_ij) / τ − γ · log(q_k · I)))        s = −d²/2, on the sphere the dot product less 1

q_k is the probability with which item k was drawn, I the number of items. γ = 1 undoes the bias of sampling: items that
are drawn often count less. With negatives drawn by popularity, a smaller γ leaves popular items pushed away.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError
from spherec.losses.loss import Loss, Triplets


@dataclass(frozen=True)
class Softmin(Loss):
    """A soft minimum over all negatives instead of the hinge on the nearest."""

    temperature: float = 0.1
    "τ; the smaller, the more the nearest negatives count."
    gamma: float = 1.0
    """Share of the sampling bias that is undone: 1 all of it, 0 nothing. It acts with the sampler Popularity; Uniform
    has no bias, and the others draw by a law that has no closed form, so their negatives count alike."""

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise ArgumentError(f"temperature must be > 0, got {self.temperature}")
        if not abs(self.gamma) < float("inf"):
            raise ArgumentError(f"gamma must be a number, got {self.gamma}")

    def __call__(self, triplets: Triplets) -> Tensor:
        """Return the loss of each pair (B,)."""
        return softmin(triplets, self.temperature, self.gamma)

    def active(self, triplets: Triplets) -> Tensor:
        """Tell which pairs (B,) have a negative nearer than the positive."""
        return triplets.nearest() < triplets.positive

    @property
    def default_epochs(self) -> int:
        """Fewer than for the hinge, because each pair pushes many negatives at once."""
        return 30

    @property
    def default_steps(self) -> int:
        """Fewer than for the hinge."""
        return 3_000

    @property
    def fold_in_temperature(self) -> float:
        """τ of training."""
        return self.temperature

    @property
    def bias_correction(self) -> float | None:
        """γ."""
        return self.gamma

    def search_space(self) -> dict[str, str]:
        """Return the temperature. γ is left out: it decides how popular lists are, which is a matter of taste."""
        return {"temperature": "0.03..1.0:log"}

    @property
    def not_searched(self) -> tuple[str, ...]:
        """β of the pool's law, which like γ decides how popular lists are."""
        return ("beta",)

    def advice(self, data: Interactions) -> list[str]:
        """Recommend a higher temperature for a small catalogue."""
        likely = likely_temperature(data.n_items)
        if self.temperature >= 0.8 * likely:
            return []
        return [
            f"with {data.n_items:,} items a higher temperature is likely better: "
            f"--set loss.temperature={likely:g}, or let spherec tune find one"
        ]


def likely_temperature(n_items: int) -> float:
    """Return a τ near the best for a catalogue of this size; smaller ones need a higher τ. See docs/beyond.md."""
    return round(0.09 * math.pow(max(1.0, 10_000 / max(n_items, 1)), 0.3), 2)


def softmin(triplets: Triplets, temperature: float, gamma: float) -> Tensor:
    """Return the softmin of each pair (B,); 0 where a pair has no negative."""
    exponent = (triplets.positive[:, None] - triplets.negative) / (2 * temperature)  # (B, N)
    if triplets.log_q is not None:
        exponent = exponent - gamma * (triplets.log_q + math.log(triplets.n_items))
    exponent = exponent.masked_fill(~triplets.valid, float("-inf"))
    zero = torch.zeros_like(triplets.positive)[:, None]  # (B, 1) the 1 in the logarithm
    return torch.cat((zero, exponent), dim=1).logsumexp(1)
