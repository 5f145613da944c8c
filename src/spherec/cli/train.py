"""`spherec train`: learn a model from interactions."""

import json
import os
import shlex
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spherec.cli._features import FeatureFiles, FeatureIdColumn, FeatureKinds, read_item_features
from spherec.cli._output import AsJson, grid, note, print_error, show
from spherec.cli._settings import (
    ConfigFile,
    Device,
    Force,
    StartingPreset,
    model_option,
    read_settings,
    refuse_existing,
    run_option,
)
from spherec.cli._source import Source, add_names, takes_source
from spherec.data.interactions import Interactions
from spherec.data.read import read_names
from spherec.distributed.partitions import PartitionedInteractions
from spherec.errors import ArgumentError, LostProcessError, NotEnoughMemoryError, SpherecError, TrainingError

if TYPE_CHECKING:
    from spherec.recommender import CML


@takes_source
def train_command(
    context: typer.Context,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Model file to write, e.g. books.spherec.")
    ],
    names: Annotated[Path | None, typer.Option(metavar="FILE", help="Table of item names.")] = None,
    weigh: Annotated[
        bool | None, typer.Option("--weigh/--no-weigh", help="Weigh pairs by ratings or counts: ln(1 + value).")
    ] = None,
    preset: StartingPreset = "two-stage",
    config: ConfigFile = None,
    settings: Annotated[
        list[str] | None,
        model_option(
            "--set",
            metavar="NAME=VALUE",
            help="Any setting, as 'spherec presets two-stage' lists them, e.g. sampler.beta=0.6. May be repeated.",
        ),
    ] = None,
    dim: Annotated[int | None, model_option(metavar="N", help="Dimensions of the space.")] = None,
    epochs: Annotated[int | None, model_option(metavar="N", help="Most passes over the pairs.")] = None,
    seed: Annotated[int | None, model_option(metavar="N", help="Random seed.")] = None,
    validation: Annotated[
        float | None,
        run_option(
            metavar="SHARE",
            help="Share of each user's items to hold out, to stop at the best epoch. Default: 0.05; 0 with accurate "
            "and fast, which run to their end.",
        ),
    ] = None,
    device: Device = "auto",
    resume: Annotated[bool, run_option("--resume", help="Continue an interrupted run.")] = False,
    checkpoint_seconds: Annotated[float, run_option(metavar="N", help="Seconds between two checkpoints.")] = 300.0,
    shards: Annotated[bool, run_option("--shards", help="Write a file for each process of torchrun.")] = False,
    item_features: FeatureFiles = None,
    features_id_column: FeatureIdColumn = None,
    feature_kinds: FeatureKinds = None,
    force: Force = False,
    as_json: AsJson = False,
    *,
    source: Source,
) -> None:
    """Train a model: one vector for each user and item, such that a user's nearest items are those to recommend.

    Ctrl-C, SIGTERM and SIGHUP end the run with the best model so far; --resume continues it later.

    For example:

    - spherec train book-crossing -o books.spherec
    - spherec train plays.csv --user-column listener --item-column record -o music.spherec
    - spherec train plays.csv --item-features records.csv --preset accurate -o music.spherec
    - torchrun --nproc-per-node 4 -m spherec train events.parts -o model.spherec
    """
    from spherec.distributed.group import is_restarted
    from spherec.recommender import CML
    from spherec.training import RunFiles, join
    from spherec.training.checkpoint import count_epochs, remove_checkpoint
    from spherec.training.config import find_preset
    from spherec.training.trainer import interruptible

    flags = {"dim": dim, "epochs": epochs, "seed": seed}
    training = find_preset(preset).change(read_settings(config, settings or [], flags))
    checkpoint = output.with_name(f"{output.name}.checkpoint")
    if is_restarted():
        resume = checkpoint.exists()
    crew = join(device)
    files = RunFiles(output, checkpoint, checkpoint_seconds=checkpoint_seconds, resume=resume, in_shards=shards)
    with files.open(crew):
        _check_checkpoint(checkpoint, resume)
        refuse_existing(output, force or resume)  # an interrupted run has left its best model
        model = CML.from_config(training, device=device)
        data: Interactions | PartitionedInteractions
        features, known_names = None, read_names(names) if names is not None else {}  # first: it fails sooner
        if source.is_partitioned and not item_features:
            if names is not None:
                raise ArgumentError("partitions have names of their own; give --names to 'spherec data prepare'")
            data = source.open_partitions(weigh=weigh)
        else:
            data = source.load(weigh=weigh)
            data = add_names(data, known_names, str(names)) if names is not None else data
            if item_features:
                kinds = feature_kinds or []
                features = read_item_features(item_features, features_id_column, kinds, data.item_ids)
        if resume and crew.is_first:
            note(f"continuing in epoch {count_epochs(checkpoint) + 1} from {checkpoint}")
        with interruptible() as interrupt:
            try:
                model.fit(
                    data,
                    item_features=features,
                    names=known_names or None,
                    validation=validation,
                    files=files,
                    progress=True,
                )
            except SpherecError as error:
                is_worth_resuming = isinstance(error, NotEnoughMemoryError | LostProcessError)
                if isinstance(error, TrainingError) and not is_worth_resuming:
                    remove_checkpoint(checkpoint)
                print_error(error)  # while signals end nothing: torchrun sends them as soon as a process has failed
                raise typer.Exit(2) from error
    if not crew.is_first:
        return
    if model.artifact.ended == "interrupted":
        with suppress(OSError):  # the terminal may be closed
            _report(model, output, as_json=as_json)
            _explain_resuming(checkpoint, context.obj)
        raise typer.Exit(128 + (interrupt.number or signal.SIGINT))
    _report(model, output, as_json=as_json)
    if item_features and (more := model.data.n_items - data.n_items):
        named = sum(map(bool, (model.data.item_names or ())[data.n_items :]))
        with_names = f", {named:,} of them with a name" if known_names else ""
        note(f"{more:,} items are in the features alone, and in the model, too{with_names}")
    if model.data.n_users and not as_json:
        user = str(model.data.user_ids[0])
        command = ["spherec", "recommend", str(output), *(["--"] if user.startswith("-") else []), user]
        note(f"try it: {shlex.join(command)}")


