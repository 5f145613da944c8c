"""One trial: a model is fit with some settings on one part of the data and scored on a validation part.

Grid search (`reproduce`), random search (`compare`) and TPE (`tune`) all run trials with `run_trial` and choose with
`best_trial`. Test data plays no part here.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from spherec.data.splits import Fold
from spherec.errors import TrainingError
from spherec.evaluation import ItemLister, Metric, Validation, evaluate, score
from spherec.evaluation.metrics import median_popularity, ndcg
from spherec.geometry import DenseVectors, Vectors
from spherec.lab.settings import Settings
from spherec.ranking import ExactRanker
from spherec.training import EpochRecord, History, Trained, Training, train
from spherec.training.trainer import enough_memory

TrialState = Literal["complete", "pruned", "failed"]

MMR = median_popularity.name
"""Name of the metric that limits on popularity refer to."""


@dataclass(frozen=True)
class Trial:
    """Settings that were tried, and how good they were."""

    settings: Settings
    "Values of the settings that are searched, by dotted names."
    scores: Mapping[str, float] = field(default_factory=dict)
    "Metrics on the validation part, by name; empty where it failed."
    epochs: int | None = None
    "Epochs after which the validation metric was best; None for a model without early stopping."
    seconds: float = 0.0
    failed: str = ""
    "Reason why it could not be fit; empty where it could."
    pruned: bool = False
    "True if it was ended early as poor."
    number: int = 0
    "Position in the search, counted from 0."

    @property
    def state(self) -> TrialState:
        """State in which it ended."""
        return "failed" if self.failed else "pruned" if self.pruned else "complete"

    @property
    def refit(self) -> dict[str, Any]:
        """The settings to fit the model with again, on all training data."""
        return {**self.settings} if self.epochs is None else {**self.settings, "epochs": self.epochs}


@dataclass(frozen=True)
class FittedModel:
    """A model that a trial has fit, before it is scored."""

    model: DenseVectors | ItemLister
    epochs: int | None = None
    "Epochs after which the validation metric was best."
    history: History | None = None
    pruned: bool = False
    "True if it was ended early as poor."


def run_trial(
    part: Fold,
    settings: Settings,
    fit: Callable[[Fold], FittedModel],
    *,
    k: int,
    metrics: Sequence[Metric] | None = None,
) -> tuple[Trial, FittedModel | None]:
    """Fit a model on `part.train`, score it on `part.test`. A model that cannot learn makes a failed trial."""
    began = time.perf_counter()
    try:
        with enough_memory():
            fitted = fit(part)
            scores = evaluate(fitted.model, part.train, part.test, k=k, metrics=metrics).summary()
    except TrainingError as error:
        return Trial(settings, failed=str(error), seconds=time.perf_counter() - began), None
    seconds = time.perf_counter() - began
    return Trial(settings, scores, fitted.epochs, seconds, pruned=fitted.pruned), fitted


def best_trial(trials: Sequence[Trial], metric: str = ndcg.name, mmr_at_most: float | None = None) -> Trial | None:
    """Return the trial with the best metric among those within the limit on MMR; of equal ones the first.

    If all are above the limit, return the one with the lowest MMR. Return None if no trial is complete.
    """
    complete = [trial for trial in trials if trial.state == "complete"]
    within = [trial for trial in complete if is_within(trial.scores.get(MMR), mmr_at_most)]
    if within:
        return max(within, key=lambda trial: trial.scores[metric])
    return min(complete, key=lambda trial: trial.scores[MMR], default=None)


def is_within(mmr: float | None, limit: float | None) -> bool:
    """Tell whether lists of this MMR keep the limit; no MMR and no limit always do."""
    return limit is None or mmr is None or not mmr > limit


GiveUp = Callable[[History, float], bool]
"""Called after each validation with the MMR of its lists; returns True to end the trial as poor."""


def train_validated(
    part: Fold,
    config: Training,
    *,
    k: int,
    device: torch.device,
    metric: Metric = ndcg,
    progress: Callable[[EpochRecord, History], None] | None = None,
    give_up: GiveUp | None = None,
) -> FittedModel:
    """Train on `part.train` with early stopping by a metric on `part.test`."""
    if give_up is None:
        validate: Callable[[Vectors], float] = Validation(part.train, part.test, k=k, metric=metric)
        trained = train(part.train, config, validate=validate, device=device, progress=progress)
    else:
        looks = _ValidationWithMmr(part, k, metric)
        trained = train(
            part.train,
            config,
            validate=looks,
            device=device,
            progress=progress,
            stop=lambda history: give_up(history, looks.mmr),
        )
    history = raise_if_interrupted(trained).history
    epochs = history.best.epoch if history.best else len(history.epochs)
    return FittedModel(trained.vectors, epochs, history, trained.ended == "given up")


def raise_if_interrupted(trained: Trained) -> Trained:
    """Return the run, or raise KeyboardInterrupt if it was interrupted: a part of a run is no result."""
    if trained.ended == "interrupted":
        raise KeyboardInterrupt
    return trained


class _ValidationWithMmr:
    """The validation metric, with the MMR of the same lists."""

    def __init__(self, part: Fold, k: int, metric: Metric) -> None:
        self.mmr = 0.0
        self._part, self._k, self._metric = part, k, metric
        self._users = np.flatnonzero(part.test.items_per_user)  # (B,)

    def __call__(self, vectors: Vectors) -> float:
        ranking = ExactRanker(vectors).top(self._users, self._k, without=self._part.train)
        wanted = (self._metric,) if self._metric.name == MMR else (self._metric, median_popularity)
        scores = score(ranking, self._users, self._part.train, self._part.test, k=self._k, metrics=wanted)
        self.mmr = float(np.nan_to_num(scores[MMR]))  # lists are empty where users have all items
        return scores[self._metric.name]
