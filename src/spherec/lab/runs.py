"""Runs: one trial, the best of several, and several at once on a GPU that one alone cannot fill.

`reproduce` (a grid), `compare` (random search) and `tune` (TPE) all run trials with `run_trial` and choose with
`best_trial`. Test data plays no part here.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from spherec.data.splits import Fold
from spherec.device import enough_memory, stream_of_thread
from spherec.errors import TrainingError
from spherec.evaluation import ItemLister, Metric, evaluate
from spherec.evaluation.metrics import median_popularity, ndcg
from spherec.geometry import DenseVectors, Vectors
from spherec.lab.records import Settings, Trial
from spherec.training import EpochRecord, History, Run, Trained, Training, join, train

MMR = median_popularity.name
"""Name of the metric that limits on popularity refer to."""

_WORKERS_ON_GPU = 8
_Outcome = TypeVar("_Outcome")


@dataclass(frozen=True)
class FittedModel:
    """A model that a trial has fit, before it is scored."""

    model: DenseVectors | ItemLister
    epochs: int | None = None  # after which the validation metric was best
    history: History | None = None
    pruned: bool = False  # ended early as poor


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


class Cost(NamedTuple):
    """Seconds that a model takes on some data."""

    start: float  # of a fit, besides its epochs
    epoch: float
    user: float  # of a user's list and its metrics


def time_list(model: DenseVectors | ItemLister, part: Fold, k: int) -> float:
    """Return the seconds that the list of a user takes, from those of some hundred."""
    tested, clock = np.flatnonzero(part.test.items_per_user), []
    for users in (tested[:32], tested[:32], tested[:1024]):  # compile first
        some = part.test.filter(np.isin(part.test.users, users))
        began = time.perf_counter()
        evaluate(model, part.train, some, k=k)
        clock.append(time.perf_counter() - began)
    more = len(users) - 32
    return max(clock[2] - clock[1], 0) / more if more > 0 else clock[1] / len(users)


def best_trial(trials: Sequence[Trial], metric: str = ndcg.name, mmr_at_most: float | None = None) -> Trial | None:
    """Return the trial with the best metric among those within the limit on MMR; of equal ones the first.

    If all are above the limit, return the one with the lowest MMR. Return None if no trial is complete.
    """
    complete = [trial for trial in trials if trial.state == "complete"]
    within = [trial for trial in complete if mmr_at_most is None or not trial.scores[MMR] > mmr_at_most]
    if within:
        return max(within, key=lambda trial: trial.scores[metric])
    return min(complete, key=lambda trial: trial.scores[MMR], default=None)


def train_validated(
    part: Fold,
    config: Training,
    *,
    device: torch.device,
    validate: Callable[[Vectors], float],
    progress: Callable[[EpochRecord, History], None] | None = None,
    stop: Callable[[History], bool] | None = None,
) -> FittedModel:
    """Train on `part.train` with early stopping by `validate`; `stop` ends it as poor."""
    trained = train(Run(part.train, config, crew=join(device)), validate, progress=progress, stop=stop)
    history = raise_if_interrupted(trained).history
    epochs = history.best.epoch if history.best else len(history.epochs)
    return FittedModel(trained.vectors, epochs, history, trained.ended == "given up")


def raise_if_interrupted(trained: Trained) -> Trained:
    """Return the run, or raise KeyboardInterrupt if it was interrupted: a part of a run is no result."""
    if trained.ended == "interrupted":
        raise KeyboardInterrupt
    return trained


@dataclass(frozen=True)
class Stage:
    """Progress of a run."""

    model: str
    fold: int
    doing: str  # choosing (settings and epochs), training, testing, or done
    epoch: int = 0
    epochs: int = 0


Watch = Callable[[Stage], None]
"""Called with each new stage of a run."""


def run_all(tasks: Sequence[Callable[[], _Outcome]], workers: int | None, device: torch.device) -> list[_Outcome]:
    """Run tasks, some at once (by default 8 on a GPU, else 1), and return their outcomes in order.

    After Ctrl-C or a failed run, runs in progress are finished and no other begins.
    """
    on_gpu = device.type == "cuda"

    def do(task: Callable[[], _Outcome]) -> _Outcome:
        # Runs on a GPU do not wait for each other: each has a stream of its own.
        with torch.cuda.stream(stream_of_thread("run")) if on_gpu else contextlib.nullcontext():
            return task()

    workers = workers or (_WORKERS_ON_GPU if on_gpu else 1)
    if workers == 1:  # in this thread, which signals reach
        return [do(task) for task in tasks]
    with ThreadPoolExecutor(workers) as pool:
        try:
            return list(pool.map(do, tasks))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
