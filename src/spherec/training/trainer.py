"""The training loop: epochs of steps, with validation, early stopping, checkpoints and signals around them."""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import Literal

import torch

from spherec.device import threads_for
from spherec.embedding import FeatureMap
from spherec.errors import TrainingError
from spherec.geometry import DenseVectors, Vectors
from spherec.training.checkpoint import EpochRecord, History, RunFiles, Standing
from spherec.training.config import Training
from spherec.training.graphs import GraphedBatches
from spherec.training.step import Batches, Run

Validate = Callable[[Vectors], float]
"""Returns how good the vectors are; more is better. They belong to the run in progress: do not keep them."""

Ended = Literal["all epochs done", "no better for a while", "given up", "interrupted"]

Stop = Callable[[History], bool]
"""Called after each validation; True gives the run up."""

ProgressCallback = Callable[[EpochRecord, History], None]
"""Called every so often with the epoch in progress and the epochs before it, and with each epoch that ended."""

_SECONDS_BETWEEN_REPORTS = 0.2
_SECONDS_OF_ONE_REQUEST = 1.0
_ENDING_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


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
    crew, files = run.crew, files or RunFiles()
    with files.open(crew), interruptible() as interrupt:
        standing, batches = files.begin(run, is_validated=validate is not None), make_batches(run)
        watch = _Watch(run, files, interrupt, progress)
        ended = _why_ended(run, standing.history)
        while ended is None:
            is_due = validate is not None and run.plan.is_due(len(standing.history.epochs))
            if crew.agree(interrupt.is_wanted())[0] or not _learn_epoch(run, batches, standing, watch):
                ended = "interrupted"
                break
            _end_epoch(run, standing, validate if is_due else None)
            if progress is not None:
                progress(standing.history.epochs[-1], standing.history)
            gives_up = is_due and crew.agree(stop is not None and stop(standing.history))[0]
            ended = _why_ended(run, standing.history) or ("given up" if gives_up else None)
        learned = standing.best_map if standing.best else run.copy_feature_map()
        trained = Trained(standing.best or run.held.copy(), run.config, standing.history, ended, learned)
        with files.closing(run, standing, is_interrupted=ended == "interrupted", is_saved=save is not None):
            if save is not None:
                save(trained)
                return trained
            return replace(trained, vectors=crew.gather_vectors(trained.vectors, run.data))


def _learn_epoch(run: Run, batches: Batches, standing: Standing, watch: "_Watch") -> bool:
    """Learn from the rest of an epoch; return False if the run is to end before."""
    with threads_for(run.config.batch_size, run.crew.device):
        batches.begin(len(standing.history.epochs), standing.pairs)
        is_ending = False
        while standing.pairs < run.n_pairs and not is_ending:
            began = time.perf_counter()
            pairs, places = batches.step()
            standing.pairs, standing.places = standing.pairs + pairs, standing.places + places
            standing.seconds += time.perf_counter() - began
            is_ending = watch.look(standing)
    return standing.pairs >= run.n_pairs


def make_batches(run: Run) -> Batches:
    """Return the batches of a run's epochs, as its device makes them fastest."""
    shared: Batches | None = run.crew.batches(run)
    if shared is not None:
        return shared
    data, device = run.data, run.crew.device
    users, items = (torch.tensor(column, device=device) for column in (data.users, data.indices))  # (E,), (E,)
    kind = GraphedBatches if device.type == "cuda" else Batches
    return kind(run, (users, items))


def _why_ended(run: Run, history: History) -> Ended | None:
    """Return why the run is over; None if it is not."""
    if len(history.epochs) >= run.plan.epochs:
        return "all epochs done"
    return "no better for a while" if history.should_stop(run.config.patience) else None


def _end_epoch(run: Run, standing: Standing, validate: Validate | None) -> None:
    """Add the epoch to the history, with the metric of the vectors after it; keep a copy of them if they are best."""
    record = _record(run, standing)
    if validate is not None:
        record = replace(record, metric=float(validate(run.vectors)))
        if not math.isfinite(record.metric or 0.0):
            raise TrainingError(f"validate gave {record.metric} after epoch {record.epoch}; it must give a number")
    standing.history = History((*standing.history.epochs, record))
    if record is standing.history.best:
        standing.best, standing.best_map = run.held.copy(), run.copy_feature_map()
    standing.pairs, standing.places, standing.seconds = 0, 0, 0.0
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
        self._seconds, self._last = seconds, time.monotonic()

    def is_due(self) -> bool:
        """Tell whether that many seconds have passed since it last was due."""
        now = time.monotonic()
        is_due = now - self._last >= self._seconds
        self._last = now if is_due else self._last
        return is_due


class Interrupt:
    """A handler of signals that ask for an end: it sets a flag, so that the step in progress ends first."""

    def __init__(self) -> None:
        self.number: int | None = None
        "The signal that came first."
        self.when = 0.0
        "Time at which it came."

    def is_wanted(self) -> bool:
        """Tell whether a signal came."""
        return self.number is not None

    def __call__(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Set the flag at the first signal; end at once at the second.

        A SIGTERM or SIGHUP right after another signal is the same request: a terminal that closes sends it twice,
        systemd sends SIGHUP after SIGTERM, and torchrun passes on what Slurm has sent to all processes.
        """
        if self.number is None:
            self.number, self.when = number, time.monotonic()
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
        elif time.monotonic() - self.when > _SECONDS_OF_ONE_REQUEST:
            raise SystemExit(128 + number)


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Let Ctrl-C (SIGINT), SIGTERM and SIGHUP set a flag instead of ending the process, within this block.

    Does nothing outside the main thread, which alone gets signals. A signal that is ignored, as SIGHUP is under nohup,
    stays ignored. When the block has ended, an enclosing block is flagged as well, and the caller's own handler of
    SIGTERM or SIGHUP is called.
    """
    interrupt = Interrupt()
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in _ENDING_SIGNALS if is_main}
    before = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if (came := interrupt.number) is not None:
            handler = before[came]
            if isinstance(handler, Interrupt):
                handler.number, handler.when = came, interrupt.when
            elif callable(handler) and came != signal.SIGINT:
                handler(came, None)


class _Watch:
    """Reports and checkpoints between two steps, every so many seconds, and a look at signals."""

    def __init__(self, run: Run, files: RunFiles, interrupt: Interrupt, progress: ProgressCallback | None) -> None:
        self._run, self._files, self._interrupt, self._progress = run, files, interrupt, progress
        self._report_timer, self._save_timer = Timer(_SECONDS_BETWEEN_REPORTS), Timer(files.checkpoint_seconds)

    def look(self, standing: Standing) -> bool:
        """Report and save if it is time to, and return whether the run is to end."""
        run, files, progress = self._run, self._files, self._progress
        is_report_due, is_save_due = progress is not None and self._report_timer.is_due(), self._save_timer.is_due()
        is_save_due &= run.crew.is_first and files.checkpoint is not None  # each process has its own clock
        flags = self._interrupt.is_wanted(), is_report_due, is_save_due
        is_ending, is_report_due, is_save_due = run.crew.agree(*flags)
        # The record raises if the run has gone wrong and is not worth keeping.
        record = _record(run, standing) if is_report_due or is_save_due else None
        if progress is not None and is_report_due and record is not None:
            progress(record, standing.history)
        if is_save_due:
            files.save(run, standing)
        return is_ending
