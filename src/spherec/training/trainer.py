"""The training loop: epochs of steps, with validation, early stopping and checkpoints around them."""

import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import torch

from spherec.device import threads_for
from spherec.embedding import FeatureMap
from spherec.errors import NotEnoughMemoryError, TrainingError
from spherec.geometry import DenseVectors, Vectors
from spherec.training.checkpoint import Standing
from spherec.training.config import Plan, Training
from spherec.training.graphs import GraphedBatches
from spherec.training.history import EpochRecord, History
from spherec.training.interrupt import Interrupt, interruptible
from spherec.training.run_files import RunFiles
from spherec.training.step import Batches, Run

Validate = Callable[[Vectors], float]
"""Returns how good the vectors are; more is better. They belong to the run in progress: do not keep them."""

Ended = Literal["all epochs done", "no better for a while", "given up", "interrupted"]

Stop = Callable[[History], bool]
"""Called after each validation; True gives the run up."""

ProgressCallback = Callable[[EpochRecord, History], None]
"""Called every so often with the epoch in progress and the epochs before it, and with each epoch that ended."""

_SECONDS_BETWEEN_REPORTS = 0.2
# On a CPU torch has no error type for it, only these messages: of its allocator, of sizes beyond 64 bits, of drivers.
_SHORTAGE = re.compile(r"DefaultCPUAllocator|Storage size calculation overflowed|out of memory")


@dataclass(frozen=True)
class Trained:
    """The result of a run."""

    vectors: DenseVectors
    """The best by the validation metric; without one, the last. Of several processes, the first has all of them, the
    others have their own."""
    config: Training
    "Settings of the run."
    history: History
    "Records of all epochs."
    ended: Ended
    "Reason for the end of the run."
    feature_map: FeatureMap | None = None
    "The map that places items by their features, learned with these vectors; None without features."


def train(
    run: Run,
    validate: Validate | None = None,
    *,
    files: RunFiles | None = None,
    progress: ProgressCallback | None = None,
    stop: Stop | None = None,
    save: Callable[[Trained], None] | None = None,
) -> Trained:
    """Train a new run, and return the best model: `train(Run(data, Training()), Validation(data, held_out))`.

    The same data, config and device give the same vectors. Ctrl-C, SIGTERM and SIGHUP end the run after the step in
    progress, with the best model so far. `files` names a checkpoint, from which training continues as if it had never
    stopped. `stop` may give a poor run up. `save` is called with the result, in which each of several processes has its
    own vectors; without it, the first process gets all of them.
    """
    config, plan, crew, files = run.config, run.plan, run.crew, files or RunFiles()
    with files.open(crew), interruptible() as interrupt:
        standing, batches = files.begin(run, is_validated=validate is not None), make_batches(run)
        report_timer, save_timer = Timer(_SECONDS_BETWEEN_REPORTS), Timer(files.checkpoint_seconds)
        given_up = False
        for epoch in _epochs_left(run, standing, interrupt):
            is_ending = False
            with threads_for(config.batch_size, crew.device):
                batches.begin(epoch, standing.pairs)
                while standing.pairs < run.n_pairs and not is_ending:
                    began = time.perf_counter()
                    standing.add(*batches.step(), time.perf_counter() - began)
                    is_report_due, is_save_due = progress is not None and report_timer.is_due(), save_timer.is_due()
                    is_save_due &= crew.is_first and files.checkpoint is not None  # each process has its own clock
                    signals = interrupt.is_wanted(), is_report_due, is_save_due
                    is_ending, is_report_due, is_save_due = crew.agree(*signals)
                    # The record raises if the run has gone wrong and is not worth keeping.
                    record = _record(run, standing) if is_report_due or is_save_due else None
                    if progress is not None and is_report_due and record is not None:
                        progress(record, standing.history)
                    if is_save_due:
                        files.save(run, standing)
            if standing.pairs < run.n_pairs:
                break  # interrupted in the middle of the epoch
            is_due = validate is not None and plan.is_due(epoch)
            _end_epoch(run, standing, validate if is_due else None)
            if progress is not None:
                progress(standing.history.epochs[-1], standing.history)
            if is_due and crew.agree(stop is not None and stop(standing.history))[0]:
                given_up = True
                break
        ended = _why_ended(standing.history, plan, config.patience) or ("given up" if given_up else "interrupted")
        learned = standing.best_map if standing.best else run.copy_feature_map()
        trained = Trained(standing.best or run.held.copy(), config, standing.history, ended, learned)
        with files.closing(run, standing, is_interrupted=ended == "interrupted", is_saved=save is not None):
            if save is not None:
                save(trained)
                return trained
            return replace(trained, vectors=crew.gather_vectors(trained.vectors, run.data))


def make_batches(run: Run) -> Batches:
    """Return the batches of a run's epochs, as its device makes them fastest."""
    shared: Batches | None = run.crew.batches(run)
    if shared is not None:
        return shared
    data, device = run.data, run.crew.device
    users, items = (torch.tensor(column, device=device) for column in (data.users, data.indices))  # (E,), (E,)
    kind = GraphedBatches if device.type == "cuda" else Batches
    return kind(run, (users, items), run.config.batch_size)


def _epochs_left(run: Run, standing: Standing, interrupt: Interrupt) -> Iterator[int]:
    """Yield the epochs to train, counted from 0, the one in progress first, until the run is over or interrupted."""
    patience = run.config.patience
    while not run.crew.agree(interrupt.is_wanted())[0] and not _why_ended(standing.history, run.plan, patience):
        yield len(standing.history.epochs)


def _why_ended(history: History, plan: Plan, patience: int) -> Ended | None:
    """Return why the run is over; None if it is not."""
    if len(history.epochs) >= plan.epochs:
        return "all epochs done"
    return "no better for a while" if history.should_stop(patience) else None


def _end_epoch(run: Run, standing: Standing, validate: Validate | None) -> None:
    """Add the epoch to the history, with the metric of the vectors after it; keep a copy of them if they are best."""
    record = _record(run, standing)
    if validate is not None:
        metric = float(validate(run.vectors))
        if not math.isfinite(metric):
            raise TrainingError(f"validate gave {metric} after epoch {record.epoch}; it must give a finite number")
        record = replace(record, metric=metric)
    standing.history = standing.history.with_epoch(record)
    if validate is not None and standing.history.is_best():
        standing.best, standing.best_map = run.held.copy(), run.copy_feature_map()
    standing.begin_epoch()
    run.sums.zero_()


def _record(run: Run, standing: Standing) -> EpochRecord:
    """Return the epoch so far. Reading the sums waits for the device, so call it only now and then."""
    began = time.perf_counter()
    loss, active, masked = run.read_sums()
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


class Timer:
    """Tells every so many seconds that it is time again; with 0 seconds, always."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last = time.monotonic()

    def is_due(self) -> bool:
        """Tell whether that many seconds have passed since it last was due."""
        now = time.monotonic()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True


@contextmanager
def enough_memory() -> Iterator[None]:
    """Raise a `NotEnoughMemoryError` if the block runs out of memory."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and not _SHORTAGE.search(str(error)):
            raise
        raise NotEnoughMemoryError(
            "there is not enough memory; take smaller dim, batch_size or negatives, drop rare users and items, or "
            "divide them among several processes (docs/scaling.md)"
        ) from None
