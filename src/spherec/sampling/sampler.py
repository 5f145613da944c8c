"""The base class of a sampler's settings, the sampler, and the negatives that it returns."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError
from spherec.geometry import Geometry


@dataclass(frozen=True)
class Negatives:
    """Negatives for B pairs: N for each of them, or N that the whole batch shares."""

    items: Tensor
    "(B, N) item indices; (1, N) where the batch shares them."
    valid: Tensor
    "(B, N) false where no negative was found; the item index there means nothing."
    log_q: Tensor | None = None
    "Log of the probability of each item in the sampler's law, shaped like `items`; None if there is no closed form."


class Sampler(Protocol):
    """Draws negatives for pairs of a user and an item. No user ever gets an item that they have in training."""

    def sample(self, users: Tensor, positives: Tensor, geometry: Geometry, generator: torch.Generator) -> Negatives:
        """Return negatives for users (B,) with their positive items (B,), in the space as it is at this step.

        Everything random comes from `generator`. On a GPU nothing in here may wait for the device.
        """


class Sampling(ABC):
    """The settings of a sampler, from which it is built for given data.

    For a sampler of your own, subclass this and write `build`; a frozen dataclass keeps its settings readable. All else
    has defaults. Its settings are saved with a model, the class is not.
    """

    negatives: int = 1
    "N, negatives for each positive."
    shared: bool = False
    "True if all pairs of a batch share the same N negatives."
    gives_log_q: bool = False
    "True if the sampler's `Negatives` have `log_q`."
    draws_alike: bool = False
    """True if the sampler draws everything for pairs by `spherec.rng.draw_rows`: several processes that share a batch
    then draw what one alone would."""

    @abstractmethod
    def build(self, train: Interactions, device: torch.device, *, initial_items: Tensor) -> Sampler:
        """Return the sampler for `train` on `device`; `initial_items` (I, D) are the vectors before the first step."""

    def law(self, train: Interactions) -> NDArray[np.float64]:
        """Return the weights (I,) by which items are drawn before any look at the space; fold-in draws by them."""
        return np.ones(train.n_items)


@dataclass(frozen=True)
class UnknownSampling(Sampling):
    """Placeholder for a sampler of the user's own in a config that was read from a file: it keeps kind and settings."""

    kind: str
    "Name of the class."
    settings: Mapping[str, Any] = field(default_factory=dict)
    "Its fields."

    def build(self, train: Interactions, device: torch.device, *, initial_items: Tensor) -> Sampler:  # noqa: ARG002
        """Raise an `ArgumentError` that asks for the class."""
        raise ArgumentError(
            f"sampler is of the unknown kind {self.kind}; pass an object of that class as sampler, for a model file by "
            f"spherec.load(path, sampler={self.kind}(…))"
        )
