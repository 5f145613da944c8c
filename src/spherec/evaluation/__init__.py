"""Evaluate recommendations: one way for all models, every user counted once."""

from spherec.evaluation.evaluator import ItemLister, evaluate, score
from spherec.evaluation.metrics import METRICS, Metric, RankedLists
from spherec.evaluation.scores import PerUser, Scores
from spherec.evaluation.significance import Difference, difference, paired
from spherec.evaluation.validation import Validation, validation_part

__all__ = [
    "METRICS",
    "Difference",
    "ItemLister",
    "Metric",
    "PerUser",
    "RankedLists",
    "Scores",
    "Validation",
    "difference",
    "evaluate",
    "paired",
    "score",
    "validation_part",
]
