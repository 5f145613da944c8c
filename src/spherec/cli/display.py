"""Tables and progress in the terminal."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import dropwhile, pairwise

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from spherec.data.events import Step
from spherec.data.readers.formats import ReadProgress as ProgressCallback
from spherec.data.statistics import Spread, Statistics, histogram
from spherec.datasets import Preset, Table1

INTERRUPTED = 130  # the exit code after Ctrl-C, as shells have it
_BAR = 40  # characters of the longest bar


def show(*parts: Table | str) -> None:
    """Print to standard output."""
    console = Console(markup=False, emoji=False, highlight=False)  # ids and names may look like markup
    for part in parts:
        console.print(part)


def note(text: str) -> None:
    """A remark beside the result: to standard error."""
    typer.secho(text, err=True, dim=True)


@contextmanager
def progress_bar(label: str) -> Iterator[ProgressCallback]:
    """A bar on standard error, gone when done."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def users_bar(users: int) -> Iterator[Callable[[int], None]]:
    """A bar over so many users on standard error, gone when done."""
    console = Console(stderr=True)
    columns = (TextColumn("ranking"), BarColumn(), MofNCompleteColumn(), TextColumn("users"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=users)
        yield lambda done: bar.update(task, completed=done)


def steps_table(steps: Sequence[Step]) -> Table:
    """What each step left, and what it removed."""
    table = Table(title="From raw rows to interactions", title_justify="left")
    table.add_column("step")
    for name in ("users", "items", "pairs", "removed"):
        table.add_column(name, justify="right")
    removed = [0, *(before.pairs - after.pairs for before, after in pairwise(steps))]
    for step, gone in zip(steps, removed, strict=False):
        table.add_row(step.name, f"{step.users:,}", f"{step.items:,}", f"{step.pairs:,}", f"{gone:,}" if gone else "")
    return table


def statistics_table(statistics: Statistics, preset: Preset | None) -> Table:
    """The statistics, beside the paper's Table 1 where the data set is one of the paper's."""
    table = Table(title="Statistics", title_justify="left")
    table.add_column("")
    table.add_column("here", justify="right")
    ours = _sizes(statistics)
    theirs = _sizes(preset.paper) if preset is not None else {}
    if preset is not None:
        table.add_column(f"paper, Table 1\n({preset.title})", justify="right")
    for name, size in ours.items():
        table.add_row(name, size, *([theirs[name]] if theirs else []))
    table.add_section()
    table.add_row("items per user", _spread(statistics.items_per_user))
    table.add_row("users per item", _spread(statistics.users_per_item))
    table.add_row("pairs on the top 1 % of items", f"{statistics.top_percent_share:.1f} %")
    return table


def histogram_table(counts: NDArray[np.int64], of: str, having: str) -> Table:
    """A picture of a skewed count: a bar for each doubling."""
    bins = list(dropwhile(lambda one: one[2] == 0, histogram(counts)))
    most = max(many for _, _, many in bins)
    table = Table(having, of, "", title=f"How many {of} have how many {having}", title_justify="left", box=None)
    for low, high, many in bins:
        bar = "█" * round(_BAR * many / most) or ("▏" if many else "")
        table.add_row(f"{low:,}" if low == high else f"{low:,}–{high:,}", f"{many:,}", bar)
    for column in table.columns[:2]:
        column.justify = "right"
    return table


def _sizes(of: Statistics | Table1) -> dict[str, str]:
    return {
        "users": f"{of.users:,}",
        "items": f"{of.items:,}",
        "pairs": f"{of.pairs:,}",
        "density": f"{of.density_percent:.3f} %",
    }


def _spread(spread: Spread) -> str:
    return f"{spread.smallest:,} to {spread.largest:,}, median {spread.median:,g}"
