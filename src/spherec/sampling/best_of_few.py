"""The best of a few uniform draws, by how far they lie from the user: what hard and semi-hard sampling share."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.geometry import Geometry, squared_distance
from spherec.sampling.draw import Draw
from spherec.sampling.sampler import Negatives

Penalty = Callable[[Tensor], Tensor]
"""From squared distances to the user (B, n) to what makes an item worse (B, n): the least is the best."""


class BestOfFew:
    """N times, the best of m items that the user does not have, drawn uniformly with replacement."""

    def __init__(self, train: Interactions, negatives: int, candidates: int, device: torch.device) -> None:
        self._shape = (negatives, candidates)  # N, m
        self._draw = Draw(train, np.ones(train.n_items), device)

    def probabilities(self, users: Tensor, penalty: Penalty, geometry: Geometry) -> Tensor:
        """The law (B, I) of each negative, where no two items are equally good.

        With A items to draw from, r of them better than this one, it is ((A − r) / A)^m − ((A − r − 1) / A)^m.
        """
        free = self._draw.probabilities_for(users) > 0  # (B, I)
        everything = torch.arange(free.shape[1], device=users.device)[None]  # (1, I)
        badness = penalty(squared_distance(geometry.users(users), geometry.items(everything)))  # (B, I)
        better = badness.masked_fill(~free, float("inf")).argsort(1).argsort(1)  # (B, I)
        count = free.sum(1, keepdim=True).clamp_min(1).double()  # (B, 1)
        m = self._shape[1]
        law = ((count - better) / count) ** m - ((count - better - 1) / count) ** m
        return law.masked_fill(~free, 0.0)

    def sample(self, users: Tensor, penalty: Penalty, geometry: Geometry, generator: torch.Generator) -> Negatives:
        """N negatives for each of users (B,)."""
        n, m = self._shape
        items, valid = self._draw.without(users, n * m, generator)  # (B, N m)
        distance = squared_distance(geometry.users(users), geometry.items(items))  # (B, N m)
        best = penalty(distance).reshape(-1, n, m).argmin(2, keepdim=True)  # (B, N, 1)
        return Negatives(items.reshape(-1, n, m).gather(2, best)[..., 0], valid[:, :n])
