"""The most popular items for everybody: what any model must beat."""

from typing import ClassVar

import numpy as np
import torch

from spherec.compare.contender import How, Peer, Settings, Space
from spherec.compare.scored import ScoredRanker
from spherec.data.interactions import Interactions


class MostPopular(Peer):
    """Items by how many users have them; of equally popular ones the lower index first."""

    name = "most-popular"
    space: ClassVar[Space] = {}

    def fit(self, train: Interactions, settings: Settings, how: How) -> ScoredRanker:  # noqa: ARG002
        """Count."""
        order = np.argsort(-train.users_per_item, kind="stable")  # (I,)
        place = np.empty(train.n_items, dtype=np.float32)
        place[order] = np.arange(train.n_items)
        scores = -torch.as_tensor(place, device=how.device)  # (I,) all different, so that no ties are left
        return ScoredRanker(lambda users: scores.repeat(len(users), 1), train.n_items)
