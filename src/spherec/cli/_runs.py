"""Folds and progress of commands that run many models: `compare` and `reproduce`."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from spherec.cli._options import Device, group, option
from spherec.cli._output import counting_bar, note
from spherec.errors import ArgumentError, quote
from spherec.lab.runs import Stage, Watch


@group
class RunsOptions:
    """Options of many runs."""

    only_folds: str | None = option("Folds to run, e.g. 0,1. Default: all.", "FOLDS")
    device: Device = "auto"
    workers: int | None = option("Runs of ours at once. Default: 8 on a GPU, else 1.", "N", min=1)

    def folds(self, number: int) -> list[int]:
        """Return the folds to run, of so many."""
        if self.only_folds is None:
            return list(range(number))
        folds = set(map(int, re.findall(r"\d+", self.only_folds)))
        if not re.fullmatch(r" *\d+ *(, *\d+ *)*", self.only_folds) or max(folds) >= number:
            raise ArgumentError(
                f"--only-folds must be comma-separated numbers in 0 … {number - 1}, got {quote(self.only_folds)}"
            )
        return sorted(folds)


@contextmanager
def runs_bar(runs: int) -> Iterator[Watch]:
    """Show a bar over all runs and what is going on, and print a line for each run that is done."""
    lock, going, done = threading.Lock(), dict[tuple[str, int], str](), count(1)
    with counting_bar("", "runs", runs) as update:

        def watch(stage: Stage) -> None:
            with lock:
                number, far = None, f" {stage.epoch}/{stage.epochs}" if stage.epochs else ""
                going[stage.model, stage.fold] = f"{stage.model} fold {stage.fold}: {stage.doing}{far}"
                if stage.doing == "done":
                    del going[stage.model, stage.fold]
                    number = next(done)
                    note(f"{stage.model}, fold {stage.fold}: done")
                update(number, label="; ".join(going.values()))

        yield watch
