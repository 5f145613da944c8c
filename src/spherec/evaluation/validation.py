"""Validation during training: pairs held out, and one number for how good the vectors are."""

import numpy as np

from spherec.data import splits
from spherec.data.interactions import Interactions
from spherec.data.splits import Fold, check_share
from spherec.errors import DataError
from spherec.evaluation.metrics import Formula, Metric, RankedLists, compute_metric, find_metric, mean_of
from spherec.geometry import Vectors
from spherec.training.config import Training
from spherec.training.crew import Crew

VALIDATION_METRIC = "NDCG@50"
"""Name of the metric that `Validation` computes by default."""


def validation_part(data: Interactions, share: float, *, seed: int, crew: Crew | None = None) -> Fold:
    """Split off a share of each user's items to validate on."""
    tested = (splits if crew is None else crew).choose_share(data, share, seed)  # (E,)
    fold = Fold(data.filter(~tested), data.filter(tested))
    if not fold.test.n_pairs:  # of all processes together
        raise DataError(
            f"validation {share:g} holds nothing out, because no user has enough items: raise it, or train on "
            "everything, with validation 0 and a number of epochs (--validation 0 --epochs N)"
        )
    return fold


def hold_out(
    data: Interactions, config: Training, share: float | None, crew: Crew
) -> tuple[Interactions, "Validation | None"]:
    """Return the pairs to learn from and the validation on the others, None if nothing is held out.

    `share` is that of each user's items to hold out, 0 for none; None is `default_share(config)`.
    """
    share = default_share(config) if share is None else share
    check_share("validation", share, or_none=True)
    crew.check_alike({"validation": float(share)})  # before they do anything together
    if share == 0:
        return data, None
    fold = validation_part(data, share, seed=config.seed, crew=crew)
    return fold.train, Validation(fold.train, fold.test, crew=crew)


def default_share(config: Training) -> float:
    """Return the share to hold out by default: 5 %, or 0 with a schedule, because then there is no epoch to choose."""
    return 0.05 if config.optimizer.schedule == "constant" else 0.0


class Validation:
    """A metric on held-out pairs, by default NDCG@K: the mean over users with held-out pairs.

    All items are ranked except the training items of the user. Each of a `crew` ranks the users whose vectors it has.
    """

    def __init__(
        self,
        train: Interactions,
        held_out: Interactions,
        *,
        k: int = 50,
        metric: str | Metric | Formula = "ndcg",
        crew: Crew | None = None,
    ) -> None:
        if not held_out.n_pairs:
            raise DataError("there are no pairs held out to validate on; hold out more")
        self._train = train
        self._held_out = held_out
        self._k = k
        self._metric = find_metric(metric)
        self._crew = crew
        self._users = np.flatnonzero(held_out.items_per_user)  # (B,)

    def __call__(self, vectors: Vectors) -> float:
        """Return the metric of these vectors."""
        crew = self._crew or Crew(vectors.device)
        users, ranking = crew.rank(vectors, self._users, self._k, self._train)
        lists = RankedLists.build(ranking.items, users, self._train, self._held_out)
        return mean_of(crew.gather(compute_metric(self._metric, lists)))
