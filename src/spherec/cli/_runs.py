"""Options and progress of commands that run many models: `compare` and `reproduce`."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from spherec.cli._options import Device, group, option
from spherec.cli._output import counting_bar, note
from spherec.device import resolve
from spherec.lab import Comparison
from spherec.lab.runs import Stage, Watch
from spherec.lab.tables import describe_time


@group
class RunsOptions:
    """Options of many runs."""

    only_folds: list[int] | None = option(
        "Fold to run, counted from 0. May be repeated. Default: all.", "N", "--only-fold"
    )
    device: Device = "auto"
    workers: int | None = option("Runs of ours at once. Default: 8 on a GPU, else 1.", "N")


def run_missing(
    comparison: Comparison, runs: RunsOptions, *, needs_all: bool = True, after: Callable[[str], None] = lambda _: None
) -> None:
    """Run what is not recorded yet, after an estimate of its time."""
    if before := len(comparison.results()):
        note(f"{before} tests are recorded already; name another folder with -o to run them again")
    device = resolve(runs.device)
    if estimates := comparison.estimate(device=device, needs_all=needs_all):
        note(f"this takes {describe_time(estimates)}")
    with _runs_bar(comparison.runs_left()) as watch:
        try:
            comparison.run(device=device, watch=watch, needs_all=needs_all, after=after)
        except KeyboardInterrupt:
            note("finished work is saved; rerun the same command to continue")
            raise


@contextmanager
def _runs_bar(runs: int) -> Iterator[Watch]:
    """Show a bar over all runs and what is going on; outside a terminal, print a line for each run that is done."""
    lock, going, done = threading.Lock(), dict[tuple[str, int], str](), count(1)
    with counting_bar("", "runs", runs) as update:

        def watch(stage: Stage) -> None:
            with lock:
                number, far = None, f" {stage.epoch}/{stage.epochs}" if stage.epochs else ""
                going[stage.model, stage.fold] = f"{stage.model} fold {stage.fold}: {stage.doing}{far}"
                if stage.doing == "done":
                    del going[stage.model, stage.fold]
                    number = next(done)
                    if not sys.stderr.isatty():  # there the bar says it
                        note(f"{stage.model}, fold {stage.fold}: done")
                update(number, label="; ".join(going.values()))

        yield watch
