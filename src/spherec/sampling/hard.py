"""Hard negatives: the nearest to the user among a few drawn uniformly (dynamic negative sampling).

    argmin_k d²(u_i, v_k)        over m items k drawn uniformly from those that i does not have

Zhang et al., Optimizing Top-N Collaborative Filtering via Dynamic Negative Item Sampling (SIGIR 2013).
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.errors import check_count
from spherec.geometry import Geometry, squared_distance
from spherec.sampling.draw import ItemLaw
from spherec.sampling.sampler import Negatives, Sampler, Sampling


@dataclass(frozen=True)
class Hard(Sampling):
    """Nearest to the user among a few random items."""

    negatives: int = 1
    "N, negatives for each positive."
    candidates: int = 10
    "m, items drawn for each negative."
    draws_alike = True

    def __post_init__(self) -> None:
        check_count("negatives", self.negatives)
        check_count("candidates", self.candidates)

    def build(self, train: Interactions, device: torch.device, *, initial_items: Tensor) -> Sampler:  # noqa: ARG002
        return HardSampler(train, self.negatives, self.candidates, device)


class HardSampler:
    """N times, the best of m items that the user does not have, drawn uniformly with replacement.

    The nearest to the user is the best. An item may come twice. A user who has every item gets none, and their places
    are masked.
    """

    def __init__(self, train: Interactions, negatives: int, candidates: int, device: torch.device) -> None:
        self._shape = (negatives, candidates)  # N, m
        self._law = ItemLaw(train, np.ones(train.n_items), device)

    def penalize(self, distance: Tensor, users: Tensor, positives: Tensor, geometry: Geometry) -> Tensor:
        """Return penalties (B, n) of items at squared distances (B, n) to the user; the least is the best."""
        del users, positives, geometry
        return distance

    def probabilities(self, users: Tensor, positives: Tensor, geometry: Geometry) -> Tensor:
        """Return the law (B, I) of each negative for pairs (B,), (B,), where no two items are equally good.

        With A items to draw from, r of them better than this one, it is ((A − r) / A)^m − ((A − r − 1) / A)^m.
        """
        free = self._law.probabilities_for(users) > 0  # (B, I)
        everything = torch.arange(free.shape[1], device=users.device)[None]  # (1, I)
        distance = squared_distance(geometry.users(users), geometry.items(everything))  # (B, I)
        badness = self.penalize(distance, users, positives, geometry)
        better = badness.masked_fill(~free, float("inf")).argsort(1).argsort(1)  # (B, I)
        count = free.sum(1, keepdim=True).clamp_min(1).double()  # (B, 1)
        m = self._shape[1]
        law = ((count - better) / count) ** m - ((count - better - 1) / count) ** m
        return law.masked_fill(~free, 0.0)

    def sample(self, users: Tensor, positives: Tensor, geometry: Geometry, generator: torch.Generator) -> Negatives:
        n, m = self._shape
        items, valid = self._law.without(users, n * m, generator)  # (B, N m)
        distance = squared_distance(geometry.users(users), geometry.items(items))  # (B, N m)
        badness = self.penalize(distance, users, positives, geometry)
        best = badness.reshape(-1, n, m).argmin(2, keepdim=True)  # (B, N, 1)
        return Negatives(items.reshape(-1, n, m).gather(2, best)[..., 0], valid[:, :n])
