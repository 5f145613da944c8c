"""Scores of a model: one number for each metric, and the values of single users behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from spherec.errors import ArgumentError, quote
from spherec.evaluation.metrics import OTHER_NAMES, Metric, RankedLists, Values, compute_metric, mean_of, per_user_name

_Value = TypeVar("_Value")


class _ByName(Generic[_Value]):
    """Values of metrics by name: `scores["ndcg"]` is `scores.ndcg`."""

    values: Mapping[str, _Value]

    def __getitem__(self, name: str) -> _Value:
        values: Mapping[str, _Value] = self.__dict__.get("values", {})  # none yet where a copy is being made
        name = name if name in values else OTHER_NAMES.get(name, name)
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
    "(B,) by the metric's name for single users: `ap` for MAP, `median_popularity` for MMR."

    def __repr__(self) -> str:
        return f"PerUser({len(self.users):,} users: {', '.join(self.values)})"


@dataclass(frozen=True, repr=False)
class Scores(_ByName[float]):
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
        of_users: dict[str, Values] = {}
        values: dict[str, float] = {}
        for metric in metrics:
            result = compute_metric(metric, lists)
            if isinstance(result, np.ndarray):
                of_users[per_user_name(metric)] = result
            values[metric.name] = mean_of(result)
        return cls(lists.k, PerUser(lists.users, of_users), values, users_without)

    def summary(self) -> dict[str, float]:
        """Return all numbers by name."""
        return dict(self.values)

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {value:.4g}" for name, value in self.values.items())
        return f"Scores(k={self.k}, {len(self.per_user.users):,} users: {figures})"
