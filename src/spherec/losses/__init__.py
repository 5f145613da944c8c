"""What a model is taught: each loss gives one value for each positive pair, each penalty one number for a batch."""

from spherec.losses.covariance import covariance
from spherec.losses.hinge import Hinge, hinge
from spherec.losses.rank_weight import rank_weight
from spherec.losses.softmin import Softmin, softmin
from spherec.losses.spread_out import spread_out
from spherec.losses.triplets import Triplets

Loss = Hinge | Softmin
"""The losses to choose from."""

__all__ = [
    "Hinge",
    "Loss",
    "Softmin",
    "Triplets",
    "covariance",
    "hinge",
    "rank_weight",
    "softmin",
    "spread_out",
]
