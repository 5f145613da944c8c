"""`spherec tune`: search the settings that are best for some data."""

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from spherec.cli._output import INTERRUPTED, AsJson, grid, note, show, transient_bar
from spherec.cli._settings import (
    ConfigFile,
    Device,
    Force,
    StartingPreset,
    model_option,
    read_settings,
    refuse_existing,
)
from spherec.cli._source import Source, takes_source
from spherec.data.input_files import find_kind
from spherec.data.output_files import atomic_write, refuse_unwritable
from spherec.errors import TrainingError, escape_controls

if TYPE_CHECKING:
    from spherec.lab import Trial
    from spherec.lab.tuning import Goal, TuneResult, TuneWatcher
    from spherec.training import EpochRecord, History

_search = partial(typer.Option, rich_help_panel="Search")
_goal = partial(typer.Option, rich_help_panel="Goal")
_SHOWN = 5  # trials in the table
_FIRST_WORDS = "# spherec tune "  # of every file that it writes


@takes_source
def tune_command(
    context: typer.Context,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="TOML file to write, e.g. best.toml.")],
    searches: Annotated[
        list[str] | None,
        _search(
            "--search",
            metavar="NAME=RANGE",
            help="Setting to search: sampler.beta=0.1..1.0, optimizer.learning_rate=1e-4..1e-2:log, dim=64,128,256. "
            "May be repeated. Default: those that matter most.",
        ),
    ] = None,
    trials: Annotated[int, _search(metavar="N", help="Trials in the whole study.")] = 50,
    minutes: Annotated[float | None, _search(metavar="N", help="Minutes after which no new trial begins.")] = None,
    storage: Annotated[
        str | None,
        _search(
            envvar="SPHEREC_STORAGE",
            show_envvar=False,
            metavar="PLACE",
            help="File of the study, or postgresql://… for several machines; with a password, better in "
            "SPHEREC_STORAGE. Default: a file next to the output.",
        ),
    ] = None,
    study: Annotated[str, _search(metavar="NAME", help="Name of the study there.")] = "spherec",
    metric: Annotated[
        str, _goal(metavar="NAME", help="Metric on the held-out items: ndcg, map, recall, mrr, …")
    ] = "ndcg",
    k: Annotated[int, _goal("-k", metavar="N", help="Length of the lists.")] = 50,
    mmr_at_most: Annotated[
        float | None, _goal(metavar="MMR", help="Largest popularity of lists; settings above it win only if all are.")
    ] = None,
    validation: Annotated[float, _goal(metavar="SHARE", help="Share of each user's items to hold out.")] = 0.1,
    preset: StartingPreset = "two-stage",
    config: ConfigFile = None,
    settings: Annotated[
        list[str] | None,
        model_option("--set", metavar="NAME=VALUE", help="Setting of all trials, e.g. dim=64; may be repeated."),
    ] = None,
    seed: Annotated[int | None, model_option(metavar="N", help="Random seed of everything.")] = None,
    device: Device = "auto",
    force: Force = False,
    as_json: AsJson = False,
    *,
    source: Source,
) -> None:
    """Search for the best settings: train with many, score each on held-out items, stop poor ones early.

    Keep test data out of DATA. The study is saved: after Ctrl-C, the same command continues it. Needs optuna: pip
    install 'spherec[tune]'.

    For example:

    - spherec tune book-crossing -o best.toml --search sampler.beta=0.1..1.0 --trials 30
    - spherec train book-crossing --config best.toml -o books.spherec
    """
    from spherec.device import resolve
    from spherec.lab import Goal, SearchSpace, tune
    from spherec.lab.records import environment_of
    from spherec.lab.tuning import show_place
    from spherec.training.config import find_idle_settings, find_preset

    refuse_unwritable(output)
    storage = storage or str(output.with_suffix(".db"))
    base = find_preset(preset).change(read_settings(config, settings or [], {"seed": seed}))
    goal = Goal(metric=metric, k=k, validation=validation, mmr_at_most=mmr_at_most)
    space = SearchSpace.build(base, searches or None)
    refuse_existing(output, force or _is_own(output))
    where = resolve(device)
    data = source.load()
    domains = ", ".join(f"{name}={domain}" for name, domain in space.domains.items())
    note(f"searching {domains}{'' if searches else ' (give --search to search something else)'}")
    note(f"{goal.name} on {goal.validation:g} of each user's items; the study is in {show_place(storage)}")
    for advice in find_idle_settings(base, data):
        note(advice)
    with _trials_bar(trials, goal) as watcher:
        tuned = tune(
            data,
            base,
            space.domains,
            goal=goal,
            trials=trials,
            minutes=minutes,
            storage=storage,
            study=study,
            device=where,
            watcher=watcher,
        )
    if tuned.best is not None:
        words = [word.replace(storage, show_place(storage)) for word in context.obj]  # without a database's password
        _write(output, tuned, goal, shlex.join(["spherec", *words]), environment_of(where)["commit"])
    _report(tuned, goal, output, as_json=as_json)
    if tuned.best is not None and not as_json:
        command = ["spherec", "train", *source.words(), "--config", output, "-o", output.with_suffix(".spherec")]
        note(f"train with it: {shlex.join(map(str, command))}")
    if tuned.ended == "interrupted":
        note("finished trials are saved, and the one in progress comes first next time; rerun the command to continue")
        raise typer.Exit(INTERRUPTED)
    if tuned.best is None:
        reasons = [trial.failed for trial in tuned.trials if trial.failed]
        raise TrainingError(f"no trial was completed{f'; the last failed: {reasons[-1]}' if reasons else ''}")


