"""The metric space: its two shapes and its distance. What is compiled in `kernels` is held against these formulas."""

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

Constraint = Literal["sphere", "ball"]
"""sphere: rows are scaled to length 1 when they are looked up. ball: rows longer than 1 are scaled back to length 1."""

_SHORTEST = 1e-12  # below it a row has no direction, and stays where it is


class Geometry(Protocol):
    """The space at this moment, read-only: what a sampler may look at."""

    @property
    def constraint(self) -> Constraint:
        """Where vectors live."""
        ...

    def users(self, index: Tensor) -> Tensor:
        """The vectors (…, D) of user indices (…)."""
        ...

    def items(self, index: Tensor) -> Tensor:
        """The vectors (…, D) of item indices (…)."""
        ...


@dataclass(frozen=True)
class Vectors:
    """All vectors of a space at one moment; a `Geometry` that stands still."""

    user_table: Tensor
    "(U, D)"
    item_table: Tensor
    "(I, D)"
    constraint: Constraint = "sphere"
    "Where they live."

    def to(self, device: torch.device) -> "Vectors":
        """The same on another device."""
        return Vectors(self.user_table.to(device), self.item_table.to(device), self.constraint)

    def users(self, index: Tensor) -> Tensor:
        """The vectors (…, D) of user indices (…)."""
        return gather(self.user_table, index)

    def items(self, index: Tensor) -> Tensor:
        """The vectors (…, D) of item indices (…)."""
        return gather(self.item_table, index)


def gather(table: Tensor, index: Tensor) -> Tensor:
    """Rows (…, D) of a table (n, D) at indices (…)."""
    return table.index_select(0, index.reshape(-1)).reshape(*index.shape, table.shape[1])


def placed(rows: Tensor, constraint: Constraint) -> Tensor:
    """Raw rows (…, D) as vectors of the space."""
    return unit(rows) if constraint == "sphere" else rows


def projected(rows: Tensor, constraint: Constraint) -> Tensor:
    """Raw rows (…, D) as they may be stored: on the sphere any, in the ball none longer than 1."""
    if constraint == "sphere":
        return rows
    length: Tensor = rows.norm(dim=-1, keepdim=True)  # (…, 1)
    return rows / length.clamp_min(1.0)


def unit(rows: Tensor) -> Tensor:
    """Rows (…, D) scaled to length 1; a row of zeros stays one."""
    length: Tensor = rows.norm(dim=-1, keepdim=True)  # (…, 1)
    return rows / length.clamp_min(_SHORTEST)


def apart(vectors: Tensor, subspaces: int) -> Tensor:
    """Vectors (…, D) as vectors (…, P, d) of P subspaces, such that their squared distance is the mean of those P."""
    return torch.unflatten(vectors * subspaces**0.5, -1, (subspaces, -1))


def side_by_side(parts: Tensor) -> Tensor:
    """Vectors (…, P, d) of P subspaces as one each (…, D) again."""
    whole: Tensor = parts.flatten(-2) / parts.shape[-2] ** 0.5
    return whole


def squared_distance(ones: Tensor, others: Tensor) -> Tensor:
    """Squared Euclidean distances of vectors (B, D).

    To (B, D), one each: (B,). To (B, N, D), N each: (B, N). From each of them to all of (1, C, D): (B, C).
    """
    # |a - b|² = |a|² + |b|² - 2ab needs no (B, C, D) of differences.
    if others.dim() == 2:
        return (ones - others).square().sum(-1)
    return ones.square().sum(-1, keepdim=True) + others.square().sum(-1) - 2 * dots(ones, others)


def dots(ones: Tensor, others: Tensor) -> Tensor:
    """Dot products of vectors (B, D) with others: (B, N, D), N each, or (1, N, D), the same for all. (B, N)."""
    if others.shape[0] == 1:
        return ones @ others[0].T
    return (others @ ones[..., None])[..., 0]
