"""Folds and progress of commands that run many models: `compare` and `reproduce`."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from spherec.cli._output import note, transient_bar
from spherec.errors import ArgumentError, quote

if TYPE_CHECKING:
    from spherec.lab.runs import Stage, Watch


def parse_folds(text: str | None, count: int) -> list[int]:
    """Return the folds that --only-folds names, such as 0,1; all of them by default."""
    if text is None:
        return list(range(count))
    try:
        folds = [int(number) for number in text.split(",")]
    except ValueError:
        folds = []
    if not folds or not all(0 <= fold < count for fold in folds):
        raise ArgumentError(f"--only-folds must be comma-separated numbers in 0 … {count - 1}, got {quote(text)}")
    return sorted(set(folds))


def check_workers(workers: int | None) -> None:
    """Raise an `ArgumentError` unless --workers is absent or at least 1."""
    if workers is not None and workers < 1:
        raise ArgumentError(f"--workers must be a whole number >= 1, got {workers}")


@contextmanager
def runs_bar(runs: int) -> Iterator["Watch"]:
    """Show a bar over all runs and what is going on; outside a terminal, print a line for each run."""
    state = TextColumn("{task.description}", markup=False)
    lock, going = threading.Lock(), dict[tuple[str, int], str]()
    with transient_bar(BarColumn(), MofNCompleteColumn(), TextColumn("runs"), TimeElapsedColumn(), state) as bar:
        task = bar.add_task("", total=runs)

        def watch(stage: "Stage") -> None:
            with lock:
                key = (stage.model, stage.fold)
                if stage.doing == "done":
                    going.pop(key, None)
                    bar.advance(task)
                    if not bar.console.is_terminal:
                        note(f"{stage.model}, fold {stage.fold}: done")
                else:
                    far = f" {stage.epoch}/{stage.epochs}" if stage.epochs else ""
                    going[key] = f"{stage.model} fold {stage.fold}: {stage.doing}{far}"
                bar.update(task, description="; ".join(going.values()))

        yield watch
