"""Tuning: which settings are best, by a validation part of the data. `tune` runs it and needs optuna.

from spherec.tuning import Goal, Space, parsed, tune

space = Space.of(Training(), parsed(["sampler.beta=0.1..1.0", "optimizer.learning_rate=1e-4..1e-2:log"]))
tuned = tune(data, space, Goal(metric="ndcg"), trials=50, storage="study.db")
tuned.best.values, tuned.config
"""

from typing import Any

from spherec.tuning.attempt import Attempts, Outcome
from spherec.tuning.defaults import usual
from spherec.tuning.goal import Goal
from spherec.tuning.record import Tried, Tuned, Watcher, best_of
from spherec.tuning.search import Choices, Domain, Range, parsed
from spherec.tuning.space import Space

__all__ = [
    "Attempts",
    "Choices",
    "Domain",
    "Goal",
    "Outcome",
    "Range",
    "Space",
    "Tried",
    "Tuned",
    "Watcher",
    "best_of",
    "parsed",
    "tune",
    "usual",
]


def __getattr__(name: str) -> Any:
    """`tune` is brought when it is asked for: it needs an extra."""
    if name == "tune":
        from spherec.tuning.study import tune

        return tune
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
