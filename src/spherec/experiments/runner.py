"""Runs of an experiment: several at once on a GPU that one alone cannot fill, and none that is recorded already."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from spherec.data import splits
from spherec.data.files import checksum
from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.evaluation import Validation, evaluate, validation_part
from spherec.experiments.environment import environment_of
from spherec.experiments.pool import run_all, workers_for
from spherec.experiments.records import Record, Records
from spherec.experiments.spec import Experiment, Row
from spherec.geometry import DenseVectors
from spherec.training import EpochRecord, History, Trained, Training, train


@dataclass(frozen=True)
class Stage:
    """Where a run is, for those who watch."""

    row: str
    fold: int
    doing: str
    "choosing (settings and epochs), training, testing, or done"
    epoch: int = 0
    epochs: int = 0


Watch = Callable[[Stage], None]


def run(
    experiment: Experiment,
    data: Interactions,
    records: Records,
    *,
    device: torch.device,
    folds: Iterable[int] | None = None,
    workers: int | None = None,
    watch: Watch | None = None,
) -> list[Record]:
    """The records of all rows on all folds (or those named), running what is missing."""
    tell = watch or (lambda _: None)
    parts = splits.k_fold(data, experiment.folds, seed=experiment.seed)
    known = {record.key: record for record in records}
    jobs = [
        (row, parts[blank.fold], known.get(blank.key), blank)
        for row, blank in _blanks(experiment, data, folds, environment_of(device))
    ]
    workers = workers_for(workers, device)

    def do(row: Row, part: Fold, done: Record | None, blank: Record) -> Record:
        if done is None:
            done = _one(experiment, row, part, blank, device, tell)
            records.add(done)
        tell(Stage(row.name, blank.fold, "done"))
        return done

    tasks = [partial(do, *job) for job in jobs]
    return run_all(tasks, workers, device, longest_first=lambda at: len(jobs[at][0].choices))


def recorded(experiment: Experiment, data: Interactions, records: Records) -> list[Record]:
    """What is there of all rows on all folds; runs nothing."""
    known = {record.key: record for record in records}
    blanks = (blank for _, blank in _blanks(experiment, data, None, {}))
    return [known[blank.key] for blank in blanks if blank.key in known]


def _one(experiment: Experiment, row: Row, fold: Fold, blank: Record, device: torch.device, watch: Watch) -> Record:
    """One run. Of the test pairs nothing is looked at before the last line but one."""
    clock = [time.perf_counter()]
    tries = [
        attempt(experiment, training, fold.train, device, _told(watch, blank, "choosing", training, len(fold.train)))
        for training in row.choices
    ]
    chosen = best_of(tries, row.mmr_at_most)
    clock.append(time.perf_counter())
    final = replace(chosen.training, epochs=chosen.epochs)
    progress = _told(watch, blank, "training", final, len(fold.train))
    model = whole(train(fold.train, final, device=device, progress=progress)).vectors
    clock.append(time.perf_counter())
    watch(Stage(row.name, blank.fold, "testing"))
    scores = evaluate(model, fold.train, fold.test, k=experiment.k)
    clock.append(time.perf_counter())
    return replace(
        blank,
        epochs=chosen.epochs,
        training=chosen.training.to_dict(),
        tried=[one.described() for one in tries],
        scores=scores.summary(),
        curve=[epoch for epoch in chosen.history.as_records() if epoch["metric"] is not None],
        seconds=dict(zip(("choosing", "training", "testing"), np.diff(clock).round(3).tolist(), strict=True)),
        digest=digest_of(model),
    )


@dataclass(frozen=True)
class Attempt:
    """What a config gave on the validation part."""

    training: Training
    history: History
    epochs: int
    "After which the validation metric was best."
    scores: dict[str, float]
    "Of the model after so many."

    def described(self) -> dict[str, Any]:
        """For the record."""
        return {"training": self.training.to_dict(), "epochs": self.epochs, "scores": self.scores}


def attempt(
    experiment: Experiment,
    training: Training,
    train_part: Interactions,
    device: torch.device,
    progress: Callable[[EpochRecord, History], None] | None = None,
) -> Attempt:
    """Train on all but a validation part of the training folds."""
    inner = validation_part(train_part, experiment.validation, seed=experiment.seed)
    trained = validated(inner, training, k=experiment.k, device=device, progress=progress)
    scores = evaluate(trained.vectors, inner.train, inner.test, k=experiment.k).summary()
    return Attempt(training, trained.history, best_epochs(trained.history), scores)


def validated(
    part: Fold,
    training: Training,
    *,
    k: int,
    device: torch.device,
    progress: Callable[[EpochRecord, History], None] | None = None,
) -> Trained:
    """Trained on the one part with early stopping by NDCG@k on the other."""
    validate = Validation(part.train, part.test, k=k)
    return whole(train(part.train, training, validate=validate, device=device, progress=progress))


def best_epochs(history: History) -> int:
    """After how many epochs the validation metric was best; all where nothing was validated."""
    return history.best.epoch if history.best else len(history.epochs)


def best_of(tries: Sequence[Attempt], mmr_at_most: float | None) -> Attempt:
    """The most accurate whose lists are not too popular; where all are too popular, the least so."""
    limit = float("inf") if mmr_at_most is None else mmr_at_most
    allowed = [one for one in tries if one.scores["mmr"] <= limit]
    if not allowed:
        return min(tries, key=lambda one: one.scores["mmr"])
    return max(allowed, key=lambda one: one.scores["ndcg"])


def whole(trained: Trained) -> Trained:
    """The same, unless it was interrupted: what has not come to its end is no result."""
    if trained.ended == "interrupted":
        raise KeyboardInterrupt
    return trained


def digest_of(model: DenseVectors) -> str:
    """A checksum of the vectors."""
    return checksum(model.user_table.cpu().numpy(), model.item_table.cpu().numpy())


def _blanks(
    experiment: Experiment, data: Interactions, folds: Iterable[int] | None, environment: dict[str, str]
) -> Iterator[tuple[Row, Record]]:
    """Each row with its record before it has run, fold after fold."""
    name = name_of(data)
    for fold in range(experiment.folds) if folds is None else folds:
        for row in experiment.rows:
            yield row, _blank(experiment, row, fold, name, environment)


def name_of(data: Interactions) -> str:
    """What tells data apart in a record."""
    return f"{data.n_users} users, {data.n_items} items, {checksum(data.indptr, data.indices)}"


def _blank(experiment: Experiment, row: Row, fold: int, data: str, environment: dict[str, str]) -> Record:
    """The record of a run before it has run."""
    identity: dict[str, Any] = {
        "choices": [training.to_dict() for training in row.choices],
        "mmr_at_most": row.mmr_at_most,
        "data": data,
        "folds": experiment.folds,
        "split_seed": experiment.seed,
        "k": experiment.k,
        "validation": experiment.validation,
    }
    return Record(experiment.name, row.name, fold, identity, 0, {}, [], {}, [], {}, environment)


def _told(
    watch: Watch, blank: Record, doing: str, training: Training, pairs: int
) -> Callable[[EpochRecord, History], None]:
    epochs = training.plan(pairs).epochs
    return lambda epoch, _: watch(Stage(blank.row, blank.fold, doing, epoch.epoch, epochs))
