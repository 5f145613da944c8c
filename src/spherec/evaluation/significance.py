"""Paired t-test over users: is one model better than another, or was it luck?"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from spherec.errors import ArgumentError, quote
from spherec.evaluation.metrics import METRICS, OTHER_NAMES, Metric, per_user_name
from spherec.evaluation.scores import Scores


@dataclass(frozen=True)
class Difference:
    """One model minus another, on the same users."""

    mean: float
    "Mean difference over users; above 0 the first model has more."
    p_value: float
    "Two-sided p-value of Student's paired t-test: how likely so large a difference is if there is none."
    better: int
    "Number of users for whom the first model has more."
    worse: int
    "Number of users for whom the second model has more."


def difference(first: Scores, second: Scores, metric: str | Metric = "ndcg") -> Difference:
    """Compare two models that were evaluated on the same users. Users with an empty list are left out.

    `metric` is a metric of single users, by its name ("map") or by that of its values ("ap").
    """
    name = _name_of_values(metric)
    known = first.per_user.values.keys() & second.per_user.values.keys()
    if name not in known:
        names = ", ".join(f"{OTHER_NAMES[one]} ({one})" if one in OTHER_NAMES else one for one in sorted(known))
        why = "has no values of single users" if name in first.values and name in second.values else "is not in both"
        raise ArgumentError(f"metric must be one of {names}, got {quote(name)}, which {why}")
    if first.k != second.k or not np.array_equal(first.per_user.users, second.per_user.users):
        raise ArgumentError("the two must be evaluated on the same users and at the same k; evaluate both alike")
    return paired(first.per_user[name], second.per_user[name])


def paired(first: NDArray[np.floating[Any]], second: NDArray[np.floating[Any]]) -> Difference:
    """Compare two arrays (B,) value by value; pairs with a NaN are left out."""
    first, second = (np.asarray(values, dtype=np.float64) for values in (first, second))
    delta = first - second  # (B,)
    delta = delta[~np.isnan(delta)]
    if len(delta) < 2:
        raise ArgumentError(f"a paired test needs at least 2 users, got {len(delta)}")
    spread = delta.std(ddof=1)
    if spread <= 1e-12 * np.abs(delta).max():  # the same for all users, where t has no value
        p_value = 0.0 if np.any(delta) else 1.0
    else:
        t = delta.mean() / spread * np.sqrt(len(delta))
        p_value = float(2 * stdtr(len(delta) - 1, -abs(t)))  # the area of both tails of Student's law
    return Difference(float(delta.mean()), p_value, int((delta > 0).sum()), int((delta < 0).sum()))


def _name_of_values(metric: str | Metric) -> str:
    if not isinstance(metric, str):
        return per_user_name(metric)
    return next((per_user_name(built_in) for built_in in METRICS if built_in.name == metric), metric)
