"""One run in progress: the tables, what moves them, and a step."""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from spherec import rng, sampling
from spherec.data.interactions import Interactions
from spherec.geometry import Constraint, placed, projected, squared_distance
from spherec.losses import Triplets, covariance, spread_out
from spherec.model import MetricModel
from spherec.optim import DenseAdam
from spherec.training.config import Training


@dataclass(frozen=True)
class LiveGeometry:
    """The space as it is at this step: rows that were not touched for a while are caught up when they are read."""

    user_rows: DenseAdam
    item_rows: DenseAdam
    constraint: Constraint

    def users(self, index: Tensor) -> Tensor:
        """The vectors (…, D) of user indices (…)."""
        return placed(projected(self.user_rows.rows(index), self.constraint), self.constraint)

    def items(self, index: Tensor) -> Tensor:
        """The vectors (…, D) of item indices (…)."""
        return placed(projected(self.item_rows.rows(index), self.constraint), self.constraint)


class Run:
    """The state of training, and how a step changes it."""

    def __init__(self, train: Interactions, config: Training, initial: MetricModel) -> None:
        device = initial.user_rows.device
        self.config = config
        self.n_items = train.n_items
        self.sampler = sampling.build(config.sampler, train, device, initial_items=initial.vectors.item_table)
        self.generator = rng.torch_stream(config.seed, "negatives", device=device)
        self.users = DenseAdam(initial.user_rows.clone(), config.optimizer)
        self.items = DenseAdam(initial.item_rows.clone(), config.optimizer)
        self.geometry = LiveGeometry(self.users, self.items, config.constraint)
        # Of this epoch: the loss, pairs with something to learn from, places for which no negative was found.
        self.sums = torch.zeros(3, dtype=torch.float64, device=device)

    def model(self) -> MetricModel:
        """The model by now; a copy."""
        constraint = self.config.constraint
        users, items = (projected(one.everything(), constraint) for one in (self.users, self.items))
        return MetricModel(users, items, constraint)

    def step(self, users: Tensor, positives: Tensor) -> int:
        """Learn from pairs of users (B,) and positive items (B,); gives back how many places for negatives there were.

        Nothing in here waits for the device.
        """
        with torch.no_grad():
            negatives = self.sampler.sample(users, positives, self.geometry, self.generator)  # (B | 1, N)
            items = torch.cat((positives, negatives.items.reshape(-1)))  # (B + M,) M negatives
            project = functools.partial(projected, constraint=self.config.constraint)
            user_rows = project(self.users.rows(users)).requires_grad_()  # (B, D)
            item_rows = project(self.items.rows(items)).requires_grad_()  # (B + M, D)

        user_vectors, item_vectors = (placed(rows, self.config.constraint) for rows in (user_rows, item_rows))
        positive_vectors = item_vectors[: len(users)]  # (B, D)
        negative_vectors = item_vectors[len(users) :].reshape(*negatives.items.shape, -1)  # (B | 1, N, D)
        triplets = Triplets(
            positive=squared_distance(user_vectors, positive_vectors),
            negative=squared_distance(user_vectors, negative_vectors),
            valid=negatives.valid,
            n_items=self.n_items,
            log_q=negatives.log_q,
        )
        loss = self.config.loss(triplets).sum()
        objective = loss
        if self.config.covariance:
            objective = objective + self.config.covariance * covariance(torch.cat((user_vectors, item_vectors)))
        if self.config.spread_out:
            penalty = spread_out(positive_vectors, negative_vectors, negatives.valid)
            objective = objective + self.config.spread_out * penalty
        user_gradient, item_gradient = torch.autograd.grad(objective, (user_rows, item_rows))

        with torch.no_grad():
            self.users.step(users, user_gradient, project)
            self.items.step(items, item_gradient, project)
            active = self.config.loss.active(triplets).sum()
            self.sums += torch.stack((loss.double(), active.double(), (~negatives.valid).sum().double()))
        return negatives.valid.numel()
