"""The training loop: epochs of steps, with validation, early stopping and checkpoints around them."""

import math
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from types import FrameType
from typing import Literal

import torch

from spherec import rng
from spherec.data.interactions import Interactions
from spherec.device import DeviceName, records_graphs, resolve, threads_for
from spherec.errors import ArgumentError, DataError, NotEnoughMemoryError, TrainingError
from spherec.geometry import DenseVectors, Vectors
from spherec.training.checkpoint import CheckpointFile, Standing, fingerprint
from spherec.training.config import Plan, Training
from spherec.training.graphs import GraphedBatches
from spherec.training.history import EpochRecord, History
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
    "The best by the validation metric; without one, the last."
    config: Training
    "Settings of the run."
    history: History
    "Records of all epochs."
    ended: Ended
    "Reason for the end of the run."


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
    training continues from it as if it had never stopped. `stop` may give a poor run up.
    """
    if not len(data):
        raise DataError("there are no pairs to train on; give interactions with some")
    config = config or Training()
    plan = config.plan(len(data))
    where = resolve(device)
    if not checkpoint_seconds >= 0:
        raise ArgumentError(f"checkpoint_seconds must be >= 0, got {checkpoint_seconds}")
    run, standing, file = Run(data, config, _first_vectors(data, config, initial, where)), Standing(), None
    if checkpoint is not None:
        file = CheckpointFile(checkpoint, fingerprint(data, config, initial, where, validated=validate is not None))
        standing = file.load(run) if resume else standing
    elif resume:
        raise ArgumentError("resume is True, but no checkpoint was named; give the path of one")

    batches = make_batches(run, data, where)
    report_timer, save_timer = Timer(_SECONDS_BETWEEN_REPORTS), Timer(checkpoint_seconds)
    given_up = False
    with interruptible() as interrupt:
        for epoch in _epochs_left(standing, plan, config.patience, interrupt):
            order = rng.permutation(len(data), rng.torch_stream(config.seed, "shuffle", epoch, device=where))  # (E,)
            with threads_for(config.batch_size, where):
                batches.begin(order, standing.pairs)
                while standing.pairs < len(data) and not interrupt.is_wanted():
                    began = time.perf_counter()
                    standing.add(*batches.step(), time.perf_counter() - began)
                    if progress is not None and report_timer.is_due():
                        progress(_record(run, standing), standing.history)
                    if file is not None and save_timer.is_due():
                        _record(run, standing)  # raises if the run has gone wrong and is not worth keeping
                        file.save(run, standing)
            if standing.pairs < len(data):
                break  # interrupted in the middle of the epoch
            is_due = validate is not None and plan.is_due(epoch)
            _end_epoch(run, standing, validate if is_due else None)
            if progress is not None:
                progress(standing.history.epochs[-1], standing.history)
            if is_due and stop is not None and stop(standing.history):
                given_up = True
                break
    if file is not None:
        file.save(run, standing)
    ended = _why_ended(standing.history, plan, config.patience) or ("given up" if given_up else "interrupted")
    return Trained(standing.best or run.vectors.copy(), config, standing.history, ended)


def make_batches(run: Run, data: Interactions, device: torch.device) -> Batches:
    """Return the batches of a run's epochs, as its device makes them fastest."""
    users, items = (torch.tensor(column, device=device) for column in (data.users, data.indices))  # (E,), (E,)
    kind = GraphedBatches if records_graphs(device) else Batches
    return kind(run, (users, items), run.config.batch_size)


def _first_vectors(
    data: Interactions, config: Training, initial: DenseVectors | None, device: torch.device
) -> DenseVectors:
    """Return the vectors before the first step, on the device."""
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


def _epochs_left(standing: Standing, plan: Plan, patience: int, interrupt: "Interrupt") -> Iterator[int]:
    """Yield the epochs to train, counted from 0, the one in progress first, until the run is over or interrupted."""
    while not interrupt.is_wanted() and _why_ended(standing.history, plan, patience) is None:
        yield len(standing.history.epochs)


def _why_ended(history: History, plan: Plan, patience: int) -> Ended | None:
    """Return why the run is over; None if it is not."""
    if len(history.epochs) >= plan.epochs:
        return "all epochs done"
    return "no better for a while" if history.should_stop(patience) else None


def _end_epoch(run: Run, standing: Standing, validate: Validate | None) -> None:
    """Add the epoch to the history, with the metric of the vectors after it; keep a copy of them if they are best."""
    record = _record(run, standing)
    if validate is None:
        standing.history = standing.history.with_epoch(record)
    else:
        metric = float(validate(run.vectors))
        if not math.isfinite(metric):
            raise TrainingError(f"validate gave {metric} after epoch {record.epoch}; it must give a finite number")
        standing.history = standing.history.with_epoch(replace(record, metric=metric))
        if standing.history.is_best():
            standing.best = run.vectors.copy()
    standing.begin_epoch()
    run.sums.zero_()


def _record(run: Run, standing: Standing) -> EpochRecord:
    """Return the epoch so far. Reading the sums waits for the device, so call it only now and then."""
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


class Interrupt:
    """A handler of Ctrl-C that sets a flag, so that the step in progress ends first."""

    def __init__(self) -> None:
        self._wanted = False

    def is_wanted(self) -> bool:
        """Tell whether Ctrl-C was pressed."""
        return self._wanted

    def note(self) -> None:
        """Set the flag."""
        self._wanted = True

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Set the flag at the first Ctrl-C; raise `KeyboardInterrupt` at the second."""
        del number, frame
        if self._wanted:
            raise KeyboardInterrupt
        self._wanted = True


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Let Ctrl-C set a flag instead of raising, within this block.

    Does nothing outside the main thread, which alone gets signals. An enclosing block is flagged as well.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
        if interrupt.is_wanted() and isinstance(before, Interrupt):
            before.note()


@contextmanager
def enough_memory() -> Iterator[None]:
    """Raise a `NotEnoughMemoryError` if the block runs out of memory."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and not _SHORTAGE.search(str(error)):
            raise
        raise NotEnoughMemoryError("there is not enough memory; take smaller dim, batch_size or negatives") from None
