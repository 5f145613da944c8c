"""Experiments: `reproduce` the paper's table, `compare` models, `tune` settings; three searches on one core.

`runs` fits one choice of settings, `records` keeps results, `tables` makes tables of them. `comparison` draws at
random, `reproduction` tries a grid, `tuning` asks optuna.
"""

from typing import Any

from spherec.lab.baselines.content_knn import ContentKnn
from spherec.lab.baselines.scored_ranker import ScoredRanker
from spherec.lab.comparison import Comparison, ComparisonPlan, compare
from spherec.lab.models import ComparedModel, FitContext, OurModel
from spherec.lab.records import RecordFile, Result, Trial
from spherec.lab.registry import default_models, known_models
from spherec.lab.reproduction import Experiment, Reproduction, Row, paper_rows
from spherec.lab.runs import best_trial, run_trial
from spherec.lab.search_space import Choices, Range, SearchSpace, default_search, parse_searches
from spherec.lab.tables import TableRow

_NEED_OPTUNA = ("Goal", "StudyOptions", "tune")

__all__ = [
    "Choices",
    "ComparedModel",
    "Comparison",
    "ComparisonPlan",
    "ContentKnn",
    "Experiment",
    "FitContext",
    "Goal",
    "OurModel",
    "Range",
    "RecordFile",
    "Reproduction",
    "Result",
    "Row",
    "ScoredRanker",
    "SearchSpace",
    "StudyOptions",
    "TableRow",
    "Trial",
    "best_trial",
    "compare",
    "default_models",
    "default_search",
    "known_models",
    "paper_rows",
    "parse_searches",
    "run_trial",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import what needs the extra "tune" when it is first used."""
    if name in _NEED_OPTUNA:
        from spherec.lab import tuning

        return getattr(tuning, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
