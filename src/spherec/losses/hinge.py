"""The hinge of Collaborative Metric Learning (equation 1 of the paper).

    w_ij · [ d²(u_i, v_j) − min_k d²(u_i, v_k) + margin ]₊        k among the negatives N_ij

With w_ij = 1 it is the paper's; with the rank weight, that of Hsieh et al., Collaborative Metric Learning (WWW 2017).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from spherec.errors import check_number
from spherec.losses.loss import Loss, Triplets

_TEMPERATURE_AT_MARGIN_1 = 0.1  # of fold-in


@dataclass(frozen=True)
class Hinge(Loss):
    """The nearest negative must lie farther than the positive by a margin."""

    margin: float = 1.0
    "Margin in squared distance, which on the sphere is at most 4."
    rank_weight: bool = False
    "True gives more weight to pairs with many negatives inside the margin, as in the original CML."

    def __post_init__(self) -> None:
        check_number("margin", self.margin, 1e-6, 1e6, "1")

    def __call__(self, triplets: Triplets) -> Tensor:
        loss = hinge(triplets, self.margin)
        return loss * rank_weight(triplets, self.margin) if self.rank_weight else loss

    def active(self, triplets: Triplets) -> Tensor:
        """Tell which pairs (B,) have a negative inside the margin."""
        return triplets.positive - triplets.nearest() + self.margin > 0

    @property
    def distance_scale(self) -> float:
        """A tenth of the margin."""
        return _TEMPERATURE_AT_MARGIN_1 * self.margin


def hinge(triplets: Triplets, margin: float) -> Tensor:
    """Return the hinge of each pair (B,); 0 where a pair has no negative."""
    return (triplets.positive - triplets.nearest() + margin).clamp_min(0.0)


def rank_weight(triplets: Triplets, margin: float) -> Tensor:
    """Return the rank weight of each pair (B,), a constant to the gradient: a pair whose item ranks low counts more.

        w_ij = log(1 + I · M / N)        M of the N negatives lie inside the margin

    I · M / N estimates how many items of the whole catalogue are too near, which is the rank of the positive. Section
    3.2 of Hsieh et al. It is 0 where no negative lies inside the margin.
    """
    with torch.no_grad():
        inside = (triplets.positive[:, None] - triplets.negative + margin > 0) & triplets.valid  # (B, N)
        share = inside.sum(1) / triplets.valid.sum(1).clamp_min(1)  # (B,)
        return torch.log1p(triplets.n_items * share)
