"""Embeddings: where the raw vectors of users and items come from, and where their gradients go.

An embedding numbers items from 0 to I − 1 and users from I to I + U − 1. It returns raw rows, which `LiveGeometry` and
`LiveVectors` scale to vectors. `EmbeddingTable` reads rows from a table, which dense Adam moves; `FeatureTable` adds to
them what an item's features give; several processes may share the rows.

With features, the raw row of item j is

    k_j r_j + [x_j, 1] W

r_j is a row of its own, x_j has the F features, and W is an (F + 1, d) map that all items share, in each subspace. k_j
is 1, but 0 in a training step that leaves r_j out: that way W alone learns to place an item, and can place one that
nobody has. Where items have reach, the last number of a raw row is the reach, and the last column of W predicts it.

An item without features is a row alone. An item with features that is in no pair of training has no row: r_j = 0.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from spherec.geometry import Constraint, DenseVectors, Space, join_subspaces, place_rows
from spherec.kernels import Backend, backend
from spherec.kernels.reference.features import HASH_BITS
from spherec.optim import Adam, start_adam

_RATE = 2.5  # times 1/√(F + 1): the share of the learning rate at which W moves, chosen on a validation part
_BLOCK = 16384  # vectors in a block of `LiveVectors`: exact ranking catches rows up once for about 1000 queries


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


class EmbeddingTable:
    """One table ((I + U) P, d) for items and users: half as many calls as with two.

    `rows` (I + U, P, d) are the first rows, items before users; `planned` is the number of steps that a schedule spans.
    """

    def __init__(self, rows: Tensor, config: Adam, *, constraint: Constraint, planned: int) -> None:
        self._count, self.subspaces, self._dim = rows.shape
        table = rows.flatten(0, 1)
        self._adam, self._rows = start_adam(table, config, constraint=constraint, planned=planned)

    def __len__(self) -> int:
        return self._count

    def rows(self, index: Tensor) -> Tensor:
        return self._rows.read(index, self.subspaces).view(self.subspaces, len(index), self._dim)

    def block(self, first: int, past: int) -> Tensor:
        rows = self._rows.read_range(first * self.subspaces, past * self.subspaces)
        return rows.view(-1, self.subspaces, self._dim)

    def training_rows(self, index: Tensor, n_users: int) -> Tensor:
        del n_users
        return self.rows(index)

    def step(self, index: Tensor, gradient: Tensor, n_users: int) -> None:
        del n_users
        self._rows.move(index, gradient.reshape(-1, self._dim), self.subspaces)

    def state(self) -> dict[str, Tensor]:
        return self._adam._asdict()


@dataclass(frozen=True)
class FeatureMap:
    """The part of a trained model that places items by their features."""

    weights: Tensor
    "(P, F + 1, d) W in each subspace, with reach (P, F + 1, d + 1); its last row belongs to the constant 1."
    lengths: Tensor
    "(I, P) lengths of the items' raw rows, without reach: with the vectors, they give the rows back."

    def place(self, numbers: Tensor) -> Tensor:
        """Return the raw rows (n, P, d) of items that have features (n, F) and no row of their own."""
        return torch.stack([torch.addmm(part[-1], numbers, part[:-1]) for part in self.weights], dim=1)


class FeatureTable(EmbeddingTable):
    """Rows of items and users, and the map W below them, in one table: the optimiser moves all in one call.

    Args:
        rows: (I + U, P, d) the first rows of their own, items before users.
        weights: (P, F + 1, d) the first W.
        numbers: (I, F + 1) [x, 1] of the items; 0 for items without features.
        config: Settings of Adam.
        dropout: Share of the items whose rows are left out in a training step, and the seed of their choice.
        planned: Number of steps that a schedule spans.
    """

    def __init__(
        self, rows: Tensor, weights: Tensor, numbers: Tensor, config: Adam, *, dropout: tuple[float, int], planned: int
    ) -> None:
        # Adam moves every number by about the same, whatever its gradient; features made smaller move W by less.
        self._scale = _RATE / weights.shape[1] ** 0.5
        below = (weights / self._scale).movedim(0, 1)  # (F + 1, P, d)
        super().__init__(torch.cat((rows, below)), config, constraint="sphere", planned=planned)
        self._count = len(rows)
        self.n_items = len(numbers)
        kernels = backend(rows.device)
        self._numbers = numbers * self._scale  # (I, F + 1)
        self._products = kernels.features(self._numbers)
        self._below = torch.arange(len(below), device=rows.device) + self._count  # (F + 1,) numbers of W in the table
        self._left_out, self._seed = round(dropout[0] * (1 << HASH_BITS)), dropout[1]
        self._alone = numbers[:, -1] == 0  # (I,)
        self._keep_rows = kernels.keep_rows
        self._kept: Tensor | None  # (n,) of the items of this step, 0 for those whose rows are left out

    def rows(self, index: Tensor) -> Tensor:
        rows = super().rows(index)
        self._products.add(rows, index, self._read_below())
        return rows

    def training_rows(self, index: Tensor, n_users: int) -> Tensor:
        """Return the same rows as a training step sees them: a share of the items without a row of their own."""
        rows, items = super().rows(index), index[n_users:]
        choice = self._adam.steps, self._alone, self._seed, self._left_out
        self._kept = self._keep_rows(items, *choice) if self._left_out else None
        self._products.add(rows[:, n_users:], items, self._read_below(), self._kept)
        return rows

    def block(self, first: int, past: int) -> Tensor:
        rows = super().block(first, past)
        numbers = self._numbers[first:past]  # (b', F + 1)
        rows[: len(numbers)] += (numbers @ self._read_below()).movedim(0, 1)
        return rows

    def step(self, index: Tensor, gradient: Tensor, n_users: int) -> None:
        """Make one step with gradients (P, m, d) of the rows that `training_rows` has just returned; changes them."""
        below = self._products.learn(gradient[:, n_users:], self._kept)  # (P, F + 1, d)
        super().step(torch.cat((index, self._below)), torch.cat((gradient, below), dim=1), n_users)

    def weights(self) -> Tensor:
        """Return W (P, F + 1, d) as it is now."""
        return self._read_below().mul_(self._scale)

    def _read_below(self) -> Tensor:
        """Return W / `_scale` (P, F + 1, d) as it is now."""
        return super().rows(self._below)


@dataclass(frozen=True)
class LiveGeometry:
    """The space as it is at this step, for samplers: rows that were not touched for a while are caught up when read."""

    embedding: Embedding
    space: Space
    n_items: int
    kernels: Backend
    before_reading: Callable[[], None] = lambda: None
    "Called before rows are read."

    @property
    def constraint(self) -> Constraint:
        return self.space.constraint

    @property
    def dim(self) -> int:
        return self.space.dim

    def users(self, index: Tensor) -> Tensor:
        return self.items(index + self.n_items)

    def items(self, index: Tensor) -> Tensor:
        self.before_reading()
        rows = self.embedding.rows(index.reshape(-1))  # (P, m, d), with reach (P, m, d + 1)
        if self.space.reach_scale is not None:
            rows = rows[..., :-1].contiguous()
        vectors = self.kernels.unit(rows) if self.constraint == "sphere" else rows  # (P, m, d)
        joined = vectors[0] if len(vectors) == 1 else join_subspaces(vectors.movedim(0, 1))  # (m, D)
        return joined.view(*index.shape, self.dim)


class LiveVectors:
    """`Vectors` of a run in progress, computed from its rows block by block: no second copy of the tables."""

    def __init__(
        self, embedding: Embedding, space: Space, n_items: int, device: torch.device, block_size: int = _BLOCK
    ) -> None:
        self.embedding, self.space = embedding, space
        self.constraint, self.dim, self.mainstream = space.constraint, space.dim, space.mainstream
        self.n_users, self.n_items = len(embedding) - n_items, n_items
        self.device, self.block_size = device, block_size

    @property
    def reach(self) -> Tensor | None:
        reach = self._item_reach()
        return None if reach is None else reach.mean(1)

    def users(self, index: Tensor) -> Tensor:
        return self.items(index + self.n_items)

    def items(self, index: Tensor) -> Tensor:
        rows = self.embedding.rows(index.reshape(-1)).movedim(0, 1).contiguous()  # (m, P, d)
        return self._place(rows).view(*index.shape, self.dim)

    def user_blocks(self) -> Iterator[Tensor]:
        return map(self._place, self._blocks(self.n_items, len(self.embedding)))

    def item_blocks(self) -> Iterator[Tensor]:
        return map(self._place, self._blocks(0, self.n_items))

    def copy(self) -> DenseVectors:
        """Return all vectors as they are now, in tables of their own."""
        vectors = self._place(self.embedding.block(0, len(self.embedding)))  # (I + U, D)
        tables = vectors[self.n_items :], vectors[: self.n_items]
        return DenseVectors(*tables, self.constraint, self._item_reach(), self.mainstream)

    def _item_reach(self) -> Tensor | None:
        """Return the reach (I, P) of all items in each subspace, as it adds to a score; None if they have none."""
        if self.space.reach_scale is None:
            return None
        blocks = [rows[..., -1] for rows in self._blocks(0, self.n_items)]  # none where a process holds no items
        reach = torch.cat(blocks) if blocks else self.embedding.block(0, 0)[..., -1]
        return reach * self.space.reach_scale

    def _blocks(self, first: int, past: int) -> Iterator[Tensor]:
        """Yield raw rows (b, P, d)."""
        for begin in range(first, past, self.block_size):
            yield self.embedding.block(begin, min(begin + self.block_size, past))

    def _place(self, rows: Tensor) -> Tensor:
        return place_rows(rows, self.constraint, reach=self.space.reach_scale is not None)
