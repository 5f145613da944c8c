"""GF-CF, a graph filter (Shen and others, How Powerful is Graph Convolution for Recommendation?, CIKM 2021).

    scores = R (P + α D_I^-½ V Vᵀ D_I^½)        P = R̃ᵀ R̃        R̃ = D_U^-½ R D_I^-½

P is a linear low-pass filter on the graph of items. V Vᵀ is the ideal one: V has the first right singular vectors of R̃.
Nothing is trained.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.lab.baselines.item_graph import ItemGraph
from spherec.lab.baselines.scored_ranker import ScoredRanker
from spherec.lab.models import ComparedModel, FitContext
from spherec.lab.records import Settings


class GfCf(ComparedModel):
    """A linear and an ideal low-pass filter on the graph of items. The default settings are those of the authors."""

    name = "gf-cf"
    search_space: Mapping[str, Sequence[Any]] = {"alpha": (0.3, 0.1, 1.0, 3.0), "vectors": (256, 64, 512)}

    def fit(self, train: Interactions, settings: Settings, context: FitContext) -> ScoredRanker:
        """Compute the singular vectors."""
        graph = ItemGraph(train, context.device)
        of_users, of_items = graph.low_pass(settings["vectors"], 0.5, context.seed)  # (U, n), (n, I)

        def score_users(users: NDArray[np.int64]) -> Tensor:
            signal = graph.signal(users)  # (I, b)
            linear = graph.add_smoothed(signal, torch.zeros_like(signal), 1.0).T  # (b, I)
            rows = of_users[torch.as_tensor(users, device=context.device)]  # (b, n)
            return torch.addmm(linear, rows, of_items, alpha=settings["alpha"])  # (b, I)

        return ScoredRanker(score_users, train.n_items)