def _is_own(output: Path) -> bool:
    """Return whether an earlier call has written the output, so that this one may replace it."""
    if find_kind(output) != "file":
        return False
    with open(output, "rb") as file:
        return file.read(len(_FIRST_WORDS)) == _FIRST_WORDS.encode()


def _write(output: Path, tuned: "TuneResult", goal: "Goal", command: str, commit: str) -> None:
    """Write the best settings as TOML, below comments that say where they come from."""
    best, config = tuned.best, tuned.config
    if best is None or config is None:
        return
    value, mmr = _value_and_mmr(best, goal)
    over = "" if goal.allows(mmr) else f", above the limit of {goal.mmr_at_most:g}, as all trials were"
    figures = f"validation {goal.name} {value:.6f}, MMR {mmr:.4g}{over}"
    learning = [
        "# spherec train --config reads this, and holds out items of its own to know when to stop; to learn from all",
        f"# items instead, add --validation 0 --epochs {best.epochs}",
    ]
    if config.optimizer.schedule != "constant":
        learning = ["# spherec train --config reads this, and learns from all items, to the end of the schedule"]
    lines = [
        f"# {escape_controls(command)}",  # a path may have a line break, which would end the comment
        f"# trial {best.number} of {len(tuned.trials)}: {figures}",
        f"# best after epoch {best.epochs}; seed {config.seed}, commit {commit}",
        *learning,
        "",
    ]
    with atomic_write(output) as file:
        file.write("\n".join([*lines, config.to_toml(), ""]).encode())


def _report(tuned: "TuneResult", goal: "Goal", output: Path, *, as_json: bool) -> None:
    best = tuned.best
    if as_json:
        summary = {
            "output": None if best is None else str(output),
            "ended": tuned.ended,
            "metric": goal.name,
            "best": best and _to_json(best, goal),
            "config": tuned.config and tuned.config.to_dict(),
            "within_limit": None if best is None else goal.allows(best.scores["mmr"]),
            "importance": dict(tuned.importance),
            "trials": [_to_json(trial, goal) for trial in tuned.trials],
        }
        typer.echo(json.dumps(summary))
        return
    if best is None:
        return
    rows = []
    for trial in _best_first(tuned.trials, goal)[:_SHOWN]:
        value, mmr = _value_and_mmr(trial, goal)
        score = f"{goal.format(value)}{' ★' if trial.number == best.number else ''}"
        rows.append((_settings_of(trial), str(trial.number), score, f"{mmr:.4g}", str(trial.epochs)))
    show(grid(("settings", "trial", goal.name, f"MMR@{goal.k}", "epoch"), rows, title=f"Tuning: {tuned.ended}"))
    if tuned.importance:
        note("importance: " + ", ".join(f"{name} {share:.0%}" for name, share in tuned.importance.items()))
    if not goal.allows(best.scores["mmr"]):
        note(f"no trial has an MMR of at most {goal.mmr_at_most:g}, so the best is the one with the lowest")
    note(f"{output} holds the settings of trial {best.number}")


