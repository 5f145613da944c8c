"""Folds and progress of commands that run many models: `compare` and `reproduce`."""

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from spherec.cli._options import Device, group, option
from spherec.cli._output import note, transient_bar
from spherec.errors import ArgumentError, MissingPackageError, quote
from spherec.lab.runs import Stage, Watch


@group
class RunsOptions:
    """Options of many runs."""

    only_folds: str | None = option("Folds to run, e.g. 0,1. Default: all.", "FOLDS")
    device: Device = "auto"
    workers: int | None = option("Runs of ours at once. Default: 8 on a GPU, else 1.", "N", min=1)

    def folds(self, count: int) -> list[int]:
        """Return the folds to run, of so many."""
        if self.only_folds is None:
            return list(range(count))
        words = self.only_folds.split(",")
        folds = {int(word) for word in words if word.strip().isdecimal()}
        if not all(word.strip().isdecimal() for word in words) or max(folds) >= count:
            raise ArgumentError(
                f"--only-folds must be comma-separated numbers in 0 … {count - 1}, got {quote(self.only_folds)}"
            )
        return sorted(folds)


def draw_plots(name: str, *given: object) -> None:
    """Call a function of `spherec.lab.plots`; a note says so where matplotlib is missing."""
    try:
        getattr(importlib.import_module("spherec.lab.plots"), name)(*given)
    except MissingPackageError as error:
        note(str(error))


@contextmanager
def runs_bar(runs: int) -> Iterator[Watch]:
    """Show a bar over all runs and what is going on; outside a terminal, print a line for each run."""
    state = TextColumn("{task.description}", markup=False)
    lock, going = threading.Lock(), dict[tuple[str, int], str]()
    with transient_bar(BarColumn(), MofNCompleteColumn(), TextColumn("runs"), TimeElapsedColumn(), state) as bar:
        task = bar.add_task("", total=runs)

        def watch(stage: Stage) -> None:
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
