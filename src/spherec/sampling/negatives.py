"""What every sampler gives back, and how it is asked."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from spherec.errors import ArgumentError
from spherec.geometry import Geometry


@dataclass(frozen=True)
class Negatives:
    """Negatives for B pairs: N for each of them, or N that the whole batch shares."""

    items: Tensor
    "(B, N) item indices; (1, N) where the batch shares them."
    valid: Tensor
    "(B, N) false where no negative was found; what `items` says there means nothing."
    log_q: Tensor | None = None
    "Of the shape of `items`: log of the probability of each in the sampler's law; None where that has no closed form."


class Sampler(Protocol):
    """Picks negatives for pairs of a user and an item. No user ever gets an item that she has in training."""

    def sample(self, users: Tensor, positives: Tensor, geometry: Geometry, generator: torch.Generator) -> Negatives:
        """Negatives for users (B,) with their positive items (B,), in the space as `geometry` shows it."""
        ...


def check_count(name: str, count: int) -> None:
    """Raises an `ArgumentError` unless the count is a whole number >= 1."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ArgumentError(f"{name} must be a whole number >= 1, got {count!r}")
