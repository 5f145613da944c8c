"""A study in the terminal: a line for each trial that has ended, a bar for the one in progress."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from spherec.training import EpochRecord, History
from spherec.tuning import Goal, Tried, Watcher, best_of
from spherec.tuning.search import shown


@contextmanager
def trials_bar(trials: int, goal: Goal) -> Iterator[Watcher]:
    """A bar over all trials on standard error, gone when done; lines stay. Where that is no terminal, lines alone."""
    console = Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)
    state = TextColumn("{task.description}", markup=False)
    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TextColumn("trials"), TimeElapsedColumn(), state)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield _Lines(bar, bar.add_task("", total=trials), goal)


class _Lines(Watcher):
    def __init__(self, bar: Progress, task: TaskID, goal: Goal) -> None:
        self._bar, self._task, self._goal = bar, task, goal

    def going(self, number: int, epoch: EpochRecord, history: History) -> None:
        best = history.best
        metric = "" if best is None else f", {self._goal.name} {best.metric:.4f}"
        self._bar.update(self._task, description=f"trial {number}, epoch {epoch.epoch}{metric}")

    def ended(self, tried: Sequence[Tried], last: Tried) -> None:
        best = best_of(tried, self._goal)
        self._bar.update(self._task, completed=len(tried), description="")
        self._bar.console.print(_line(last, best, self._goal), style="dim" if last.state != "complete" else None)


def _line(last: Tried, best: Tried | None, goal: Goal) -> str:
    parts = [f"trial {last.number}: {last.state}"]
    if last.value is not None:
        over = "" if goal.allows(last.mmr) else f" above {goal.mmr_at_most:g}"
        limit = "" if goal.mmr_at_most is None else f", MMR {last.mmr:.4g}{over}"
        parts.append(f"{goal.name} {last.value:.4f}{limit} in epoch {last.epoch}")
    if best is not None:
        parts.append(
            "the best so far" if best.number == last.number else f"best {best.value:.4f} (trial {best.number})"
        )
    parts += [shown_values(last), f"{last.seconds:.1f} s"]
    return "; ".join([*parts, *([last.why] if last.why else [])])


def shown_values(one: Tried) -> str:
    """The settings of a trial, short enough for a line."""
    short = {name: f"{value:.4g}" if isinstance(value, float) else shown(value) for name, value in one.values.items()}
    return ", ".join(f"{name}={value}" for name, value in short.items())
