"""Gradients that a backend computes faster than autograd, looked up by the name of the loss's class.

A backend has such losses in `gradients`; here is what each of them needs to know about a run, and where it can be used.
For all others autograd is used.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from spherec.geometry import Constraint, each_subspace

Gradient = Callable[..., tuple[Tensor, Tensor]]
"""Function of a backend: from rows, valid and the settings of one loss to the gradient and three sums."""


class FusedGradient(Protocol):
    """A faster way to the gradient than autograd."""

    def __call__(
        self, rows: Tensor, valid: Tensor, log_q: Tensor | None, weights: Tensor | None, dial: Tensor | None, /
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


class GradientTask(NamedTuple):
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


def fuse(loss: object, task: GradientTask, gradients: Mapping[str, Gradient]) -> FusedGradient | None:
    """Return a faster way to the gradient of a loss than autograd, or None if there is none for this task."""
    name = type(loss).__name__
    return _FUSED[name](loss, task, gradients[name]) if name in gradients else None


def _fuse_hinge(loss: Any, task: GradientTask, gradient: Gradient) -> FusedGradient | None:
    """One pass over the pairs, if each has its own negatives and all weigh the same."""
    if task.shared or task.weighted or task.reach:
        return None
    on_sphere = task.constraint == "sphere"
    of_part = partial(gradient, margin=loss.margin, ranked=loss.rank_weight, n_items=task.n_items, on_sphere=on_sphere)

    def fused(rows: Tensor, valid: Tensor, *_: Tensor | None) -> tuple[Tensor, Tensor]:
        return each_subspace(lambda part: of_part(part, valid), rows)

    return fused


def _fuse_softmin(loss: Any, task: GradientTask, gradient: Gradient) -> FusedGradient | None:
    """A few passes over one table of pairs and negatives, if a batch shares its negatives on the sphere."""
    if not task.shared or task.constraint != "sphere":
        return None
    return partial(gradient, temperature=loss.distance_scale, gamma=loss.gamma, n_items=task.n_items)


_FUSED = {"Hinge": _fuse_hinge, "Softmin": _fuse_softmin}
