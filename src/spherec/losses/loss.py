"""The protocol of a loss, and the distances that a loss looks at."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError
from spherec.geometry import Constraint
from spherec.kernels import Backend


class FusedGradient(Protocol):
    """A faster way to the gradient than autograd."""

    def __call__(
        self, rows: Tensor, valid: Tensor, log_q: Tensor | None, weights: Tensor | None, dial: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the gradient of the rows and three sums: loss, active pairs, places without a negative.

        The sums (3,) are means over the subspaces. They may also come in parts (3, …), for the caller to add up.

        Args:
            rows: (P, 2 B + M, d) raw rows of B users, B positives and M negatives in P subspaces; with reach
                (P, 2 B + M, d + 1).
            valid: (B, N) false in places without a negative.
            log_q: (B | 1, N) log of the probability with which each negative was drawn.
            weights: (B,) weights of pairs; None if they all weigh the same.
            dial: (B,) λ of pairs; None without reach.
        """
        ...


@dataclass(frozen=True)
class GradientTask:
    """Everything that a fused gradient must know about a run."""

    n_items: int
    "I, items in the catalogue."
    constraint: Constraint
    "Space of the vectors: sphere or ball."
    shared: bool
    "True if a batch shares its negatives: M is N then, otherwise B N."
    weighted: bool
    "True if pairs have weights."
    reach: bool = False
    "True if the last number of an item's row is its reach; users have an idle one there."


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


@runtime_checkable
class Loss(Protocol):
    """A loss together with its settings.

    For a loss of your own, subclass this and write `__call__`; a frozen dataclass keeps its settings readable. All
    other methods have defaults. Its settings are saved with a model, the class is not.
    """

    def __call__(self, triplets: Triplets) -> Tensor:
        """Return the loss of each pair (B,), differentiable in the distances."""
        ...

    def active(self, triplets: Triplets) -> Tensor:
        """Tell which pairs (B,) still teach something; a run reports their share."""
        return self(triplets) > 0

    def fused_gradient(self, task: GradientTask, kernels: Backend) -> FusedGradient | None:
        """Return a faster way to the gradient than autograd, or None if there is none for this task."""
        del task, kernels
        return None

    def resolve(self, data: Interactions) -> "Loss":
        """Return the loss with the settings filled in that come from the data; by default there are none."""
        del data
        return self

    @property
    def default_epochs(self) -> int:
        """Passes over the training pairs by default, unless `default_steps` asks for more."""
        return 100

    @property
    def default_steps(self) -> int:
        """Steps of a run by default, at least."""
        return 10_000

    @property
    def distance_scale(self) -> float:
        """Scale of squared distances: τ of the softmin by which new users are placed, and the unit of reach."""
        return 0.1

    @property
    def bias_correction(self) -> float | None:
        """Share of the sampling bias that the loss undoes by `Triplets.log_q`; None if it does not look at it."""
        return None


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
