"""The base class of losses, and the distances that a loss looks at."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError


@dataclass(frozen=True)
class Triplets:
    """Squared distances of a batch of B pairs with N negatives each; with reach, d² − 2λτb, which may be negative."""

    positive: Tensor
    "(B,) to the positive item."
    negative: Tensor
    "(B, N) to the negative items."
    valid: Tensor
    "(B, N) false in places without a negative."
    n_items: int
    "I, items in the catalogue."
    log_q: Tensor | None = None
    "(B | 1, N) log of the probability with which each negative was drawn; None where it has no closed form."

    def nearest(self) -> Tensor:
        """Return the squared distance (B,) to the nearest negative, infinite where there is none."""
        return self.negative.masked_fill(~self.valid, float("inf")).amin(1)


class Loss(ABC):
    """A loss together with its settings.

    For a loss of your own, subclass this and write `__call__`; a frozen dataclass keeps its settings readable. All else
    has defaults. Its settings are saved with a model, the class is not.
    """

    default_epochs: int = 100
    "Passes over the training pairs by default, unless `default_steps` asks for more."
    default_steps: int = 10_000
    "Steps of a run by default, at least."
    bias_correction: float | None = None
    "Share of the sampling bias that the loss undoes by `Triplets.log_q`; None if it does not look at it."

    @abstractmethod
    def __call__(self, triplets: Triplets) -> Tensor:
        """Return the loss of each pair (B,), differentiable in the distances."""

    def active(self, triplets: Triplets) -> Tensor:
        """Tell which pairs (B,) still teach something; a run reports their share."""
        return self(triplets) > 0

    def resolve(self, data: Interactions, dim: int) -> "Loss":  # noqa: ARG002
        """Return the loss with the settings filled in that come from data and dimensions; by default there are none."""
        return self

    def lengthen(self, dim: int) -> float:  # noqa: ARG002
        """Return by how much the default epochs are multiplied in D dimensions."""
        return 1.0

    @property
    def distance_scale(self) -> float:
        """Scale of squared distances: τ of the softmin by which new users are placed, and the unit of reach."""
        return 0.1


@dataclass(frozen=True)
class UnknownLoss(Loss):
    """Placeholder for a loss of the user's own in a config that was read from a file: it keeps kind and settings."""

    kind: str
    "Name of the class."
    settings: Mapping[str, Any] = field(default_factory=dict)
    "Its fields."

    def __call__(self, triplets: Triplets) -> Tensor:  # noqa: ARG002
        """Raise an `ArgumentError` that asks for the class."""
        raise ArgumentError(
            f"loss is of the unknown kind {self.kind}; pass an object of that class as loss, for a model file by "
            f"spherec.load(path, loss={self.kind}(…))"
        )
