"""What commands that run many models on many folds share: which folds, and a bar over the runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from spherec.cli.display import note
from spherec.errors import ArgumentError
from spherec.experiments.runner import Stage, Watch


def folds_of(text: str | None, count: int, option: str = "--folds") -> list[int]:
    """The folds that an option names, such as 0,1; all if it was not given."""
    if text is None:
        return list(range(count))
    try:
        folds = [int(part) for part in text.split(",")]
    except ValueError:
        folds = []
    if not folds or not all(0 <= fold < count for fold in folds):
        raise ArgumentError(f"{option} must be numbers in 0 … {count - 1} with commas between, got {text!r}")
    return sorted(set(folds))


@contextmanager
def watched(runs: int) -> Iterator[Watch]:
    """A bar over all runs, with what is going on beside it; a line a run where that is no terminal."""
    console = Console(stderr=True)
    state = TextColumn("{task.description}", markup=False)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("runs"), TimeElapsedColumn(), state)
    lock, going = threading.Lock(), dict[tuple[str, int], str]()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=runs)

        def watch(stage: Stage) -> None:
            with lock:
                key = (stage.row, stage.fold)
                if stage.doing == "done":
                    going.pop(key, None)
                    bar.advance(task)
                    if not console.is_terminal:
                        note(f"{stage.row}, fold {stage.fold}: done")
                else:
                    far = f" {stage.epoch}/{stage.epochs}" if stage.epochs else ""
                    going[key] = f"{stage.row} fold {stage.fold}: {stage.doing}{far}"
                bar.update(task, description="; ".join(going.values()))

        yield watch
