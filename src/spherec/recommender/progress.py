"""Progress of a training run, in the terminal."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from spherec.training import EpochRecord, History, ProgressCallback

_QUIET = 5.0  # seconds without a line


@contextmanager
def training_bar(epochs: int, pairs: int, metric: str) -> Iterator[ProgressCallback]:
    """Show a bar over all epochs on standard error until the run ends; print lines if that is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(metric)
        return
    whole, rest = Column(no_wrap=True), Column(no_wrap=True, overflow="ellipsis", ratio=1)
    columns = (
        TextColumn("{task.description}", markup=False, table_column=whole),
        BarColumn(bar_width=8),
        TimeElapsedColumn(table_column=whole),
        TextColumn("{task.fields[state]}", markup=False, table_column=rest),
    )
    with Progress(*columns, console=console, transient=True, expand=True) as bar:
        task = bar.add_task("starting", total=epochs * pairs, state="")

        def update(epoch: EpochRecord, history: History) -> None:
            done = len(history.epochs) * pairs + epoch.pairs
            bar.update(
                task,
                completed=done,
                description=f"epoch {epoch.epoch}/{epochs}",
                state=_state(epoch, history, metric),
            )

        yield update


class _Lines:
    """Prints a line for the first epoch, for each validated one, and for others after some seconds without a line."""

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._printed: int | None = None
        self._last = float("-inf")

    def __call__(self, epoch: EpochRecord, history: History) -> None:  # noqa: ARG002
        """Print the epochs that ended since the last call."""
        console = Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)
        for ended in history.epochs[self._printed if self._printed is not None else len(history.epochs) :]:
            if ended.metric is not None or time.monotonic() - self._last > _QUIET:
                console.print(f"epoch {ended.epoch}: {_state(ended, history, self._metric)}", style="dim")
                self._last = time.monotonic()
        self._printed = len(history.epochs)


def _state(epoch: EpochRecord, history: History, metric: str) -> str:
    speed = f"{epoch.triplets_per_second / 1000:,.0f}k triplets/s"
    parts = [f"loss {epoch.loss:.3f}", f"active {epoch.active:.0%}", speed]
    if history.best is not None:
        parts.append(f"best {metric} {history.best.metric:.4f} in epoch {history.best.epoch}")
    if epoch.masked:
        parts.append(f"{epoch.masked:.1%} of negatives left out")
    return ", ".join(parts)
