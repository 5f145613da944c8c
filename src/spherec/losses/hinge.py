"""The hinge of Collaborative Metric Learning (equation 1 of the paper).

    w_ij · [ d²(u_i, v_j) − min_k d²(u_i, v_k) + margin ]₊        k among the negatives N_ij

With w_ij = 1 it is the paper's; with the rank weight, that of Hsieh et al., Collaborative Metric Learning (WWW 2017).
"""

from dataclasses import dataclass

from torch import Tensor

from spherec.errors import ArgumentError
from spherec.losses.rank_weight import rank_weight
from spherec.losses.triplets import Triplets


@dataclass(frozen=True)
class Hinge:
    """The nearest negative must lie farther than the positive by a margin."""

    margin: float = 1.0
    "In squared distance, which on the sphere is at most 4."
    rank_weight: bool = False
    "Whether pairs with many negatives inside the margin count more, as in the original CML."

    def __post_init__(self) -> None:
        if not 0 < self.margin < float("inf"):
            raise ArgumentError(f"margin must be > 0, got {self.margin}")

    def __call__(self, triplets: Triplets) -> Tensor:
        """The loss of each pair (B,)."""
        loss = hinge(triplets, self.margin)
        return loss * rank_weight(triplets, self.margin) if self.rank_weight else loss

    def active(self, triplets: Triplets) -> Tensor:
        """Which pairs (B,) have a negative inside the margin, and so something to learn."""
        return triplets.positive - triplets.nearest() + self.margin > 0


def hinge(triplets: Triplets, margin: float) -> Tensor:
    """The hinge of each pair (B,); 0 where a pair has no negative."""
    return (triplets.positive - triplets.nearest() + margin).clamp_min(0.0)
