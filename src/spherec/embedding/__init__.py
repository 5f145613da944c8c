"""Embeddings: where the raw vectors of users and items come from, and where their gradients go.

An embedding numbers items from 0 to I − 1 and users from I to I + U − 1. It returns raw rows; the geometry of the run
scales them to vectors afterwards. So an embedding may read rows from a table as `EmbeddingTable` does, add to them what
an item's features give as `FeatureTable` does, or keep its rows in several processes.
"""

from typing import Protocol

from torch import Tensor

from spherec.embedding.features import FeatureMap, FeatureTable
from spherec.embedding.table import EmbeddingTable

__all__ = ["Embedding", "EmbeddingTable", "FeatureMap", "FeatureTable"]


class Embedding(Protocol):
    """Raw vectors that learn, in P subspaces of d dimensions each."""

    def __len__(self) -> int:
        """Return the number of items and users, I + U."""

    @property
    def subspaces(self) -> int: ...

    def rows(self, index: Tensor) -> Tensor:
        """Return the raw rows (P, m, d) of numbers (m,) as they are now, a copy."""

    def block(self, first: int, past: int) -> Tensor:
        """Return the raw rows (b, P, d) of the numbers from `first` to `past` - 1 as they are now, a copy."""

    def training_rows(self, index: Tensor, n_users: int) -> Tensor:
        """Return the raw rows (P, m, d) from which a step learns; the first `n_users` numbers are users, others items.

        An embedding may leave out a part of them, the same again until the next step. `step` comes next.
        """

    def step(self, index: Tensor, gradient: Tensor, n_users: int) -> None:
        """Make one step with gradients (P, m, d) of the training rows of numbers (m,); those of the same row add up."""

    def state(self) -> dict[str, Tensor]:
        """Return the tensors from which another run continues exactly; writing into them changes the embedding."""
