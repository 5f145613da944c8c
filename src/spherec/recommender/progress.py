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
    """Yield the callback for the trainer: the caller's own, one that moves a bar or prints lines, or None."""
    console = Console(stderr=True, emoji=False, soft_wrap=True)
    if callable(progress):
        yield progress
    elif progress is False or (progress is None and not sys.stderr.isatty()):
        yield None
    else:
        for sentence in advice:
            if sentence not in _advised:
                _advised.add(sentence)
                _print(console, sentence)
        epochs, most = config.plan(data.n_pairs).epochs, "left" if validate is None else "left at most"
        if console.is_terminal:
            with _show_bar(epochs, data.n_pairs, most) as callback:
                yield callback
        else:
            yield _print_lines(console, epochs, most)


@contextmanager
def _show_bar(epochs: int, pairs: int, most: str) -> Iterator[ProgressCallback]:
    """Show a bar over all epochs on standard error, removed at the end."""
    whole, rest = Column(no_wrap=True), Column(no_wrap=True, overflow="ellipsis", ratio=1)
    texts = TextColumn("{task.description}", markup=False, table_column=whole), TextColumn(most, table_column=whole)
    times = TimeElapsedColumn(table_column=whole), TimeRemainingColumn(table_column=whole)
    state = TextColumn("{task.fields[state]}", markup=False, table_column=rest)
    columns = texts[0], BarColumn(bar_width=8), *times, texts[1], state
    bar = Progress(*columns, console=Console(stderr=True), transient=True, expand=True)
    task = bar.add_task("starting", total=epochs * pairs, state="")

    def update(epoch: EpochRecord, history: History) -> None:
        done, state = len(history.epochs) * pairs + epoch.pairs, _describe_epoch(epoch, history)
        bar.update(task, completed=done, description=f"epoch {epoch.epoch}/{epochs}", state=state)

    bar.start()
    try:
        yield update
    finally:
        with suppress(OSError):  # a terminal that was closed must not end the run
            bar.stop()


def _print_lines(console: Console, epochs: int, most: str) -> ProgressCallback:
    """Return a callback with a line for the first epoch, each validated one, and others after some silent seconds."""
    last_time = float("-inf")

    def report(epoch: EpochRecord, history: History) -> None:
        nonlocal last_time
        is_long_ago = time.monotonic() - last_time > _SECONDS_BETWEEN_LINES
        if history.epochs[-1:] == (epoch,) and (epoch.metric is not None or is_long_ago):
            minutes = (epochs - epoch.epoch) * epoch.seconds / 60
            _print(console, f"epoch {epoch.epoch}: {_describe_epoch(epoch, history)}, {minutes:.1f} minutes {most}")
            last_time = time.monotonic()

    return report


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
