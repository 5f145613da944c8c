"""Progress of training in the terminal: advice, an estimate of the time, and a bar; in a log, lines instead."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from spherec.data.interactions import Interactions
from spherec.evaluation.validation import VALIDATION_METRIC, Validation
from spherec.training import EpochRecord, History, ProgressCallback, Training
from spherec.training.config import Plan

_SECONDS_BETWEEN_LINES = 5.0  # of epochs that were not validated
_SECONDS_TO_TIME = 1.0  # of training, by which the length of a run is estimated
_SECONDS_WORTH_A_WORD = 10.0  # left of a run

_advised: set[str] = set()  # sentences of advice that this process has printed


@contextmanager
def show_progress(
    progress: bool | ProgressCallback | None,
    config: Training,
    data: Interactions,
    validate: Validation | None,
    advice: Iterable[str] = (),
) -> Iterator[ProgressCallback | None]:
    """Yield the callback for the trainer: the caller's own, one that moves a bar, or None."""
    if callable(progress):
        yield progress
    elif progress is False or (progress is None and not sys.stderr.isatty()):
        yield None
    else:
        for sentence in advice:
            if sentence not in _advised:
                _advised.add(sentence)
                _print(Console(stderr=True, soft_wrap=True), sentence)
        pairs = data.n_pairs
        plan = config.plan(pairs)
        estimate = Estimate(plan, pairs, stops_early=validate is not None and plan.validate_every < plan.epochs)
        with training_bar(plan.epochs, pairs, estimate) as callback:
            yield callback


@contextmanager
def training_bar(epochs: int, pairs: int, estimate: "Estimate") -> Iterator[ProgressCallback]:
    """Show a bar over all epochs on standard error, removed at the end; print lines instead if that is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(estimate)
        return
    whole, rest = Column(no_wrap=True), Column(no_wrap=True, overflow="ellipsis", ratio=1)
    columns = (
        TextColumn("{task.description}", markup=False, table_column=whole),
        BarColumn(bar_width=8),
        TimeElapsedColumn(table_column=whole),
        TextColumn("{task.fields[state]}", markup=False, table_column=rest),
    )
    bar = Progress(*columns, console=console, transient=True, expand=True)
    task = bar.add_task("starting", total=epochs * pairs, state="")

    def update(epoch: EpochRecord, history: History) -> None:
        if (sentence := estimate.make(epoch, history)) is not None:
            _print(bar.console, sentence)
        bar.update(
            task,
            completed=len(history.epochs) * pairs + epoch.pairs,
            description=f"epoch {epoch.epoch}/{epochs}",
            state=_describe_epoch(epoch, history),
        )

    bar.start()
    try:
        yield update
    finally:
        with suppress(OSError):  # a terminal that was closed must not end the run
            bar.stop()


class _Lines:
    """Callback that prints a line for the first epoch, each validated one, and others after a few silent seconds."""

    def __init__(self, estimate: "Estimate") -> None:
        self._estimate = estimate
        self._printed: int | None = None
        self._last_time = float("-inf")

    def __call__(self, epoch: EpochRecord, history: History) -> None:
        """Print the epochs that ended since the last call."""
        console = Console(stderr=True, emoji=False, soft_wrap=True)
        if (sentence := self._estimate.make(epoch, history)) is not None:
            _print(console, sentence)
        for ended in history.epochs[self._printed if self._printed is not None else len(history.epochs) :]:
            if ended.metric is not None or time.monotonic() - self._last_time > _SECONDS_BETWEEN_LINES:
                _print(console, f"epoch {ended.epoch}: {_describe_epoch(ended, history)}")
                self._last_time = time.monotonic()
        self._printed = len(history.epochs)


class Estimate:
    """Sentence about how long a run will take, by the speed of its first second or so."""

    def __init__(self, plan: Plan, pairs: int, *, stops_early: bool) -> None:
        self._plan, self._pairs, self._stops_early = plan, pairs, stops_early
        self._start: tuple[int, float] | None = None  # pairs and seconds at the first report, after all compiling
        self._is_made = False

    def make(self, epoch: EpochRecord, history: History) -> str | None:
        """Return the sentence, once, when the speed is known; None before and after, and for a run of seconds."""
        ended = bool(history.epochs) and history.epochs[-1] is epoch
        done = len(history.epochs) * self._pairs + (0 if ended else epoch.pairs)
        seconds = sum(record.seconds for record in history.epochs) + (0.0 if ended else epoch.seconds)
        if self._start is None:
            self._start = done, seconds
        timed = seconds - self._start[1]
        if self._is_made or timed < _SECONDS_TO_TIME:
            return None
        self._is_made = True
        left = (self._plan.epochs * self._pairs - done) * timed / max(done - self._start[0], 1)
        if left < _SECONDS_WORTH_A_WORD:
            return None
        first = self._start[0] // self._pairs + 1
        epochs = f"{self._plan.epochs:,} epochs" if first == 1 else f"epochs {first:,} to {self._plan.epochs:,}"
        early = ", fewer if it stops early" if self._stops_early else ""
        steps = self._plan.steps // self._plan.epochs
        return f"about {_duration(left)}: {epochs} of {steps:,} step{'' if steps == 1 else 's'}{early}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(round(seconds, -1), 10):.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 90 * 60 else f"{seconds / 3600:.1f} hours"


def _describe_epoch(epoch: EpochRecord, history: History) -> str:
    speed = f"{epoch.triplets_per_second / 1000:,.0f}k triplets/s"
    parts = [f"loss {epoch.loss:.3f}", f"active {epoch.active:.0%}", speed]
    if history.best is not None:
        parts.append(f"best {VALIDATION_METRIC} {history.best.metric:.4f} in epoch {history.best.epoch}")
    if epoch.masked:
        parts.append(f"{epoch.masked:.1%} of negatives left out")
    return ", ".join(parts)


def _print(console: Console, sentence: str) -> None:
    with suppress(OSError):  # a log that cannot be written must not end the run
        console.print(sentence, style="dim", markup=False, highlight=False)
