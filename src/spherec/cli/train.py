"""`spherec train`: from interactions to vectors."""

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from spherec import artifact
from spherec.cli.display import note, show
from spherec.cli.presets import PresetName
from spherec.cli.source import Source, takes_source
from spherec.cli.training_bar import training_bar
from spherec.data import splits
from spherec.data.atomic import refuse_unwritable
from spherec.data.interactions import Interactions
from spherec.device import DeviceName, resolve
from spherec.errors import ArgumentError, DataError
from spherec.evaluation import Validation
from spherec.training import History, Training
from spherec.training import train as train_model
from spherec.training.configure import configured
from spherec.training.presets import PRESETS

_MODEL = "Model"
_RUN = "Run"
_INTERRUPTED = 130  # the exit code after Ctrl-C, as shells have it
_METRIC = "NDCG@50"


@takes_source
def train(
    source: Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model to write, e.g. books.npz.")],
    preset: Annotated[
        PresetName, typer.Option(help="Where to begin; the options below change it.", rich_help_panel=_MODEL)
    ] = "two-stage",
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with settings, as --set names them.", rich_help_panel=_MODEL)
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any setting, as often as needed, e.g. sampler.beta=0.6, loss.kind=Softmin, sampler.kind=Hard. "
            "`spherec presets two-stage` lists them.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    dim: Annotated[int | None, typer.Option(help="Dimensions of the space.", rich_help_panel=_MODEL)] = None,
    negatives: Annotated[int | None, typer.Option(help="For each positive pair.", rich_help_panel=_MODEL)] = None,
    batch_size: Annotated[int | None, typer.Option(help="Positive pairs a step.", rich_help_panel=_MODEL)] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of Adam.", rich_help_panel=_MODEL)] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the pairs, at most.", rich_help_panel=_MODEL)] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything random.", rich_help_panel=_MODEL)] = None,
    validation: Annotated[
        float,
        typer.Option(
            help="Share of each user's items held out to choose the best epoch and to know when to stop; "
            "0 trains on everything for all epochs.",
            rich_help_panel=_RUN,
        ),
    ] = 0.05,
    device: Annotated[
        DeviceName, typer.Option(help="'auto' takes the GPU where there is one.", rich_help_panel=_RUN)
    ] = "auto",
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on where an interrupted run with this output stopped.", rich_help_panel=_RUN),
    ] = False,
    checkpoint_seconds: Annotated[float, typer.Option(help="Between two checkpoints.", rich_help_panel=_RUN)] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Train a model: vectors of users and items in one space, in which a user's nearest items are what to recommend.

    For example: spherec train book-crossing -o books.npz

    Ctrl-C ends the run with the best model so far, and --resume goes on later.
    """
    flags = {
        "dim": dim,
        "sampler.negatives": negatives,
        "batch_size": batch_size,
        "optimizer.learning_rate": learning_rate,
        "epochs": epochs,
        "seed": seed,
    }
    chosen = _chosen(preset, config, settings or [], flags)
    refuse_unwritable(output)
    checkpoint = output.with_name(f"{output.name}.checkpoint")
    if checkpoint.exists() != resume:
        raise ArgumentError(
            f"--resume needs {checkpoint}, which does not exist; leave it out to start anew"
            if resume
            else f"{checkpoint} is there from an interrupted run; go on with --resume, or remove it"
        )
    data = source.load()
    learned, validate = _held_out(data, chosen, validation)
    with training_bar(chosen.epochs, len(learned), _METRIC) as progress:
        trained = train_model(
            learned,
            chosen,
            validate=validate,
            device=resolve(device),
            checkpoint=checkpoint,
            checkpoint_seconds=checkpoint_seconds,
            resume=resume,
            progress=progress,
        )
    artifact.save(output, trained, data, chosen)
    _report(trained.history, trained.ended, output, as_json=as_json)
    if trained.ended == "interrupted":
        note(f"interrupted; {checkpoint} holds all that --resume needs to go on")
        raise typer.Exit(_INTERRUPTED)
    checkpoint.unlink(missing_ok=True)


def _chosen(preset: PresetName, file: Path | None, settings: list[str], flags: dict[str, Any]) -> Training:
    """The preset, changed by the file, by --set and by the flags, in this order."""
    chosen = PRESETS[preset].training
    if file is not None:
        chosen = configured(chosen, _read_toml(file))
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ArgumentError(f"--set needs NAME=VALUE, e.g. sampler.beta=0.6, got {setting!r}")
        chosen = configured(chosen, _nested(name.strip(), _value(text.strip())))
    for name, value in flags.items():
        if value is not None:
            chosen = configured(chosen, _nested(name, value))
    return chosen


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not TOML: {error}; mend it") from None


def _value(text: str) -> Any:
    """A value as TOML has it; a word without quotes is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _nested(name: str, value: Any) -> dict[str, Any]:
    """{"a": {"b": value}} for "a.b"."""
    for part in reversed(name.split(".")):
        value = {part: value}
    nested: dict[str, Any] = value
    return nested


def _held_out(data: Interactions, config: Training, share: float) -> tuple[Interactions, Validation | None]:
    """What to learn from, and what to validate on."""
    if share == 0:
        return data, None
    fold = splits.ratio(data, share, seed=config.seed)
    if not len(fold.test):
        raise ArgumentError(
            f"--validation {share:g} holds nothing out, for no user has enough items; raise it, or give 0 to go without"
        )
    return fold.train, Validation(fold.train, fold.test, constraint=config.constraint)


def _report(history: History, ended: str, output: Path, *, as_json: bool) -> None:
    best = history.best
    if as_json:
        summary = {"output": str(output), "ended": ended, "best_epoch": best and best.epoch, "metric": _METRIC}
        typer.echo(json.dumps({**summary, "history": history.as_records()}))
        return
    table = Table("epoch", "loss", "active", f"validation\n{_METRIC}", "triplets/s", title=f"Training: {ended}")
    shown = [record for record in history.epochs if record.metric is not None] or list(history.epochs[-10:])
    for record in shown:
        metric = "" if record.metric is None else f"{record.metric:.4f}{' ★' if record is best else ''}"
        speed = f"{record.triplets_per_second:,.0f}"
        table.add_row(str(record.epoch), f"{record.loss:.4f}", f"{record.active:.1%}", metric, speed)
    for column in table.columns:
        column.justify = "right"
    show(table)
    note(f"{output} holds the vectors{f' of epoch {best.epoch}' if best else ''}")
