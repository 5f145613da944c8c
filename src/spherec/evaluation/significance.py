"""Is one model better than another, or was it luck? A paired test over users."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import ttest_rel

from spherec.errors import ArgumentError
from spherec.evaluation.scores import Scores

Metric = Literal["ap", "ndcg", "recall", "precision", "hit_rate", "reciprocal_rank", "median_popularity"]


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
    """The difference of two models that were evaluated on the same users."""
    if not np.array_equal(first.per_user.users, second.per_user.users):
        raise ArgumentError("the two were evaluated on different users; evaluate both on the same test pairs")
    ones, others = getattr(first.per_user, metric), getattr(second.per_user, metric)  # (B,)
    delta = ones - others
    p_value = float(ttest_rel(ones, others).pvalue) if np.any(delta != delta[0]) else float(not np.any(delta))
    return Difference(float(delta.mean()), p_value, int((delta > 0).sum()), int((delta < 0).sum()))
