"""The loop: epochs of batches of steps, with validation, early stopping and checkpoints around them."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike
from typing import Literal

import torch

from spherec import rng
from spherec.data.interactions import Interactions
from spherec.device import DeviceName, resolve
from spherec.errors import ArgumentError, DataError, TrainingError
from spherec.geometry import DenseVectors, Vectors
from spherec.threads import threads_for
from spherec.training.checkpoint import CheckpointFile, fingerprint
from spherec.training.config import Training
from spherec.training.history import EpochRecord, History
from spherec.training.interrupt import interruptible
from spherec.training.run import Run
from spherec.training.standing import Standing
from spherec.training.steps import steps
from spherec.training.timer import Timer

Validate = Callable[[Vectors], float]
"""How good the vectors are; more is better."""

Ended = Literal["all epochs done", "no better for a while", "given up", "interrupted"]

Stop = Callable[[History], bool]
"""Asked after each look at the validation metric: whether the run is not worth going on with."""

ProgressCallback = Callable[[EpochRecord, History], None]
"""Told every so often how far the epoch in progress has come, with the epochs before it; and of each that ended."""

_SECONDS_BETWEEN_REPORTS = 0.2


@dataclass(frozen=True)
class Trained:
    """What a run leaves."""

    vectors: DenseVectors
    "The best by the validation metric; without one, the last."
    config: Training
    "How it was trained."
    history: History
    "What happened, epoch by epoch."
    ended: Ended
    "Why the run ended."


def train(
    data: Interactions,
    config: Training | None = None,
    *,
    validate: Validate | None = None,
    device: DeviceName | torch.device = "auto",
    initial: DenseVectors | None = None,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_seconds: float = 300.0,
    resume: bool = False,
    progress: ProgressCallback | None = None,
    stop: Stop | None = None,
) -> Trained:
    """Train a model on `data`, beginning with `initial`, or with random vectors.

    The same data, config and device give the same vectors. Ctrl-C ends the run after the step in progress, with the
    best model so far. `checkpoint` names a file that is written every so many seconds and at the end; with `resume`,
    training goes on from it as if it had never stopped. `stop` may give a poor run up.
    """
    if not len(data):
        raise DataError("there are no pairs to train on; give interactions with some")
    config = config or Training()
    plan = config.plan(len(data))
    where = resolve(device)
    if not checkpoint_seconds >= 0:
        raise ArgumentError(f"checkpoint_seconds must be >= 0, got {checkpoint_seconds}")
    run, standing, file = Run(data, config, _start(data, config, initial, where)), Standing(), None
    if checkpoint is not None:
        file = CheckpointFile(checkpoint, fingerprint(data, config, initial, where, validated=validate is not None))
        standing = file.load(run) if resume else standing
    elif resume:
        raise ArgumentError("resume is True, but no checkpoint was named; give the path of one")

    users, items = (torch.tensor(one, device=where) for one in (data.users, data.indices))  # (E,), (E,)
    walk = steps(run, (users, items), config.batch_size)
    report_timer, save_timer = Timer(_SECONDS_BETWEEN_REPORTS), Timer(checkpoint_seconds)
    given_up = False
    with interruptible() as interrupt:
        while not (interrupt.is_wanted() or given_up or _is_over(standing.history, plan.epochs, config.patience)):
            epoch = len(standing.history.epochs)
            order = rng.permutation(len(data), rng.torch_stream(config.seed, "shuffle", epoch, device=where))  # (E,)
            with threads_for(config.batch_size, where):
                walk.begin(order, standing.pairs)
                while standing.pairs < len(data):
                    began = time.perf_counter()
                    standing.add(*walk.step(), time.perf_counter() - began)
                    if progress is not None and report_timer.is_due():
                        progress(_record(run, standing), standing.history)
                    if file is not None and save_timer.is_due():
                        _record(run, standing)  # what has gone wrong is not worth keeping
                        file.save(run, standing)
                    if interrupt.is_wanted():
                        break
            if standing.pairs == len(data):
                is_due = (epoch + 1) % plan.validate_every == 0 or epoch + 1 == plan.epochs
                _end_epoch(run, standing, validate if is_due else None)
                if progress is not None:
                    progress(standing.history.epochs[-1], standing.history)
                given_up = stop is not None and is_due and validate is not None and stop(standing.history)
    if file is not None:
        file.save(run, standing)
    ended: Ended = "given up" if given_up else "interrupted"
    if _is_over(standing.history, plan.epochs, config.patience):
        ended = "all epochs done" if len(standing.history.epochs) >= plan.epochs else "no better for a while"
    return Trained(standing.best or run.vectors(), config, standing.history, ended)


def _start(data: Interactions, config: Training, initial: DenseVectors | None, device: torch.device) -> DenseVectors:
    """The model before the first step, on the device."""
    if initial is None:  # drawn on the CPU, so that all devices start from the same vectors
        generator = rng.torch_stream(config.seed, "initial vectors")
        initial = DenseVectors.random(data.n_users, data.n_items, config.dim, generator)
    for name, rows, count in (("user", initial.user_table, data.n_users), ("item", initial.item_table, data.n_items)):
        if rows.shape != (count, config.dim):
            raise ArgumentError(
                f"initial {name} vectors must be of shape {(count, config.dim)} for this data and dim, got "
                f"{(*rows.shape,)}"
            )
    return replace(initial, constraint=config.constraint).check_finite().to(device)


def _is_over(history: History, epochs: int, patience: int) -> bool:
    return len(history.epochs) >= epochs or history.should_stop(patience)


def _end_epoch(run: Run, standing: Standing, validate: Validate | None) -> None:
    """Write the epoch into the history, with the metric of the model after it; keep that model if it is the best."""
    record = _record(run, standing)
    if validate is None:
        standing.history = standing.history.with_epoch(record)
    else:
        vectors = run.vectors()
        metric = float(validate(vectors))
        if not math.isfinite(metric):
            raise TrainingError(f"validate gave {metric} after epoch {record.epoch}; it must give a finite number")
        standing.history = standing.history.with_epoch(replace(record, metric=metric))
        standing.best = vectors if standing.history.is_best() else standing.best
    standing.begin_epoch()
    run.sums.zero_()


def _record(run: Run, standing: Standing) -> EpochRecord:
    """The epoch so far. Reading the sums waits for the device, so this is for now and then."""
    began = time.perf_counter()
    loss, active, masked = run.sums.tolist()
    standing.seconds += time.perf_counter() - began
    epoch = len(standing.history.epochs) + 1
    if not math.isfinite(loss):
        raise TrainingError(f"the loss is {loss} in epoch {epoch}; lower learning_rate, or the weights of penalties")
    return EpochRecord(
        epoch=epoch,
        pairs=standing.pairs,
        seconds=standing.seconds,
        loss=loss / standing.pairs,
        active=active / standing.pairs,
        masked=masked / standing.places,
        triplets_per_second=standing.places / standing.seconds,
    )
