"""The most popular items for everybody: the baseline that any model must beat."""

import numpy as np
import torch

from spherec.data.interactions import Interactions
from spherec.lab.baselines.scored_ranker import ScoredRanker
from spherec.lab.models import ComparedModel, FitContext
from spherec.lab.records import Settings


class MostPopular(ComparedModel):
    """Items by how many users have them; of equally popular ones the lower index first."""

    name = "most-popular"

    def fit(self, train: Interactions, settings: Settings, context: FitContext) -> ScoredRanker:  # noqa: ARG002
        order = np.argsort(-train.users_per_item, kind="stable")  # (I,)
        place = np.empty(train.n_items, dtype=np.float32)
        place[order] = np.arange(train.n_items)
        scores = -torch.as_tensor(place, device=context.device)  # (I,) all different, so that no ties are left
        return ScoredRanker(lambda users: scores.repeat(len(users), 1), train.n_items)
