"""`spherec train`: learn a model from interactions."""

import json
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import typer

from spherec.cli._features import FeatureOptions
from spherec.cli._options import AsJson, Device, Force, group, option, refuse_output
from spherec.cli._output import grid, note, print_error, show
from spherec.cli._source import Source
from spherec.cli.presets import ModelSettings, model_option
from spherec.data.interactions import Interactions
from spherec.data.read.database import hide_password
from spherec.distributed.group import is_restarted, is_started_by_torchrun
from spherec.distributed.partitions import PartitionedInteractions
from spherec.errors import ArgumentError, DataError, LostProcessError, NotEnoughMemoryError, SpherecError, TrainingError
from spherec.evaluation.validation import VALIDATION_METRIC
from spherec.recommender import CML
from spherec.training import Crew, RunFiles, join
from spherec.training.checkpoint import count_epochs, remove_checkpoint
from spherec.training.trainer import interruptible

_run_option = partial(option, panel="Run")


@group
class TrainSettings(ModelSettings):
    """Options that name settings, with the most common ones by themselves."""

    dim: int | None = model_option("Dimensions of the space.", "N")
    epochs: int | None = model_option("Most passes over the pairs.", "N")
    seed: int | None = model_option("Seed of everything random.", "N")
    weigh: bool | None = model_option("Weigh pairs by ln(1 + value).", None, "--weigh/--no-weigh")


@group
class RunOptions:
    """Options about the run and its files."""

    output: Path = option("Model file to write.", "FILE", "--output", "-o", default=...)
    force: Force = False
    validation: float | None = _run_option(
        "Share of each user's items to hold out. Default: 0.05, or 0 with a schedule.", "SHARE"
    )
    resume: bool = _run_option("Continue an interrupted run.", None, "--resume", default=False)
    shards: bool = _run_option("Write a file for each process.", None, "--shards", default=False)
    device: Device = "auto"

    @property
    def checkpoint(self) -> Path:
        """The checkpoint, next to the output."""
        return self.output.with_name(f"{self.output.name}.checkpoint")

    @contextmanager
    def open(self, crew: Crew) -> Iterator[RunFiles]:
        """Lock the files of the run, which must be there exactly if it is to be resumed, within this block."""
        checkpoint, resume = self.checkpoint, self.checkpoint.exists() if is_restarted() else self.resume
        files = RunFiles(self.output, checkpoint, resume=resume, in_shards=self.shards)
        with files.open(crew):
            if resume and not checkpoint.exists():
                raise ArgumentError(f"--resume needs {checkpoint}, which does not exist; leave it out to start anew")
            if checkpoint.exists() and not resume:
                raise ArgumentError(
                    f"{checkpoint} is there from an interrupted run; continue it with --resume, or remove it"
                )
            refuse_output(self.output, self.force or resume)  # an interrupted run has left its best model
            yield files


def train_command(
    context: typer.Context,
    run: RunOptions,
    model: TrainSettings,
    features: FeatureOptions,
    source: Source,
    as_json: AsJson = False,
) -> None:
    """Ctrl-C, SIGTERM and SIGHUP end the run with the best model so far; --resume continues it later. Examples:

    - spherec train book-crossing -o books.spherec
    - spherec train plays.csv --user-column listener --item-column record -o music.spherec
    - torchrun --nproc-per-node 4 -m spherec train events.parts -o model.spherec
    """
    training = model.training(dim=model.dim, epochs=model.epochs, seed=model.seed)
    crew = join(run.device)
    with run.open(crew) as files:
        made = CML.from_config(training, device=run.device)
        data: Interactions | PartitionedInteractions
        if source.kind == "spherec-partitions" and not features.item_features:
            data, known = _open_partitions(source, model.weigh), None
        else:
            data = source.load(weigh=model.weigh)
            known = features.read(data.item_ids)
        if files.resume and crew.is_first:
            note(f"continuing in epoch {count_epochs(run.checkpoint) + 1} from {run.checkpoint}")
        fit = partial(made.fit, data, item_features=known, validation=run.validation, files=files, progress=True)
        with interruptible() as interrupt:
            _fit(
                fit, run.checkpoint
            )  # its errors are printed here: torchrun sends signals as soon as a process has failed
    if not crew.is_first:
        return
    if made.artifact.ended == "interrupted":
        with suppress(OSError):  # the terminal may be closed
            _report(made, run.output, as_json=as_json)
            note(_explain_resuming(run.checkpoint, [*map(hide_password, context.obj)]))
        raise typer.Exit(128 + (interrupt.number or signal.SIGINT))
    _report(made, run.output, as_json=as_json)
    if more := made.data.n_items - data.n_items:
        note(f"{more:,} items are in the features alone, and in the model, too")


def _fit(fit: Callable[[], object], checkpoint: Path) -> None:
    """Train; after an error that would come again, remove the checkpoint."""
    try:
        fit()
    except SpherecError as error:
        if isinstance(error, TrainingError) and not isinstance(error, NotEnoughMemoryError | LostProcessError):
            remove_checkpoint(checkpoint)
        print_error(error)
        raise typer.Exit(2) from error


def _open_partitions(source: Source, weigh: bool | None) -> PartitionedInteractions:
    """Open a partitioned data set, of which each process reads what it holds."""
    if given := source.words()[1:]:
        raise ArgumentError(f"{source.data[0]} is prepared already; leave out {given[0]}, or prepare it again")
    data = PartitionedInteractions.open(source.data[0])
    if weigh and not data.is_weighed:
        raise DataError(f"{source.data[0]} was prepared without weights; prepare it again with --weigh")
    return replace(data, is_weighed=False) if weigh is False else data


def _explain_resuming(checkpoint: Path, words: list[str]) -> str:
    """Return how an interrupted run is continued."""
    if not checkpoint.exists():
        return "there is no checkpoint, so the run cannot be continued"
    again = shlex.join(["spherec", *(word for word in words if word != "--resume"), "--resume"])
    if is_started_by_torchrun():
        again = "the same torchrun command on each machine, and --resume"
    return f"{checkpoint} holds the run; continue it with: {again}"


def _report(model: CML, output: Path, *, as_json: bool) -> None:
    """Print the training's history."""
    history, ended = model.history, model.artifact.ended
    best = history.best
    if as_json:
        summary = {"output": str(output), "ended": ended, "metric": VALIDATION_METRIC}
        typer.echo(json.dumps({**summary, "best_epoch": best and best.epoch, "history": history.as_records()}))
        return
    rows = []
    for record in [one for one in history.epochs if one.metric is not None] or history.epochs[-10:]:
        metric = "" if record.metric is None else f"{record.metric:.4f}{' ★' if record is best else ''}"
        speed = f"{record.triplets_per_second:,.0f}"
        rows.append((str(record.epoch), f"{record.loss:.4f}", f"{record.active:.1%}", metric, speed))
    columns = ("epoch", "loss", "active", f"validation\n{VALIDATION_METRIC}", "triplets/s")
    show(grid(columns, rows, left=0, title=f"Training: {ended}"))
    whose = f"of epoch {best.epoch}, the best of {len(history.epochs)}" if best else f"of {len(history.epochs)} epochs"
    so_far = "was interrupted" if ended == "interrupted" else "is finished"
    note(f"{output} holds the vectors {whose}; the run {so_far}")
    if model.data.n_users and ended != "interrupted":
        user = str(model.data.user_ids[0])
        command = ["spherec", "recommend", str(output), *(["--"] if user.startswith("-") else []), user]
        note(f"try it: {shlex.join(command)}")
