"""The metric model: one table of users, one of items, in one space."""

from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from spherec.errors import ArgumentError
from spherec.geometry import Constraint, Vectors, placed, unit


@dataclass(frozen=True)
class MetricModel:
    """Raw rows of users and items, and the constraint that makes them vectors of the space.

    What is optimised are the raw rows; what anyone else sees are `vectors`.
    """

    user_rows: Tensor
    "(U, D)"
    item_rows: Tensor
    "(I, D)"
    constraint: Constraint = "sphere"

    def __post_init__(self) -> None:
        if self.constraint not in get_args(Constraint):
            raise ArgumentError(f"constraint must be 'sphere' or 'ball', got {self.constraint!r}")
        for name, rows in (("user", self.user_rows), ("item", self.item_rows)):
            if rows.dim() != 2 or rows.dtype != torch.float32:
                raise ArgumentError(f"{name} rows must be a float32 table, got {rows.dtype} of shape {(*rows.shape,)}")
            if not bool(rows.isfinite().all()):
                bad = int((~rows.isfinite()).any(1).nonzero()[0])
                raise ArgumentError(f"{name} rows must be finite, got NaN or infinity in row {bad}; mend or drop it")
        if self.user_rows.shape[1] != self.item_rows.shape[1]:
            raise ArgumentError(
                f"user and item rows must have as many dimensions, got {self.user_rows.shape[1]} and "
                f"{self.item_rows.shape[1]}"
            )

    @classmethod
    def initial(
        cls, n_users: int, n_items: int, dim: int, generator: torch.Generator, *, constraint: Constraint = "sphere"
    ) -> "MetricModel":
        """Normal rows scaled to length 1, on the generator's device."""
        if dim < 2:
            raise ArgumentError(f"dim must be a whole number >= 2, got {dim}")
        rows = torch.empty(n_users + n_items, dim, device=generator.device)  # (U + I, D)
        rows = unit(rows.normal_(generator=generator))
        return cls(rows[:n_users].clone(), rows[n_users:].clone(), constraint)

    def to(self, device: torch.device) -> "MetricModel":
        """The same on another device."""
        return MetricModel(self.user_rows.to(device), self.item_rows.to(device), self.constraint)

    @property
    def dim(self) -> int:
        """D."""
        return self.item_rows.shape[1]

    @property
    def vectors(self) -> Vectors:
        """All users and items as vectors of the space."""
        users, items = (placed(rows, self.constraint) for rows in (self.user_rows, self.item_rows))
        return Vectors(users, items, self.constraint)
