"""Scores of a model: one number for each metric, the values of single users behind it, and a paired test of two."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from spherec.data.notebook_table import NotebookTable
from spherec.errors import ArgumentError, quote
from spherec.evaluation.metrics import Metric, RankedLists, Values, compute_metric, mean_of

_Value = TypeVar("_Value")


class _ByName(Generic[_Value]):
    """Values of metrics by name: `scores["ndcg"]` is `scores.ndcg`."""

    values: Mapping[str, _Value]

    def __getitem__(self, name: str) -> _Value:
        values: Mapping[str, _Value] = self.__dict__.get("values", {})  # none yet where a copy is being made
        if name not in values:
            raise ArgumentError(f"there is no metric {quote(name)} here; there are {', '.join(values)}")
        return values[name]

    def __getattr__(self, name: str) -> _Value:
        try:
            return self[name]
        except ArgumentError as error:
            raise AttributeError(str(error)) from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.values]


@dataclass(frozen=True, repr=False, eq=False)
class PerUser(_ByName[Values]):
    """The values of the users who have anything held out, one array (B,) for each metric: `per_user.ndcg`."""

    users: NDArray[np.int64]
    "(B,) user indices."
    values: Mapping[str, Values]
    "(B,) by the metric's name; only metrics of users have any."

    def __repr__(self) -> str:
        return f"PerUser({len(self.users):,} users: {', '.join(self.values)})"


@dataclass(frozen=True, repr=False)
class Scores(_ByName[float], NotebookTable):
    """The metrics of a model at list length K, as attributes and by name: `scores.ndcg` is `scores["ndcg"]`.

    A metric of users is the mean over those who have anything held out, users with NaN left out. Shares are fractions:
    an NDCG of 0.128 is 12.8 in tables, which show percent.
    """

    k: int
    "K, length of the lists."
    per_user: PerUser
    "The values of single users."
    values: Mapping[str, float]
    "The metrics by name."
    users_without: int
    "Users with nothing held out: counted, not averaged."

    @classmethod
    def compute(cls, metrics: Sequence[Metric], lists: RankedLists, users_without: int = 0) -> "Scores":
        """Apply metrics to lists."""
        results = {metric.name: compute_metric(metric, lists) for metric in metrics}
        of_users = {name: result for name, result in results.items() if isinstance(result, np.ndarray)}
        means = {name: mean_of(result) for name, result in results.items()}
        return cls(lists.k, PerUser(lists.users, of_users), means, users_without)

    def summary(self) -> dict[str, float]:
        """Return all numbers by name."""
        return dict(self.values)

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {value:.4g}" for name, value in self.values.items())
        return f"Scores(k={self.k}, {len(self.per_user.users):,} users: {figures})"


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
    """Compare two models that were evaluated on the same users. Users with an empty list are left out."""
    name = metric if isinstance(metric, str) else metric.name
    if first.k != second.k or not np.array_equal(first.per_user.users, second.per_user.users):
        raise ArgumentError("the two must be evaluated on the same users and at the same k; evaluate both alike")
    return paired(first.per_user[name], second.per_user[name])


def paired(first: NDArray[np.floating[Any]], second: NDArray[np.floating[Any]]) -> Difference:
    """Compare two arrays (B,) value by value; pairs with a NaN are left out."""
    delta = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)  # (B,)
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
