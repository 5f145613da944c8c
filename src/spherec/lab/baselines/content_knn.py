"""Content alone: items whose features are like those of the items that a user has.

    u = unit(Σ unit(x_j) over the user's items j)        score(u, j) = u · unit(x_j)

The baseline for new items, which no model of interactions can rank.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from spherec.data.feature_columns import unit_rows
from spherec.data.features import Features
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, quote
from spherec.geometry import DenseVectors
from spherec.lab.models import ComparedModel, FitContext
from spherec.lab.records import Settings
from spherec.ranking import ExactRanker


class ContentKnn(ComparedModel):
    """The items nearest to the mean of a user's items, by the cosine of their features.

    Items without features are never listed. It takes part in `compare(data, [ContentKnn(features), "ease"], …)`, and
    `ContentKnn(features).fit(train)` is a ranker for `evaluate` and `evaluate_cold`.
    """

    name = "content-knn"

    def __init__(self, features: Features) -> None:
        if not isinstance(features, Features):
            raise ArgumentError(f"features must be Features, got {quote(features)}; make them with read_features")
        self.features = features
        self.fixed: Mapping[str, Any] = {"features": features.fingerprint}

    def check(self, train: Interactions) -> None:
        self.features.align(train.item_ids)

    def fit(
        self,
        train: Interactions,
        settings: Settings | None = None,  # noqa: ARG002
        context: FitContext | None = None,
    ) -> ExactRanker:
        features = self.features.align(train.item_ids)
        items = unit_rows(features.matrix)  # (I, F)
        users = unit_rows(np.asarray(train.matrix @ items, dtype=np.float32))  # (U, F)
        device = None if context is None else context.device
        vectors = DenseVectors(torch.as_tensor(users, device=device), torch.as_tensor(items, device=device))
        return ExactRanker(vectors, listed=features.known)
