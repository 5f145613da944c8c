"""Plain implementation to compare with: the same model as a first version in torch and NumPy would have it.

It shares data, settings and initial vectors with the trainer, and no code. Nothing in it is slow on purpose: negatives
are drawn for the whole batch where one call of NumPy can do it, and pair by pair where it cannot. `torch.optim.Adam` is
dense, as the paper's optimiser is. `step_floor` is the other end of the scale: the work that no implementation avoids.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from machine import Machine
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize

from spherec import rng
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError
from spherec.geometry import DenseVectors
from spherec.losses import Hinge
from spherec.sampling import Popularity, TwoStage, Uniform
from spherec.training import Training

_FLOAT = 4  # bytes
_TABLES = 3  # the row and the two moments of Adam

Items = NDArray[np.int64]


class PlainTraining:
    """Two embeddings on the sphere, a hinge loss, Adam over all parameters; on the device of the initial vectors."""

    def __init__(self, data: Interactions, config: Training, initial: DenseVectors) -> None:
        if not isinstance(config.loss, Hinge) or not isinstance(config.sampler, Uniform | Popularity | TwoStage):
            raise ArgumentError(
                f"the baseline knows the hinge with uniform, popularity and two-stage sampling, got "
                f"{type(config.loss).__name__} with {type(config.sampler).__name__}"
            )
        self.config = config
        self.margin = config.loss.margin
        self.users, self.items = (
            nn.Embedding(len(rows), config.dim, _weight=rows.clone())
            for rows in (initial.user_table, initial.item_table)
        )
        adam = config.optimizer
        self.optimizer = torch.optim.Adam(
            [self.users.weight, self.items.weight],
            lr=adam.learning_rate,
            betas=(adam.beta1, adam.beta2),
            eps=adam.epsilon,
        )
        self._data = data
        self._pairs = data.users.astype(np.int64), data.indices.astype(np.int64)  # (E,), (E,)
        self._own = [set(data.items_of(user).tolist()) for user in range(data.n_users)]
        self._random = rng.stream(config.seed, "baseline")
        self._order = np.empty(0, dtype=np.int64)  # pairs left in this epoch
        if not isinstance(config.sampler, Uniform):
            seen = data.users_per_item  # (I,)
            law = np.where(seen > 0, np.maximum(seen, 1.0) ** config.sampler.beta, 0.0)
            self._law = law / law.sum()  # (I,)

    @property
    def vectors(self) -> DenseVectors:
        """Current vectors of all users and items."""
        users, items = (normalize(table.weight.detach(), dim=1) for table in (self.users, self.items))
        return DenseVectors(users, items)

    def step(self) -> int:
        """Learn from the next batch; return its number of pairs."""
        if not len(self._order):
            self._order = self._random.permutation(len(self._data))
        batch, self._order = np.split(self._order, [self.config.batch_size])  # (B,) the last one may be smaller
        users, positives = (column[batch] for column in self._pairs)
        negatives = self.negatives(users, positives)  # (B, N)
        user, positive = self._look_up(self.users, users), self._look_up(self.items, positives)  # (B, D)
        negative = self._look_up(self.items, negatives)  # (B, N, D)
        near = (user - positive).square().sum(-1)  # (B,)
        far = (user[:, None] - negative).square().sum(-1).amin(1)  # (B,)
        loss = (near - far + self.margin).clamp_min(0).sum()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return len(batch)

    def negatives(self, users: Items, positives: Items) -> Items:
        """Draw N items (B, N) that users (B,) do not have; never returns for a user who has all items."""
        match self.config.sampler:
            case Uniform():
                return self._draw_unseen(users, lambda size: self._random.integers(self._data.n_items, size=size))
            case Popularity():
                return self._draw_unseen(
                    users, lambda size: self._random.choice(len(self._law), size=size, p=self._law)
                )
            case TwoStage() as config:
                return self._two_stage(config, users, positives)
            case other:
                raise ArgumentError(f"the baseline does not know {other}")

    def _look_up(self, table: nn.Embedding, index: Items) -> Tensor:
        return normalize(table(torch.as_tensor(index, device=table.weight.device)), dim=-1)

    def _draw_unseen(self, users: Items, draw: Callable[[tuple[int, ...]], Items]) -> Items:
        """Draw items (B, N); draw again where a user has the item."""
        drawn = draw((len(users), self.config.sampler.negatives))
        for row, user in enumerate(users.tolist()):
            own = self._own[user]
            for place, item in enumerate(drawn[row].tolist()):
                unseen = item
                while unseen in own:
                    unseen = int(draw(()))
                drawn[row, place] = unseen
        return drawn

    def _two_stage(self, config: TwoStage, users: Items, positives: Items) -> Items:
        """Draw candidates for the batch, then for each pair those that lie near the positive."""
        count = min(config.candidates, int(np.count_nonzero(self._law)))
        candidates = self._random.choice(len(self._law), count, replace=False, p=self._law)  # (C,)
        with torch.no_grad():
            near, others = (self._look_up(self.items, index) for index in (positives, candidates))
            similarity = (near @ others.T).cpu().numpy().astype(np.float64)  # (B, C)
        exponent = -config.sharpness * (self.config.dim - 3) / 2
        negatives = np.empty((len(users), config.negatives), dtype=np.int64)  # (B, N)
        for row, user in enumerate(users.tolist()):
            s = similarity[row]  # (C,)
            weights = np.where(s >= 0, (1 - np.minimum(s, config.cap) ** 2) ** exponent, 0.0)
            closed = np.isin(candidates, self._data.items_of(user))
            weights[closed] = 0.0
            if not weights.any():
                weights = np.where(closed, 0.0, 1.0)
            few = int(np.count_nonzero(weights)) < config.negatives
            negatives[row] = self._random.choice(candidates, config.negatives, replace=few, p=weights / weights.sum())
        return negatives


def plain_top(vectors: DenseVectors, users: Items, k: int, without: Interactions) -> Items:
    """Return the k nearest items (B, k) of users (B,), in a loop over users, without the items they have."""
    lists = []
    for user in users.tolist():
        scores = vectors.item_table @ vectors.user_table[user]  # (I,)
        scores[torch.as_tensor(without.items_of(user).astype(np.int64), device=scores.device)] = float("-inf")
        lists.append(scores.topk(k).indices.cpu().numpy())
    return np.stack(lists)


class Floor(NamedTuple):
    """WorkDone of one step that no implementation avoids."""

    mb: float
    "Megabytes moved between memory and processor if nothing is moved twice."
    gflop: float
    "Operations of matrix products; all others are few compared with these or with the bytes."

    def ms_on(self, machine: Machine) -> float:
        """Return the least time at the machine's measured rates if it moves and computes at once."""
        return max(self.mb / machine.copy_gb_per_second, 1e3 * self.gflop / machine.gflops)


def step_floor(config: Training) -> Floor:
    """Count the rows of a batch, each read and written once with its moments; stage two reads C more, and multiplies.

    All rows count as different, so the floor of a batch with repeated rows is a little lower.
    """
    pairs, negatives = config.batch_size, config.sampler.negatives
    rows = pairs * (2 + negatives)  # a user, a positive and N negatives each
    floats, products = 2 * _TABLES * rows * config.dim, 2 * pairs * (1 + negatives) * config.dim
    if isinstance(config.sampler, TwoStage):
        floats += _TABLES * config.sampler.candidates * config.dim
        products += 2 * pairs * config.sampler.candidates * config.dim
    return Floor(mb=_FLOAT * floats / 1e6, gflop=products / 1e9)
