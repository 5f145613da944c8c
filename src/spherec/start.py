"""The vectors with which training begins. `spherec.ials` has others than random ones."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from spherec import rng
from spherec.data.interactions import Interactions
from spherec.geometry import DenseVectors


class Start(ABC):
    """First vectors, together with their settings."""

    def resolve(self, data: Interactions, dim: int, seed: int, device: torch.device) -> "Start":  # noqa: ARG002
        """Return the start with the settings filled in that come from the data; by default there are none."""
        return self

    @abstractmethod
    def vectors(self, data: Interactions, dim: int, subspaces: int, seed: int, device: torch.device) -> DenseVectors:
        """Return the vectors of all users and items, D numbers each, for P subspaces."""


@dataclass(frozen=True)
class Random(Start):
    """Random vectors of length 1."""

    def vectors(self, data: Interactions, dim: int, subspaces: int, seed: int, device: torch.device) -> DenseVectors:  # noqa: ARG002
        # Drawn on the CPU, so that all devices start from the same vectors.
        generator = rng.torch_stream(seed, "initial vectors")
        return DenseVectors.random(data.n_users, data.n_items, dim, generator).to(device)
