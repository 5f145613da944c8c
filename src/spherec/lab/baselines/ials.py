"""iALS: matrix factorization in closed form, see `spherec.ials`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.ials import Ials, fit_ials
from spherec.lab.baselines.scored_ranker import ScoredRanker
from spherec.lab.models import ComparedModel, FitContext
from spherec.lab.records import Settings


class IalsBaseline(ComparedModel):
    """Two tables of factors, ranked by their products."""

    name = "ials"
    epochs_in, costly = "sweeps", "dim"
    search_space: Mapping[str, Sequence[Any]] = {
        "dim": (512, 256, 1024),
        "catalogue_weight": (1000.0, 30.0, 100.0, 300.0, 3000.0, 10_000.0),
        "regularization": (0.01, 0.0003, 0.001, 0.003, 0.03, 0.1),
        "sweeps": (16,),
    }

    def fit(self, train: Interactions, settings: Settings, context: FitContext) -> ScoredRanker:
        config = Ials(**{name: value for name, value in settings.items() if name != "dim"})
        factors = fit_ials(
            train,
            settings["dim"],
            config,
            seed=context.seed,
            device=context.device,
            progress=lambda sweeps: context.on_epoch(sweeps, config.sweeps),
        )

        def score_users(users: NDArray[np.int64]) -> Tensor:
            return factors.users[torch.as_tensor(users, device=context.device)] @ factors.items.T

        return ScoredRanker(score_users, train.n_items)