def _check_checkpoint(checkpoint: Path, resume: bool) -> None:
    """Raise an `ArgumentError` unless the checkpoint of an interrupted run is there exactly if it is to be resumed."""
    if resume and not checkpoint.exists():
        raise ArgumentError(f"--resume needs {checkpoint}, which does not exist; leave it out to start anew")
    if checkpoint.exists() and not resume:
        raise ArgumentError(f"{checkpoint} is there from an interrupted run; continue it with --resume, or remove it")


def _explain_resuming(checkpoint: Path, words: Sequence[str]) -> None:
    """Print how an interrupted run is continued."""
    from spherec.distributed.group import is_started_by_torchrun

    if not checkpoint.exists():
        note("there is no checkpoint, so the run cannot be continued")
        return
    begin = ["spherec"]
    if is_started_by_torchrun():
        if os.environ["LOCAL_WORLD_SIZE"] != os.environ["WORLD_SIZE"]:
            note(
                f"{checkpoint} holds the run; continue it with the same torchrun commands on all machines, and --resume"
            )
            return
        begin = ["torchrun", "--nproc-per-node", os.environ["WORLD_SIZE"], "-m", "spherec"]
    again = shlex.join([*begin, *(word for word in words if word != "--resume"), "--resume"])
    note(f"{checkpoint} holds the run; continue it with: {again}")


def _report(model: "CML", output: Path, *, as_json: bool) -> None:
    """Print the training's history."""
    from spherec.evaluation.validation import VALIDATION_METRIC

    history, ended = model.history, model.artifact.ended
    best = history.best
    if as_json:
        summary = {
            "output": str(output),
            "ended": ended,
            "best_epoch": best and best.epoch,
            "metric": VALIDATION_METRIC,
        }
        typer.echo(json.dumps({**summary, "history": history.as_records()}))
        return
    shown = [record for record in history.epochs if record.metric is not None] or history.epochs[-10:]
    rows = (
        (
            str(record.epoch),
            f"{record.loss:.4f}",
            f"{record.active:.1%}",
            "" if record.metric is None else f"{record.metric:.4f}{' ★' if record is best else ''}",
            f"{record.triplets_per_second:,.0f}",
        )
        for record in shown
    )
    columns = ("epoch", "loss", "active", f"validation\n{VALIDATION_METRIC}", "triplets/s")
    show(grid(columns, rows, left=0, title=f"Training: {ended}"))
    whose = f"of epoch {best.epoch}, the best of {len(history.epochs)}" if best else f"of {len(history.epochs)} epochs"
    so_far = "; the run was interrupted" if ended == "interrupted" else "; the run is finished"
    note(f"{output} holds the vectors {whose}{so_far}")
