"""One run in progress: the rows, what moves them, and a step."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from spherec import rng
from spherec.data.interactions import Interactions
from spherec.geometry import (
    Constraint,
    DenseVectors,
    join_subspaces,
    project,
    split_subspaces,
    squared_distance,
    to_vectors,
)
from spherec.kernels import cuda
from spherec.kernels.hinge import hinge_gradient
from spherec.kernels.softmin import shared_softmin_gradient
from spherec.losses import Hinge, Softmin, Triplets, covariance, spread_out
from spherec.optim import DenseAdam
from spherec.sampling import Negatives
from spherec.training.config import Training


@dataclass(frozen=True)
class LiveGeometry:
    """The space as it is at this step: rows that were not touched for a while are caught up when they are read."""

    rows: DenseAdam
    "(n P, d) of items, then of users: P for each, one in every subspace."
    n_items: int
    subspaces: int = 1
    "P"

    @property
    def constraint(self) -> Constraint:
        """Where vectors live."""
        return self.rows.constraint

    @property
    def dim(self) -> int:
        """D."""
        return self.subspaces * self.rows.table.shape[1]

    def users(self, index: Tensor) -> Tensor:
        """The vectors (…, D) of user indices (…)."""
        return self._at(index + self.n_items)

    def items(self, index: Tensor) -> Tensor:
        """The vectors (…, D) of item indices (…)."""
        return self._at(index)

    def _at(self, index: Tensor) -> Tensor:
        if self.subspaces == 1:
            return self.rows.vectors(index)
        return join_subspaces(self.rows.vectors(in_subspaces(index, self.subspaces).movedim(0, -1)))


def in_subspaces(index: Tensor, subspaces: int) -> Tensor:
    """Where rows are (P, …) in a table that holds P for each user or item (…)."""
    parts = torch.arange(subspaces, device=index.device)
    return index * subspaces + parts.view(-1, *(1 for _ in index.shape))


class Run:
    """The state of training, and how a step changes it."""

    def __init__(self, train: Interactions, config: Training, initial: DenseVectors) -> None:
        device = initial.user_table.device
        self.config = config
        self.n_items = train.n_items
        self.generator = rng.torch_stream(config.seed, "negatives", device=device)
        # One table for both, items first: half as many calls as with two.
        rows = torch.cat((initial.item_table, initial.user_table))  # (I + U, D)
        if config.subspaces == 1:
            first_items = to_vectors(initial.item_table, config.constraint)  # (I, D)
        else:
            parts = to_vectors(project(split_subspaces(rows, config.subspaces), config.constraint), config.constraint)
            rows, first_items = parts.flatten(0, 1), join_subspaces(parts[: train.n_items])  # ((I + U) P, d), (I, D)
        self.sampler = config.sampler.build(train, device, initial_items=first_items)
        planned = config.plan(len(train)).steps
        self.rows = DenseAdam(rows, config.optimizer, constraint=config.constraint, planned=planned)
        self.geometry = LiveGeometry(self.rows, train.n_items, config.subspaces)
        self._weights = _weights(train, config.balance, device) if config.balance else None  # (U,) of pairs, by user
        # Without penalties, the hinge is one compiled pass, and softmin over a shared pool a few over one table;
        # everything else goes through autograd.
        penalised = config.covariance or config.spread_out
        shared = config.sampler.shared
        self._gradient = self._autograd_gradient
        if isinstance(config.loss, Softmin) and shared and config.constraint == "sphere" and not penalised:
            self._gradient = self._shared_softmin_gradient
        if isinstance(config.loss, Hinge) and not (shared or penalised or config.balance):
            self._triton = cuda.kernels("hinge", device)
            if self._triton:
                self._gradient = self._triton_gradient
            elif device.type == "cpu":
                self._gradient = self._compiled_gradient
        # Of this epoch: the loss, pairs with something to learn from, places for which no negative was found.
        self.sums = torch.zeros(3, dtype=torch.float64, device=device)

    def vectors(self) -> DenseVectors:
        """Return the vectors as they are now; a copy."""
        rows = self.rows.everything()  # ((I + U) P, d)
        if self.config.subspaces > 1:
            parts = to_vectors(rows, self.config.constraint).view(-1, self.config.subspaces, rows.shape[1])
            rows = join_subspaces(parts)  # (I + U, D)
        vectors = to_vectors(rows, self.config.constraint)  # (I + U, D)
        return DenseVectors(vectors[self.n_items :], vectors[: self.n_items], self.config.constraint)

    def step(self, users: Tensor, positives: Tensor) -> int:
        """Learn from pairs of users (B,) and positive items (B,); gives back how many places for negatives there were.

        Nothing in here waits for the device.
        """
        with torch.no_grad():
            negatives = self.sampler.sample(users, positives, self.geometry, self.generator)  # (B | 1, N)
            index = torch.cat((users + self.n_items, positives, negatives.items.reshape(-1)))  # (2 B + M,) M negatives
            if self.config.subspaces == 1:
                gradient, told = self._gradient(self.rows.rows(index), negatives, users)  # (2 B + M, D), (3,)
            else:
                index = in_subspaces(index, self.config.subspaces)  # (P, 2 B + M)
                gradient, told = self._gradients(self.rows.rows(index), negatives, users)  # (P, 2 B + M, d), (3,)
            self.rows.step(index.reshape(-1), gradient.reshape(-1, gradient.shape[-1]))
            self.sums += told
        return negatives.valid.numel()

    def _gradients(self, rows: Tensor, negatives: Negatives, users: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of rows (P, 2 B + M, d) in P subspaces, each by itself; `sums` adds up their mean (3,)."""
        gradients, told = zip(*(self._gradient(one, negatives, users) for one in rows), strict=True)
        return torch.stack(gradients), torch.stack(told).mean(0)

    def _autograd_gradient(self, rows: Tensor, negatives: Negatives, users: Tensor) -> tuple[Tensor, Tensor]:
        """Of rows (2 B + M, D) of B users, B positives, M negatives: the gradient, and what `sums` adds up (3,)."""
        with torch.enable_grad():
            triplets, loss, objective = self._objective(rows.requires_grad_(), negatives, users)
            (gradient,) = torch.autograd.grad(objective, rows)
        told = loss.detach(), self.config.loss.active(triplets).sum(), (~negatives.valid).sum()
        return gradient, torch.stack([one.double() for one in told])

    def _compiled_gradient(self, rows: Tensor, negatives: Negatives, users: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """The same for the hinge on a CPU."""
        hinge = cast("Hinge", self.config.loss)
        gradient = torch.zeros_like(rows)
        weighing = hinge.margin, hinge.rank_weight, self.n_items, self.config.constraint == "sphere"
        valid = negatives.valid.numpy()
        loss, active = hinge_gradient(rows.numpy(), valid, *weighing, gradient.numpy())
        return gradient, torch.tensor([loss, active, valid.size - valid.sum()], dtype=torch.float64)

    def _triton_gradient(self, rows: Tensor, negatives: Negatives, users: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """The same for the hinge on a GPU."""
        hinge, kernels = cast("Hinge", self.config.loss), cast("Any", self._triton)
        gradient, told = kernels.hinge_gradient(
            rows,
            negatives.valid,
            margin=hinge.margin,
            ranked=hinge.rank_weight,
            n_items=self.n_items,
            on_sphere=self.config.constraint == "sphere",
        )  # (2 B + M, D), (3, B)
        return gradient, told.sum(1)

    def _shared_softmin_gradient(self, rows: Tensor, negatives: Negatives, users: Tensor) -> tuple[Tensor, Tensor]:
        """The same for softmin over a shared pool on the sphere."""
        loss = cast("Softmin", self.config.loss)
        weights = None if self._weights is None else self._weights[users]  # (B,)
        return shared_softmin_gradient(
            rows,
            negatives.valid,
            negatives.log_q,
            weights,
            temperature=loss.temperature,
            gamma=loss.gamma,
            n_items=self.n_items,
        )

    def _objective(self, rows: Tensor, negatives: Negatives, users: Tensor) -> tuple[Triplets, Tensor, Tensor]:
        """The distances of such rows, the loss, and what to minimise."""
        vectors, n = to_vectors(rows, self.config.constraint), len(users)
        user, positive, negative = vectors[:n], vectors[n : 2 * n], vectors[2 * n :]  # (B, D), (B, D), (M, D)
        negative = negative.reshape(*negatives.items.shape, -1)  # (B | 1, N, D)
        triplets = Triplets(
            positive=squared_distance(user, positive),
            negative=squared_distance(user, negative),
            valid=negatives.valid,
            n_items=self.n_items,
            log_q=negatives.log_q,
        )
        losses = self.config.loss(triplets)  # (B,)
        if self._weights is not None:
            losses = losses * self._weights[users]
        loss = losses.sum()
        objective = loss
        if self.config.covariance:
            objective = objective + self.config.covariance * covariance(vectors[: 2 * n])
        if self.config.spread_out:
            objective = objective + self.config.spread_out * spread_out(positive, negative, negatives.valid)
        return triplets, loss, objective


def _weights(train: Interactions, balance: float, device: torch.device) -> Tensor:
    """What pairs of each user weigh (U,): n^−ρ of her n items, 1 on average over pairs."""
    weights = np.maximum(train.items_per_user, 1.0) ** -balance  # (U,)
    return torch.tensor(weights * len(train) / (weights @ train.items_per_user), dtype=torch.float32, device=device)
