"""Experiments: `reproduce` the paper's table, `compare` models, `tune` settings; three searches on one core.

`trial` runs one choice of settings, `store` keeps records, `table` makes tables of them. `reproduction` tries a grid,
`comparison` draws at random, `tuning` asks optuna.
"""

from typing import Any

from spherec.lab.baselines.content_knn import ContentKnn
from spherec.lab.baselines.scored_ranker import ScoredRanker
from spherec.lab.comparison import Comparison, ComparisonPlan, compare
from spherec.lab.experiment import Experiment, Row
from spherec.lab.featured import FeaturedModel
from spherec.lab.model import Baseline, ComparedModel, FitContext
from spherec.lab.ours import OurModel
from spherec.lab.paper import PaperRow, paper_rows
from spherec.lab.registry import default_models, known_models
from spherec.lab.reproduction import reproduce
from spherec.lab.search_space import Choices, Range, SearchSpace, default_search, parse_searches
from spherec.lab.store import RecordFile, Result
from spherec.lab.table import TableRow
from spherec.lab.trial import Trial, best_trial, run_trial
from spherec.lab.tuning.goal import Goal

__all__ = [
    "Baseline",
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
        from spherec.lab.tuning.study import tune

        return tune
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
