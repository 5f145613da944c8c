"""Evaluate recommendations: one way for all models, every user counted once."""

from spherec.evaluation.evaluator import ColdScores, EvaluationOptions, ItemLister, evaluate, evaluate_cold
from spherec.evaluation.foreign import GivenLists
from spherec.evaluation.metrics import METRICS, FormulaMetric, Metric, RankedLists
from spherec.evaluation.scores import Difference, PerUser, Scores, difference, paired
from spherec.evaluation.validation import Validation, hold_out, validation_part

__all__ = [
    "METRICS",
    "ColdScores",
    "Difference",
    "EvaluationOptions",
    "FormulaMetric",
    "GivenLists",
    "ItemLister",
    "Metric",
    "PerUser",
    "RankedLists",
    "Scores",
    "Validation",
    "difference",
    "evaluate",
    "evaluate_cold",
    "hold_out",
    "paired",
    "validation_part",
]
