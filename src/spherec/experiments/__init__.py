"""Experiments: `reproduce` the paper's table, `compare` models, `tune` settings; three searches on one core.

`trial` runs one choice of settings, `store` keeps records, `table` makes tables of them. `reproduction` tries a grid,
`comparison` draws at random, `tuning` asks optuna.
"""

from typing import Any

from spherec.experiments.comparison.base import ComparedModel, FitContext, Peer
from spherec.experiments.comparison.content_knn import ContentKnn
from spherec.experiments.comparison.featured import FeaturedModel
from spherec.experiments.comparison.models import default_models, known_models
from spherec.experiments.comparison.ours import OurModel
from spherec.experiments.comparison.scored_ranker import ScoredRanker
from spherec.experiments.comparison.study import Comparison, ComparisonPlan, compare
from spherec.experiments.experiment import Experiment, Row
from spherec.experiments.paper import PaperRow, paper_rows
from spherec.experiments.reproduction import reproduce
from spherec.experiments.search_space import Choices, Range, SearchSpace, default_search, parse_searches
from spherec.experiments.store import RecordFile, Result
from spherec.experiments.table import TableRow
from spherec.experiments.trial import Trial, best_trial, run_trial
from spherec.experiments.tuning.goal import Goal

__all__ = [
    "Choices",
    "ComparedModel",
    "Comparison",
    "ComparisonPlan",
    "ContentKnn",
    "Experiment",
    "FeaturedModel",
    "FitContext",
    "Goal",
    "OurModel",
    "PaperRow",
    "Peer",
    "Range",
    "RecordFile",
    "Result",
    "Row",
    "ScoredRanker",
    "SearchSpace",
    "TableRow",
    "Trial",
    "best_trial",
    "compare",
    "default_models",
    "default_search",
    "known_models",
    "paper_rows",
    "parse_searches",
    "reproduce",
    "run_trial",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import `tune` when it is first used: it needs the extra "tune"."""
    if name == "tune":
        from spherec.experiments.tuning.study import tune

        return tune
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
