"""Losses, which return one value for each positive pair, and penalties, which return one number for a batch."""

from spherec.losses.hinge import Hinge, hinge, rank_weight
from spherec.losses.loss import Loss, Triplets, UnknownLoss
from spherec.losses.penalties import covariance, spread_out
from spherec.losses.softmin import Softmin, softmin

LOSSES: dict[str, type[Loss]] = {kind.__name__: kind for kind in (Hinge, Softmin)}
"""The losses of this package, by the name that a config file gives as `kind`."""

__all__ = [
    "LOSSES",
    "Hinge",
    "Loss",
    "Softmin",
    "Triplets",
    "UnknownLoss",
    "covariance",
    "hinge",
    "rank_weight",
    "softmin",
    "spread_out",
]
