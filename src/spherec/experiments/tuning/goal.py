"""What makes one config better than another."""

from dataclasses import dataclass
from typing import Literal, get_args

from spherec.errors import ArgumentError

Metric = Literal["ndcg", "map", "recall"]


@dataclass(frozen=True)
class Goal:
    """A metric on held-out pairs, and perhaps a limit on how popular the lists may be."""

    metric: Metric = "ndcg"
    "More is better; it also decides when a trial's training ends."
    k: int = 50
    "K, length of the lists."
    validation: float = 0.1
    "Share of each user's items that is held out."
    mmr_at_most: float | None = None
    "The largest MMR@K of the validation users' lists; what is above never wins, unless everything is."

    def __post_init__(self) -> None:
        if self.metric not in get_args(Metric):
            raise ArgumentError(f"metric must be one of {', '.join(get_args(Metric))}, got {self.metric!r}")
        if not isinstance(self.k, int) or self.k < 1:
            raise ArgumentError(f"k must be a whole number >= 1, got {self.k!r}")
        if not 0 < self.validation < 1:
            raise ArgumentError(f"validation must be a share between 0 and 1, got {self.validation:g}")
        if self.mmr_at_most is not None and not 0 <= self.mmr_at_most < float("inf"):
            raise ArgumentError(f"mmr_at_most must be a number >= 0, got {self.mmr_at_most}")

    @property
    def name(self) -> str:
        """The metric as it is shown: NDCG@50."""
        return f"{'Recall' if self.metric == 'recall' else self.metric.upper()}@{self.k}"

    def allows(self, mmr: float | None) -> bool:
        """Whether lists of this MMR are within the limit."""
        return self.mmr_at_most is None or mmr is None or not mmr > self.mmr_at_most

    def standing(self, metric: float, mmr: float) -> float:
        """One number by which trials are compared while they run: all above the limit come behind all within it."""
        return metric if self.allows(mmr) else metric - 1.0
