"""Reproduce a table: every row is trained and tested on every fold, its config chosen from a small grid.

Several runs go on at once on a GPU that one alone cannot fill. What is recorded is not run again.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spherec import datasets
from spherec.data import splits
from spherec.data.archive import checksum
from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.device import DeviceName, resolve
from spherec.errors import ArgumentError, TrainingError
from spherec.evaluation import evaluate, validation_part
from spherec.geometry import DenseVectors
from spherec.lab.environment import environment_of
from spherec.lab.experiment import Experiment, Row
from spherec.lab.pool import Stage, Watch, run_all, workers_for
from spherec.lab.settings import differing_settings
from spherec.lab.store import RecordFile, Result, data_id
from spherec.lab.trial import best_trial, raise_if_interrupted, run_trial, train_validated
from spherec.training import EpochRecord, History, Training, train


def reproduce(
    experiment: Experiment | str,
    data: Interactions | None = None,
    *,
    records: str | PathLike[str],
    device: DeviceName | torch.device = "auto",
    folds: Iterable[int] | None = None,
    workers: int | None = None,
    watch: Watch | None = None,
) -> list[Result]:
    """Return the results of all rows on all folds (or on those named), running what is missing.

    `experiment` is an `Experiment` or the name of an embedded one, such as "book-crossing". `data` is by default the
    embedded Book-Crossing. `records` is the file that keeps what is done.
    """
    experiment = Experiment.embedded(experiment) if isinstance(experiment, str) else experiment
    data = _embedded_data(experiment) if data is None else data
    where = resolve(device)
    file = RecordFile(Path(records), Result)
    report = watch or (lambda _: None)
    parts = splits.k_fold(data, experiment.folds, seed=experiment.seed)
    known = {result.key: result for result in file}
    jobs = [
        (row, parts[blank.fold], known.get(blank.key), blank)
        for row, blank in _blank_results(experiment, data, folds, environment_of(where))
    ]

    def do(row: Row, part: Fold, done: Result | None, blank: Result) -> Result:
        if done is None:
            done = _run(experiment, row, part, blank, where, report)
            file.add(done)
        report(Stage(row.name, blank.fold, "done"))
        return done

    tasks = [partial(do, *job) for job in jobs]
    return run_all(tasks, workers_for(workers, where), where, longest_first=lambda at: len(jobs[at][0].choices))


def recorded_results(experiment: Experiment, data: Interactions, records: str | PathLike[str]) -> list[Result]:
    """Return what is recorded of all rows on all folds; run nothing."""
    known = {result.key: result for result in RecordFile(Path(records), Result)}
    blanks = (blank for _, blank in _blank_results(experiment, data, None, {}))
    return [known[blank.key] for blank in blanks if blank.key in known]


def _run(experiment: Experiment, row: Row, fold: Fold, blank: Result, device: torch.device, watch: Watch) -> Result:
    """Choose, train, test. The test pairs are not looked at before the test."""
    clock = [time.perf_counter()]
    inner = validation_part(fold.train, experiment.validation, seed=experiment.seed)
    tried = []
    for config in row.choices:
        progress = _progress(watch, blank, "choosing", config, len(fold.train))
        fit = partial(train_validated, config=config, k=experiment.k, device=device, progress=progress)
        tried.append(run_trial(inner, differing_settings(config, row.choices[0]), fit, k=experiment.k))
    trials = [trial for trial, _ in tried]
    chosen = best_trial(trials, mmr_at_most=row.mmr_at_most)
    if chosen is None:
        raise TrainingError(f"{row.name} cannot be trained: {trials[0].failed}")
    at = trials.index(chosen)
    clock.append(time.perf_counter())
    config = replace(row.choices[at], epochs=chosen.epochs)
    progress = _progress(watch, blank, "training", config, len(fold.train))
    model = raise_if_interrupted(train(fold.train, config, device=device, progress=progress)).vectors
    clock.append(time.perf_counter())
    watch(Stage(row.name, blank.fold, "testing"))
    scores = evaluate(model, fold.train, fold.test, k=experiment.k)
    clock.append(time.perf_counter())
    fitted = tried[at][1]
    history = fitted.history if fitted else None
    return replace(
        blank,
        settings=chosen.refit,
        trials=trials,
        scores=scores.summary(),
        curve=[epoch for epoch in history.as_records() if epoch["metric"] is not None] if history else [],
        seconds=dict(zip(("choosing", "training", "testing"), np.diff(clock).round(3).tolist(), strict=True)),
        digest=digest_of(model),
    )


def digest_of(model: DenseVectors) -> str:
    """Return a checksum of the vectors."""
    return checksum(model.user_table.cpu().numpy(), model.item_table.cpu().numpy())


def _embedded_data(experiment: Experiment) -> Interactions:
    if experiment.name not in ("book-crossing", "two-stage"):
        raise ArgumentError(f"the data of {experiment.name} is not embedded; give its interactions")
    return datasets.book_crossing()


def _blank_results(
    experiment: Experiment, data: Interactions, folds: Iterable[int] | None, environment: dict[str, str]
) -> Iterator[tuple[Row, Result]]:
    """Return each row with its result before it has run, fold after fold."""
    data_name = data_id(data)
    for fold in range(experiment.folds) if folds is None else folds:
        for row in experiment.rows:
            identity: dict[str, Any] = {
                "choices": [config.to_record() for config in row.choices],
                "mmr_at_most": row.mmr_at_most,
                "data": data_name,
                "folds": experiment.folds,
                "split_seed": experiment.seed,
                "k": experiment.k,
                "validation": experiment.validation,
            }
            yield row, Result(experiment.name, row.name, fold, identity, environment=environment)


def _progress(
    watch: Watch, blank: Result, doing: str, config: Training, pairs: int
) -> Callable[[EpochRecord, History], None]:
    epochs = config.plan(pairs).epochs
    return lambda epoch, _: watch(Stage(blank.model, blank.fold, doing, epoch.epoch, epochs))