def _best_first(trials: "Sequence[Trial]", goal: "Goal") -> "list[Trial]":
    """Sort complete trials: those within the limit by the metric, then the others by MMR."""

    def rank(trial: "Trial") -> tuple[int, float]:
        value, mmr = _value_and_mmr(trial, goal)
        return (0, -value) if goal.allows(mmr) else (1, mmr)

    return sorted((trial for trial in trials if trial.state == "complete"), key=rank)


def _value_and_mmr(trial: "Trial", goal: "Goal") -> tuple[float, float]:
    return trial.scores[goal.objective.name], trial.scores["mmr"]


def _to_json(trial: "Trial", goal: "Goal") -> dict[str, object]:
    value, mmr = _value_and_mmr(trial, goal) if trial.scores else (None, None)
    return {
        "number": trial.number,
        "state": trial.state,
        "values": dict(trial.settings),
        "value": value,
        "epoch": trial.epochs,
        "mmr": mmr,
        "seconds": trial.seconds,
        "why": trial.failed or None,
    }


@contextmanager
def _trials_bar(trials: int, goal: "Goal") -> Iterator["TuneWatcher"]:
    """Print a line for each trial that has ended and, in a terminal, show a bar over all of them."""
    from spherec.lab.tuning import TuneWatcher

    class Lines(TuneWatcher):
        def __init__(self, bar: Progress, task: TaskID) -> None:
            self._bar, self._task = bar, task

        def on_epoch(self, number: int, epoch: "EpochRecord", history: "History") -> None:
            best = history.best
            metric = "" if best is None or best.metric is None else f", {goal.name} {goal.format(best.metric)}"
            self._bar.update(self._task, description=f"trial {number}, epoch {epoch.epoch}{metric}")

        def on_trial(self, trials: "Sequence[Trial]", last: "Trial") -> None:
            self._bar.update(self._task, completed=len(trials), description="")
            style = "dim" if last.state != "complete" else None
            self._bar.console.print(_line(trials, last, goal), style=style)

    state = TextColumn("{task.description}", markup=False)
    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TextColumn("trials"), TimeElapsedColumn(), state)
    with transient_bar(*columns) as bar:
        yield Lines(bar, bar.add_task("", total=trials))


def _line(trials: "Sequence[Trial]", last: "Trial", goal: "Goal") -> str:
    """Describe the last trial in one line, compared with the best."""
    from spherec.lab import best_trial

    best = best_trial(trials, goal.objective.name, goal.mmr_at_most)
    parts = [f"trial {last.number}: {last.state}"]
    if last.scores:
        value, mmr = _value_and_mmr(last, goal)
        over = "" if goal.allows(mmr) else f" above {goal.mmr_at_most:g}"
        limit = "" if goal.mmr_at_most is None else f", MMR {mmr:.4g}{over}"
        parts.append(f"{goal.name} {goal.format(value)}{limit} in epoch {last.epochs}")
    if best is not None:
        lead = f"best {goal.format(_value_and_mmr(best, goal)[0])} (trial {best.number})"
        parts.append("the best so far" if best.number == last.number else lead)
    parts += [_settings_of(last), f"{last.seconds:.1f} s"]
    return "; ".join([*parts, *([last.failed] if last.failed else [])])


def _settings_of(trial: "Trial") -> str:
    """Write the settings of a trial short enough for a line."""
    from spherec.lab.search_space import format_value

    short = {
        name: f"{value:.4g}" if isinstance(value, float) else format_value(value)
        for name, value in trial.settings.items()
    }
    return ", ".join(f"{name}={value}" for name, value in short.items())
