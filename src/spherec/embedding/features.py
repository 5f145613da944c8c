"""An embedding in which items are placed by their features, too: the raw row of item j is

    k_j r_j + [x_j, 1] W

r_j is a row of its own, x_j has the F features, and W is an (F + 1, d) map that all items share, in each subspace. k_j
is 1, but 0 in a training step that leaves r_j out: so W alone learns to place an item, and can place one that nobody
has. Where items have reach, the last number of a raw row is the reach, and the last column of W predicts it.

An item without features is a row alone. An item with features that is in no pair of training has no row: r_j = 0.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import pad

from spherec.device import run_at_once, split_work
from spherec.embedding.table import EmbeddingTable
from spherec.kernels import Backend
from spherec.kernels.reference.adam import spread_parts
from spherec.optim import Adam

_RATE = 2.5  # times 1/√(F + 1): the share of the learning rate at which W moves, chosen on a validation part
_FIRST, _SECOND, _THIRD = 0x9E3779B97F4A7C1, 0xBF58476D1CE4E5B, 0x94D049BB133111E  # odd multipliers of the hash
_ALIGNMENT = 8  # numbers
_BITS = 24  # of the hash that are compared with the share


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
        numbers: (I, F) features of the items.
        known: (I,) False for items without features.
        config: Settings of Adam.
        dropout: Share of the items whose rows are left out in a training step.
        seed: Seed of the choice of these items.
        planned: Number of steps that a schedule spans.
        kernels: The backend; by default that of the device.
    """

    def __init__(
        self,
        rows: Tensor,
        weights: Tensor,
        numbers: Tensor,
        known: Tensor,
        config: Adam,
        *,
        dropout: float,
        seed: int,
        planned: int,
        kernels: Backend | None = None,
    ) -> None:
        # Adam moves every number by about the same, whatever its gradient; features made smaller move W by less.
        self._scale = _RATE / weights.shape[1] ** 0.5
        below = (weights / self._scale).reshape(-1, *rows.shape[1:])  # (F + 1, P, d) memory in the order of `weights`
        super().__init__(torch.cat((rows, below)), config, constraint="sphere", planned=planned, kernels=kernels)
        self._count = len(rows)
        self.n_items = len(numbers)
        self._shape = weights.shape
        constant = known.to(numbers.dtype)[:, None]  # (I, 1)
        self._numbers = torch.cat((numbers, constant), 1) * self._scale  # (I, F + 1)
        first = self._count * self.subspaces
        # (P (F + 1),) places of W in the table
        self._below = torch.arange(first, first + weights[..., 0].numel(), device=rows.device)
        self._dropped_share = round(dropout * (1 << _BITS))
        self._alone = ~known  # (I,)
        mixed = seed * _THIRD
        self._mixed_seed = (mixed + (1 << 63)) % (1 << 64) - (1 << 63)  # as int64 wraps
        self._last_read: tuple[Tensor, Tensor | None]  # (n, F + 1), (n,): what a step needs again

    def rows(self, index: Tensor) -> Tensor:
        """Return the raw rows (P, m, d) of numbers (m,) as they are now."""
        rows = super().rows(index)
        numbers = self._numbers.index_select(0, index.clamp_max(self.n_items - 1))  # (m, F + 1)
        self._add_features(rows, numbers.mul_((index < self.n_items)[:, None]))
        return rows

    def training_rows(self, index: Tensor, n_users: int) -> Tensor:
        """Return the same rows as a training step sees them: a share of the items without a row of their own."""
        rows, items = super().rows(index), index[n_users:]
        numbers = self._numbers.index_select(0, items)  # (n, F + 1)
        keep = self._keep(items) if self._dropped_share else None  # (n,)
        self._add_features(rows[:, n_users:], numbers, keep)
        self._last_read = numbers, keep
        return rows

    def block(self, first: int, past: int) -> Tensor:
        """Return the raw rows (b, P, d) of the numbers from `first` to `past` - 1 as they are now."""
        rows = super().block(first, past)
        if first < self.n_items:
            numbers = self._numbers[first:past]  # (b', F + 1)
            self._add_features(rows[: len(numbers)].movedim(1, 0), numbers)
        return rows

    def step(self, index: Tensor, gradient: Tensor, n_users: int) -> None:
        """Make one step with gradients (P, m, d) of the rows that `training_rows` has just returned."""
        numbers, keep = self._last_read
        of_items = gradient[:, n_users:]  # (P, n, d)
        subspaces, count, width = gradient.shape
        every = gradient.new_empty(subspaces * count + len(self._below), width)
        own, below = every[: subspaces * count].view(gradient.shape), every[subspaces * count :].view(self._shape)
        own[:, :n_users] = gradient[:, :n_users]
        if keep is None:
            own[:, n_users:] = of_items
        else:
            torch.mul(of_items, keep[:, None], out=own[:, n_users:])

        def gather(some: slice) -> None:
            below[:, some] = numbers[:, some].T.expand(subspaces, -1, -1) @ of_items

        run_at_once([partial(gather, some) for some in split_work(numbers.shape[1], numbers.numel() * width)])
        self.optimizer.step(torch.cat((spread_parts(index, self.subspaces), self._below)), every)

    def weights(self) -> Tensor:
        """Return W (P, F + 1, d) as it is now."""
        return self._read_below().mul_(self._scale)

    def _read_below(self) -> Tensor:
        """Return W / `_scale` (P, F + 1, d) as it is now."""
        return self.optimizer.rows(self._below).view(self._shape)

    def _add_features(self, rows: Tensor, numbers: Tensor, keep: Tensor | None = None) -> None:
        """Add what features (m, F + 1) give to raw rows (P, m, d), those of own rows that stay, if `keep` (m,) says."""
        subspaces, _, width = rows.shape
        below = pad(self._read_below(), (0, -width % _ALIGNMENT))  # (P, F + 1, d'): products of odd widths are slow

        def add(some: slice) -> None:
            given = (numbers[some].expand(subspaces, -1, -1) @ below)[..., :width]  # (P, some, d)
            if keep is None:
                rows[:, some] += given
            else:
                torch.addcmul(given, rows[:, some], keep[some, None], out=rows[:, some])

        run_at_once([partial(add, some) for some in split_work(len(numbers), numbers.numel() * width)])

    def _keep(self, items: Tensor) -> Tensor:
        """Return 1 for items (m,) whose rows take part in this step, 0 for others, by a hash of seed, step and item."""
        mixed = items * _FIRST + (self.optimizer.state()["steps"] * _SECOND + self._mixed_seed)  # (m,)
        mixed = (mixed ^ (mixed >> 31)) * _THIRD
        mixed = (mixed ^ (mixed >> 29)) * _SECOND
        hashed = (mixed >> 20) & ((1 << _BITS) - 1)
        kept: Tensor = (hashed >= self._dropped_share) | self._alone[items]
        return kept.float()
