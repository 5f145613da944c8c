"""Is one model better than another, or was it luck? A paired test over users."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student_t

from spherec.errors import ArgumentError
from spherec.evaluation.scores import Scores

Metric = Literal[
    "ap", "ndcg", "recall", "precision", "hit_rate", "reciprocal_rank", "median_popularity", "mean_popularity"
]


@dataclass(frozen=True)
class Difference:
    """One model less another, on the same users."""

    mean: float
    "Mean over users of the difference; above 0 the first has more."
    p_value: float
    "Of Student's paired t-test, two-sided: how likely so large a difference would be if there were none."
    better: int
    "Users for whom the first has more,"
    worse: int
    "and for whom the second has."


def difference(first: Scores, second: Scores, metric: Metric = "ndcg") -> Difference:
    """The difference of two models that were evaluated on the same users. Users with an empty list are left out."""
    if metric not in get_args(Metric):
        raise ArgumentError(f"metric must be one of {', '.join(get_args(Metric))}, got {metric!r}")
    if first.k != second.k or not np.array_equal(first.per_user.users, second.per_user.users):
        raise ArgumentError("the two must be evaluated on the same users and at the same k; evaluate both alike")
    return paired(getattr(first.per_user, metric), getattr(second.per_user, metric))


def paired(first: NDArray[np.floating[Any]], second: NDArray[np.floating[Any]]) -> Difference:
    """The difference of values (B,) that stand beside each other; pairs with a NaN are left out."""
    delta = np.subtract(first, second, dtype=np.float64)  # (B,)
    delta = delta[~np.isnan(delta)]
    if len(delta) < 2:
        raise ArgumentError(f"a paired test needs at least 2 users, got {len(delta)}")
    spread = delta.std(ddof=1)
    if spread <= 1e-12 * np.abs(delta).max():  # the same for all users
        p_value = 0.0 if np.any(delta) else 1.0
    else:
        statistic = abs(delta.mean()) * np.sqrt(len(delta)) / spread
        p_value = float(2 * student_t.sf(statistic, len(delta) - 1))
    return Difference(float(delta.mean()), p_value, int((delta > 0).sum()), int((delta < 0).sum()))
