"""What `spherec train` does once its options are read. Apart from them, because it brings torch."""

import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from spherec import artifact
from spherec.cli.display import INTERRUPTED, note, show
from spherec.cli.presets import PresetName
from spherec.data.files import refuse_unwritable
from spherec.data.interactions import Interactions
from spherec.device import DeviceName, resolve
from spherec.errors import ArgumentError, TrainingError
from spherec.memory import enough_memory
from spherec.recommender.fitting import METRIC, held_out, watched
from spherec.training import History, train
from spherec.training.advice import advise
from spherec.training.presets import PRESETS


def run_training(
    files: Sequence[str | Path | None],
    load: Callable[[], Interactions],
    output: Path,
    preset: PresetName,
    changes: dict[str, Any],
    *,
    validation: float | None,
    device: DeviceName,
    resume: bool,
    checkpoint_seconds: float,
    as_json: bool,
) -> None:
    """Train on what `load` reads from files, with a progress bar, write the model, say how it went."""
    config = PRESETS[preset].training
    config = config.change(changes)
    refuse_unwritable(output)
    for file in files:
        if file is not None and output.exists() and Path(file).exists() and output.samefile(file):
            raise ArgumentError(f"--output would replace {file}, which is read; name another file")
    checkpoint = output.with_name(f"{output.name}.checkpoint")
    if checkpoint.exists() != resume:
        raise ArgumentError(
            f"--resume needs {checkpoint}, which does not exist; leave it out to start anew"
            if resume
            else f"{checkpoint} is there from an interrupted run; go on with --resume, or remove it"
        )
    data = load()
    learned, validate = held_out(data, config, validation)
    with enough_memory(), watched(True, config, len(learned)) as progress:
        try:
            trained = train(
                learned,
                config,
                validate=validate,
                device=resolve(device),
                checkpoint=checkpoint,
                checkpoint_seconds=checkpoint_seconds,
                resume=resume,
                progress=progress,
            )
        except TrainingError:  # going on would come to the same end; with more memory it need not
            checkpoint.unlink(missing_ok=True)
            raise
    artifact.save(output, artifact.Artifact.of(trained, data))
    _report(trained.history, trained.ended, output, as_json=as_json)
    for advice in advise(config, data):
        note(advice)
    if trained.ended == "interrupted":
        note(f"{checkpoint} holds all that --resume needs to go on")
        raise typer.Exit(INTERRUPTED)
    checkpoint.unlink(missing_ok=True)
    if data.n_users and not as_json:
        note(f"try it: spherec recommend {shlex.quote(str(output))} {shlex.quote(str(data.user_ids[0]))}")


def _report(history: History, ended: str, output: Path, *, as_json: bool) -> None:
    best = history.best
    if as_json:
        summary = {"output": str(output), "ended": ended, "best_epoch": best and best.epoch, "metric": METRIC}
        typer.echo(json.dumps({**summary, "history": history.as_records()}))
        return
    table = Table("epoch", "loss", "active", f"validation\n{METRIC}", "triplets/s", title=f"Training: {ended}")
    shown = [record for record in history.epochs if record.metric is not None] or list(history.epochs[-10:])
    for record in shown:
        metric = "" if record.metric is None else f"{record.metric:.4f}{' ★' if record is best else ''}"
        speed = f"{record.triplets_per_second:,.0f}"
        table.add_row(str(record.epoch), f"{record.loss:.4f}", f"{record.active:.1%}", metric, speed)
    for column in table.columns:
        column.justify = "right"
    show(table)
    note(f"{output} holds the vectors{f' of epoch {best.epoch}' if best else ''}")
