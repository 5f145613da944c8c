"""Embeddings: where the raw vectors of users and items come from, and where their gradients go.

An embedding numbers items from 0 to I − 1 and users from I to I + U − 1. It returns raw rows; the geometry of the run
scales them to vectors afterwards. So an embedding may add what it likes to a row, such as the item's features, keep its
rows in several processes, or read them from a table as `EmbeddingTable` does.
"""

from typing import Protocol

from torch import Tensor

from spherec.embedding.sharded import Share, ShardedTable
from spherec.embedding.table import EmbeddingTable

__all__ = ["Embedding", "EmbeddingTable", "Share", "ShardedTable"]


class Embedding(Protocol):
    """Raw vectors that learn, in P subspaces of d dimensions each."""

    def __len__(self) -> int:
        """Return the number of items and users, I + U."""
        ...

    @property
    def subspaces(self) -> int:
        """P."""
        ...

    def rows(self, index: Tensor) -> Tensor:
        """Return the raw rows (P, m, d) of numbers (m,) as they are now, a copy."""
        ...

    def block(self, first: int, past: int) -> Tensor:
        """Return the raw rows (b, P, d) of the numbers from `first` to `past` - 1 as they are now, a copy."""
        ...

    def step(self, index: Tensor, gradient: Tensor) -> None:
        """Make one step with gradients (P, m, d) of the rows of numbers (m,); those of the same row add up."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Return the tensors from which another run continues exactly; writing into them changes the embedding."""
        ...
