"""The same model written the obvious way: what a first implementation in torch and NumPy looks like.

It shares with what is measured beside it the data, the settings and the first vectors, and no code. Nothing in it is
slow on purpose: negatives are drawn for the whole batch where one call of NumPy can, and looked at pair by pair where
it cannot. `torch.optim.Adam` is dense, as the paper's optimiser is.
"""

from collections.abc import Callable

import numpy as np
import torch
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

Items = NDArray[np.int64]


class PlainTraining:
    """Two embeddings on the sphere, a hinge, Adam over all parameters; trains on the device of the initial rows."""

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
        self._order = np.empty(0, dtype=np.int64)  # of the pairs that are left of this epoch
        if not isinstance(config.sampler, Uniform):
            seen = data.users_per_item  # (I,)
            law = np.where(seen > 0, np.maximum(seen, 1.0) ** config.sampler.beta, 0.0)
            self._law = law / law.sum()  # (I,)

    @property
    def vectors(self) -> DenseVectors:
        """All users and items as they are now."""
        users, items = (normalize(table.weight.detach(), dim=1) for table in (self.users, self.items))
        return DenseVectors(users, items)

    def step(self) -> int:
        """Learn from the next batch; gives back how many pairs it had."""
        if not len(self._order):
            self._order = self._random.permutation(len(self._data))
        batch, self._order = np.split(self._order, [self.config.batch_size])  # (B,) the last one may be smaller
        users, positives = (column[batch] for column in self._pairs)
        negatives = self.negatives(users, positives)  # (B, N)
        user, positive = self._looked_up(self.users, users), self._looked_up(self.items, positives)  # (B, D)
        negative = self._looked_up(self.items, negatives)  # (B, N, D)
        near = (user - positive).square().sum(-1)  # (B,)
        far = (user[:, None] - negative).square().sum(-1).amin(1)  # (B,)
        loss = (near - far + self.margin).clamp_min(0).sum()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return len(batch)

    def negatives(self, users: Items, positives: Items) -> Items:
        """N items (B, N) that users (B,) do not have. A user who has everything is waited for in vain."""
        match self.config.sampler:
            case Uniform():
                return self._not_own(users, lambda size: self._random.integers(self._data.n_items, size=size))
            case Popularity():
                return self._not_own(users, lambda size: self._random.choice(len(self._law), size=size, p=self._law))
            case TwoStage() as config:
                return self._two_stage(config, users, positives)
            case other:
                raise ArgumentError(f"the baseline does not know {other}")

    def _looked_up(self, table: nn.Embedding, index: Items) -> Tensor:
        return normalize(table(torch.as_tensor(index, device=table.weight.device)), dim=-1)

    def _not_own(self, users: Items, draw: Callable[[tuple[int, ...]], Items]) -> Items:
        """Items (B, N) as they are drawn, those that a user has drawn again."""
        drawn = draw((len(users), self.config.sampler.negatives))
        for row, user in enumerate(users.tolist()):
            own = self._own[user]
            for place, item in enumerate(drawn[row].tolist()):
                again = item
                while again in own:
                    again = int(draw(()))
                drawn[row, place] = again
        return drawn

    def _two_stage(self, config: TwoStage, users: Items, positives: Items) -> Items:
        """Candidates for the batch, then for each pair those that lie near the positive."""
        count = min(config.candidates, int(np.count_nonzero(self._law)))
        candidates = self._random.choice(len(self._law), count, replace=False, p=self._law)  # (C,)
        with torch.no_grad():
            ones, others = (self._looked_up(self.items, index) for index in (positives, candidates))
            similarity = (ones @ others.T).cpu().numpy().astype(np.float64)  # (B, C)
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
    """The k nearest items (B, k) of users (B,), one user after the other, their own left out."""
    lists = []
    for user in users.tolist():
        scores = vectors.item_table @ vectors.user_table[user]  # (I,)
        scores[torch.as_tensor(without.items_of(user).astype(np.int64), device=scores.device)] = float("-inf")
        lists.append(scores.topk(k).indices.cpu().numpy())
    return np.stack(lists)
