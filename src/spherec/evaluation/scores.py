"""How good lists are, for each user and on the whole."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class PerUser:
    """The metrics of the users who have anything held out, one value each (B,)."""

    users: NDArray[np.int64]
    "User indices."
    ap: NDArray[np.float64]
    "Average precision, divided by min(held out, K)."
    ndcg: NDArray[np.float64]
    "Normalised discounted cumulative gain: binary, log2, ideal over min(held out, K)."
    recall: NDArray[np.float64]
    "Share of the held-out items in the list."
    precision: NDArray[np.float64]
    "Share of the K places that are hits."
    hit_rate: NDArray[np.float64]
    "1 with any hit, else 0."
    reciprocal_rank: NDArray[np.float64]
    "1 / rank of the first hit, 0 without any."
    median_popularity: NDArray[np.float64]
    "Median training count of the listed items; NaN for an empty list."
    mean_popularity: NDArray[np.float64]
    "Mean training count of the listed items; NaN for an empty list."


@dataclass(frozen=True)
class Scores:
    """The metrics of a model at list length K: means over the users who have anything held out."""

    k: int
    "K, length of the lists."
    per_user: PerUser
    "The values behind the means."
    coverage: float
    "Share of the catalogue that is in any list."
    gini: float
    "How unevenly the lists spread over the catalogue: 0 evenly, near 1 on a few items."
    users_without: int
    "Users with nothing held out: counted, not averaged."

    @property
    def map(self) -> float:
        """MAP@K: mean average precision."""
        return float(self.per_user.ap.mean())

    @property
    def ndcg(self) -> float:
        """NDCG@K."""
        return float(self.per_user.ndcg.mean())

    @property
    def recall(self) -> float:
        """Recall@K."""
        return float(self.per_user.recall.mean())

    @property
    def precision(self) -> float:
        """Precision@K."""
        return float(self.per_user.precision.mean())

    @property
    def hit_rate(self) -> float:
        """HitRate@K."""
        return float(self.per_user.hit_rate.mean())

    @property
    def mrr(self) -> float:
        """MRR@K: mean reciprocal rank."""
        return float(self.per_user.reciprocal_rank.mean())

    @property
    def mmr(self) -> float:
        """MMR@K: mean over users of the median training count of what they are recommended; lower is less popular."""
        return _mean_of_listed(self.per_user.median_popularity)

    @property
    def popularity(self) -> float:
        """Mean training count of what is recommended, averaged over users."""
        return _mean_of_listed(self.per_user.mean_popularity)

    def summary(self) -> dict[str, float]:
        """All numbers on the whole, by name."""
        names = ("map", "ndcg", "recall", "precision", "hit_rate", "mrr", "mmr", "popularity", "coverage", "gini")
        return {name: getattr(self, name) for name in names}


def _mean_of_listed(values: NDArray[np.float64]) -> float:
    """The mean (B,) over users whose list is not empty; NaN if all are."""
    listed = values[~np.isnan(values)]
    return float(listed.mean()) if len(listed) else float("nan")
