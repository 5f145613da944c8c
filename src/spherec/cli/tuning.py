"""What `spherec tune` does once its options are read. Apart from them, because it brings torch and optuna."""

import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from spherec.cli.command import words_of, written
from spherec.cli.display import INTERRUPTED, note, show
from spherec.cli.presets import PresetName
from spherec.cli.source import Source
from spherec.cli.tuning_progress import shown_values, trials_bar
from spherec.data.files import atomic_write, refuse_unwritable
from spherec.device import DeviceName, resolve
from spherec.errors import ArgumentError, TrainingError
from spherec.experiments.environment import environment_of
from spherec.training.advice import find_idle_settings
from spherec.training.presets import PRESETS
from spherec.tuning import Goal, Space, Tried, Tuned, parsed, usual
from spherec.tuning.storage import shown
from spherec.tuning.study import tune

_SHOWN = 5  # trials in the table


def run_tuning(
    source: Source,
    context: typer.Context,
    output: Path,
    preset: PresetName,
    config: Path | None,
    changes: dict[str, Any],
    searches: Sequence[str],
    *,
    goal: dict[str, Any],
    trials: int,
    minutes: float | None,
    storage: str,
    study: str,
    device: DeviceName,
    as_json: bool,
) -> None:
    """Tune on DATA with a line for each trial, write the best config, show the best few.

    `changes` holds what is in the file `config`, too, which is not to be written.
    """
    base = PRESETS[preset].training.change(changes)
    wanted = Goal(**goal)
    space = Space.of(base, parsed(searches) or usual(base))
    refuse_unwritable(output)
    read = {"DATA": source.data} | ({} if config is None else {"--config": str(config)})
    _refuse_one_for_another(read | {"--output": str(output), "--storage": storage})
    where = resolve(device)
    data = source.load()
    said = ", ".join(f"{name}={domain}" for name, domain in space.domains.items())
    note(f"searching {said}{'' if searches else ' (give --search to search something else)'}")
    note(f"{wanted.name} on {wanted.validation:g} of each user's items; the study is in {shown(storage)}")
    for advice in find_idle_settings(base, data):
        note(advice)
    with trials_bar(trials, wanted) as watcher:
        tuned = tune(
            data,
            space,
            wanted,
            trials=trials,
            minutes=minutes,
            storage=storage,
            study=study,
            device=where,
            watcher=watcher,
        )
    if tuned.best is not None:
        given = words_of(context, context.params, instead={"storage": shown(storage)})
        _write(output, tuned, wanted, written("spherec", "tune", *given), environment_of(where)["commit"])
    _report(tuned, wanted, output, as_json=as_json)
    if tuned.best is not None and not as_json:
        reading = words_of(context, {field.name for field in fields(Source)} - {"preset"})
        model = output.with_suffix(".spherec")
        note("train with it: " + written("spherec", "train", *reading, "--config", output, "-o", model))
    if tuned.ended == "interrupted":
        note("what was tried is kept, and the trial in progress comes first next time: the same command goes on")
        raise typer.Exit(INTERRUPTED)
    if tuned.best is None:
        whys = [one.why for one in tuned.tried if one.why]
        raise TrainingError(f"no trial came to its end{f'; the last failed: {whys[-1]}' if whys else ''}")


def _write(output: Path, tuned: Tuned, goal: Goal, command: str, commit: str) -> None:
    best, config = tuned.best, tuned.config
    if best is None or config is None:
        return
    over = "" if goal.allows(best.mmr) else f", above the limit of {goal.mmr_at_most:g}, as all trials were"
    figures = f"validation {goal.name} {best.value:.6f}, MMR {best.mmr:.4g}{over}"
    learning = [
        "# spherec train --config reads this, and holds out items of its own to know when to stop; to learn from all",
        f"# items instead, add --validation 0 --epochs {best.epoch}",
    ]
    if config.optimizer.schedule != "constant":
        learning = ["# spherec train --config reads this, and learns from all items, to the end of the schedule"]
    lines = [
        f"# {command}",
        f"# trial {best.number} of {len(tuned.tried)}: {figures}",
        f"# best after epoch {best.epoch}; seed {config.seed}, commit {commit}",
        *learning,
        "",
    ]
    with atomic_write(output) as file:
        file.write("\n".join([*lines, config.to_toml(), ""]).encode())


def _report(tuned: Tuned, goal: Goal, output: Path, *, as_json: bool) -> None:
    best = tuned.best
    if as_json:
        summary = {
            "output": None if best is None else str(output),
            "ended": tuned.ended,
            "metric": goal.name,
            "best": best and best.described(),
            "config": tuned.config and tuned.config.to_dict(),
            "within_limit": None if best is None else goal.allows(best.mmr),
            "importance": dict(tuned.importance),
            "trials": [one.described() for one in tuned.tried],
        }
        typer.echo(json.dumps(summary))
        return
    if best is None:
        return
    table = Table("trial", goal.name, f"MMR@{goal.k}", "epoch", "settings", title=f"Tuning: {tuned.ended}")
    for one in _best_first(tuned.tried, goal)[:_SHOWN]:
        star = " ★" if one.number == best.number else ""
        table.add_row(f"{one.number}", f"{one.value:.4f}{star}", f"{one.mmr:.4g}", f"{one.epoch}", shown_values(one))
    for column in table.columns[:4]:
        column.justify = "right"
    show(table)
    if tuned.importance:
        note("what decides: " + ", ".join(f"{name} {share:.0%}" for name, share in tuned.importance.items()))
    if not goal.allows(best.mmr):
        note(f"no trial has an MMR of at most {goal.mmr_at_most:g}, so the best is the one with the lowest")
    note(f"{output} holds the settings of trial {best.number}")


def _best_first(tried: Sequence[Tried], goal: Goal) -> list[Tried]:
    """Complete trials: those within the limit by the metric, then the others by MMR."""
    done = [one for one in tried if one.state == "complete"]
    return sorted(done, key=lambda one: (0, -(one.value or 0.0)) if goal.allows(one.mmr) else (1, one.mmr or 0.0))


def _refuse_one_for_another(files: dict[str, str]) -> None:
    """An error where two of the files are the same."""
    paths = {name: Path(file).resolve() for name, file in files.items() if "://" not in file}
    for name, path in paths.items():
        for other, another in paths.items():
            if name < other and path == another:
                raise ArgumentError(f"{name} and {other} are both {path}; name another file for one of them")
