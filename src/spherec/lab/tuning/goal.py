"""Goal of tuning: what makes one config better than another."""

from dataclasses import dataclass

from spherec.errors import ArgumentError, quote
from spherec.evaluation import Metric
from spherec.evaluation.metrics import Formula, find_metric, format_metric, label_at
from spherec.lab.experiment import check_counts, check_validation
from spherec.lab.trial import is_within


@dataclass(frozen=True)
class Goal:
    """A metric on held-out pairs, and perhaps a limit on how popular the lists may be."""

    metric: str | Metric | Formula = "ndcg"
    "A metric by name, or one of your own. Higher must be better; it also decides when the training of a trial ends."
    k: int = 50
    "K, length of the lists."
    validation: float = 0.1
    "Share of each user's items that is held out."
    mmr_at_most: float | None = None
    "Upper limit on MMR@K of the validation lists; configs above it win only if all are."

    def __post_init__(self) -> None:
        if getattr(self.objective, "lower_is_better", False):
            raise ArgumentError(
                f"a search looks for the highest metric, but lower is better for {quote(self.objective.name)}; name "
                "another metric, or write one that returns the negative"
            )
        check_counts(self, k=1)
        check_validation(self.validation)

    @property
    def objective(self) -> Metric:
        """The metric as an object."""
        return find_metric(self.metric)

    @property
    def name(self) -> str:
        """The metric as it is shown: NDCG@50."""
        return label_at(self.objective, self.k)

    def format(self, value: float) -> str:
        """Return a value of the metric as tables show it, with "%" if it is in percent."""
        return format_metric(self.objective, value)

    def allows(self, mmr: float | None) -> bool:
        """Tell whether lists of this MMR are within the limit."""
        return is_within(mmr, self.mmr_at_most)

    def rate(self, value: float, mmr: float) -> float:
        """Return one number to compare running trials by: those above the limit come after all within it."""
        return value if self.allows(mmr) else value - 1.0
