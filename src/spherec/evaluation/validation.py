"""One number for how good a model is while it learns."""

import numpy as np

from spherec.data import splits
from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.errors import ArgumentError, DataError
from spherec.evaluation.metrics import Formula, Metric, RankedLists, find_metric
from spherec.evaluation.scores import mean_of
from spherec.geometry import Vectors
from spherec.ranking import ExactRanker


def validation_part(
    data: Interactions, share: float, *, seed: int, otherwise: str = "give data in which users have more items"
) -> Fold:
    """What to learn from, and a share of each user's items to choose on.

    `otherwise` is what the caller can do where no share holds anything out, for the message.
    """
    fold = splits.ratio(data, share, seed=seed)
    if not len(fold.test):
        if data.items_per_user.max(initial=0) < 2:
            raise DataError(f"no user has two items, so none can be held out to choose on; {otherwise}")
        raise ArgumentError(f"validation {share:g} holds nothing out, for no user has enough items; raise it")
    return fold


class Validation:
    """A metric on held-out pairs, by default NDCG@K: the mean over users with held-out pairs.

    All items are ranked except the training items of the user.
    """

    def __init__(
        self, train: Interactions, held_out: Interactions, *, k: int = 50, metric: str | Metric | Formula = "ndcg"
    ) -> None:
        if not len(held_out):
            raise DataError("there are no pairs held out to validate on; hold out more")
        self._train = train
        self._held_out = held_out
        self._k = k
        self._metric = find_metric(metric)
        self._users = np.flatnonzero(held_out.items_per_user)  # (B,)

    def __call__(self, vectors: Vectors) -> float:
        """Return the metric of these vectors."""
        ranking = ExactRanker(vectors).top(self._users, self._k, without=self._train)
        lists = RankedLists.build(ranking.items, self._users, self._train, self._held_out)
        return mean_of(self._metric(lists))
