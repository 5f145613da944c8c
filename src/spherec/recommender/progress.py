"""Progress of training in the terminal: advice, and a bar with the time that is left; in a log, lines instead."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from spherec.data.interactions import Interactions
from spherec.evaluation.validation import VALIDATION_METRIC, Validation
from spherec.training import EpochRecord, History, ProgressCallback, Training

_SECONDS_BETWEEN_LINES = 5.0  # of epochs that were not validated

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
        epochs = config.plan(data.n_pairs).epochs
        with training_bar(epochs, data.n_pairs, stops_early=validate is not None) as callback:
            yield callback


@contextmanager
def training_bar(epochs: int, pairs: int, *, stops_early: bool) -> Iterator[ProgressCallback]:
    """Show a bar over all epochs on standard error, removed at the end; print lines instead if that is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(epochs, stops_early=stops_early)
        return
    whole, rest = Column(no_wrap=True), Column(no_wrap=True, overflow="ellipsis", ratio=1)
    columns = (
        TextColumn("{task.description}", markup=False, table_column=whole),
        BarColumn(bar_width=8),
        TimeElapsedColumn(table_column=whole),
        TextColumn("at most" if stops_early else "left", table_column=whole),
        TimeRemainingColumn(table_column=whole),
        TextColumn("{task.fields[state]}", markup=False, table_column=rest),
    )
    bar = Progress(*columns, console=console, transient=True, expand=True)
    task = bar.add_task("starting", total=epochs * pairs, state="")

    def update(epoch: EpochRecord, history: History) -> None:
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

    def __init__(self, epochs: int, *, stops_early: bool) -> None:
        self._epochs, self._stops_early = epochs, stops_early
        self._printed: int | None = None
        self._last_time = float("-inf")

    def __call__(self, epoch: EpochRecord, history: History) -> None:
        """Print the epochs that ended since the last call."""
        del epoch
        console = Console(stderr=True, emoji=False, soft_wrap=True)
        for ended in history.epochs[self._printed if self._printed is not None else len(history.epochs) :]:
            if ended.metric is not None or time.monotonic() - self._last_time > _SECONDS_BETWEEN_LINES:
                left = _describe_duration((self._epochs - ended.epoch) * ended.seconds)
                most = "at most " if self._stops_early else ""
                _print(console, f"epoch {ended.epoch}: {_describe_epoch(ended, history)}, {most}{left} left")
                self._last_time = time.monotonic()
        self._printed = len(history.epochs)


def _describe_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
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
