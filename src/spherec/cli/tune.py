"""`spherec tune`: search the settings that are best for some data."""

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from spherec.cli._options import AsJson, Device, group, option
from spherec.cli._output import INTERRUPTED, counting_bar, note, show
from spherec.cli._source import Source
from spherec.cli.presets import ModelSettings
from spherec.data.output_files import atomic_write, refuse_unwritable
from spherec.device import resolve
from spherec.errors import ArgumentError, TrainingError, escape_controls
from spherec.lab import SearchSpace, Trial, best_trial
from spherec.lab.records import environment_of
from spherec.lab.search_space import format_value
from spherec.training import EpochRecord, History, Training
from spherec.training.config import find_idle_settings

if TYPE_CHECKING:  # needs an extra, the help does not
    from spherec.lab.tuning import Goal, TuneOptions, TuneResult, TuneWatcher

_search = partial(option, panel="Search")
_goal = partial(option, panel="Goal")
_FIRST_WORDS = "# spherec tune "  # of every file that it writes


@group
class SearchOptions:
    """Options about what is tried, and where it is kept."""

    searches: list[str] | None = _search(
        "Setting to search: sampler.beta=0.1..1.0, optimizer.learning_rate=1e-4..1e-2:log, dim=64,128,256. May be "
        "repeated. Default: those that matter most.",
        "NAME=RANGE",
        "--search",
    )
    trials: int = _search("Trials in the whole study.", "N", default=50)
    minutes: float | None = _search("Minutes after which no new trial begins.", "N")
    storage: str | None = _search(
        "File, by default next to the output, or postgresql://… for several machines; with a password, better in "
        "SPHEREC_STORAGE.",
        "PLACE",
        envvar="SPHEREC_STORAGE",
        show_envvar=False,
    )
    study: str = _search("Name of the study there.", "NAME", default="spherec")


@group
class GoalOptions:
    """Options about what is best."""

    metric: str = _goal("Metric: ndcg, map, recall, mrr, …", "NAME", default="ndcg")
    k: int = _goal("Length of the lists.", "N", "-k", default=50)
    mmr_at_most: float | None = _goal("Largest popularity of lists; settings above win only if all are.", "MMR")
    validation: float = _goal("Share of each user's items to hold out.", "SHARE", default=0.1)


def tune_command(
    context: typer.Context,
    source: Source,
    search: SearchOptions,
    aim: GoalOptions,
    model: ModelSettings,
    output: Path = option("TOML file to write, e.g. best.toml.", "FILE", "--output", "-o", default=...),
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Keep test data out of DATA. After Ctrl-C, the same command continues. Examples:

    - spherec tune book-crossing -o best.toml --search sampler.beta=0.1..1.0 --trials 30
    - spherec train book-crossing --config best.toml -o books.spherec
    """
    from spherec.lab.tuning import Goal, show_place, tune

    refuse_unwritable(output)
    if output.is_file() and not output.read_bytes().startswith(_FIRST_WORDS.encode()):
        raise ArgumentError(f"{output} exists already, and spherec tune has not written it; name another file")
    storage = search.storage or str(output.with_suffix(".db"))
    base, goal = model.training(), Goal(**vars(aim))
    space = SearchSpace.build(base, search.searches or None)
    data = source.load()
    domains = ", ".join(f"{name}={domain}" for name, domain in space.domains.items())
    note(f"searching {domains}{'' if search.searches else ' (give --search to search something else)'}")
    note(f"{goal.name} on {goal.validation:g} of each user's items; the study is in {show_place(storage)}")
    for advice in find_idle_settings(base, data):
        note(advice)
    options: TuneOptions = {"trials": search.trials, "minutes": search.minutes, "study": search.study}
    with _trials_bar(search.trials, goal) as watcher:
        options |= {"storage": storage, "device": device, "watcher": watcher}
        tuned = tune(data, base, space.domains, goal=goal, **options)
    if tuned.best is not None:
        words = [word.replace(storage, show_place(storage)) for word in context.obj]  # without a database's password
        lines = _describe_best(tuned, goal, shlex.join(["spherec", *words]), environment_of(resolve(device))["commit"])
        with atomic_write(output) as file:
            file.write("\n".join(lines).encode())
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


def _describe_best(tuned: "TuneResult", goal: "Goal", command: str, commit: str) -> list[str]:
    """Return the best settings as lines of TOML, below comments that say where they come from."""
    best, config = cast("Trial", tuned.best), cast("Training", tuned.config)
    learning = "learns from all items, to the end of the schedule"
    if config.optimizer.schedule == "constant":
        learning = f"holds out items of its own; to learn from all, add --validation 0 --epochs {best.epochs}"
    return [
        f"# {escape_controls(command)}",  # a path may have a line break, which would end the comment
        f"# trial {best.number} of {len(tuned.trials)}: validation {goal.name} {best.scores[goal.objective.name]:.6f}, "
        f"MMR {best.scores['mmr']:.4g}, best after epoch {best.epochs}",
        f"# seed {config.seed}, commit {commit}",
        f"# spherec train --config reads this, and {learning}",
        *("", config.to_toml(), ""),
    ]


def _report(tuned: "TuneResult", goal: "Goal", output: Path, *, as_json: bool) -> None:
    best = tuned.best
    if as_json:
        summary = {
            "output": None if best is None else str(output),
            "ended": tuned.ended,
            "metric": goal.name,
            "best": best and _describe(best, goal),
            "config": tuned.config and tuned.config.to_dict(),
            "within_limit": None if best is None else goal.allows(best.scores["mmr"]),
            "importance": dict(tuned.importance),
            "trials": [_describe(trial, goal) for trial in tuned.trials],
        }
        typer.echo(json.dumps(summary))
    elif best is not None:
        show(f"{tuned.ended}, {len(tuned.trials)} trials; {_line(tuned.trials, best, goal)}")
        if tuned.importance:
            note("importance: " + ", ".join(f"{name} {share:.0%}" for name, share in tuned.importance.items()))
        if not goal.allows(best.scores["mmr"]):
            note(f"no trial has an MMR of at most {goal.mmr_at_most:g}, so the best is the one with the lowest")
        note(f"{output} holds the settings of trial {best.number}")


def _describe(trial: Trial, goal: "Goal") -> dict[str, object]:
    figures = {"value": trial.scores.get(goal.objective.name), "epoch": trial.epochs, "mmr": trial.scores.get("mmr")}
    about = {"number": trial.number, "state": trial.state, "values": dict(trial.settings)}
    return {**about, **figures, "seconds": trial.seconds, "why": trial.failed or None}


@contextmanager
def _trials_bar(trials: int, goal: "Goal") -> Iterator["TuneWatcher"]:
    """Show a bar over all trials, and print a line for each that has ended."""
    from spherec.lab.tuning import TuneWatcher

    with counting_bar("", "trials", trials) as update:

        class Lines(TuneWatcher):
            def on_epoch(self, number: int, epoch: EpochRecord, history: History) -> None:
                best = history.best
                metric = "" if best is None or best.metric is None else f", {goal.name} {goal.format(best.metric)}"
                update(None, label=f"trial {number}, epoch {epoch.epoch}{metric}")

            def on_trial(self, trials: Sequence[Trial], last: Trial) -> None:
                update(len(trials), label="")
                note(_line(trials, last, goal))

        yield Lines()


def _line(trials: Sequence[Trial], last: Trial, goal: "Goal") -> str:
    """Describe the last trial in one line, compared with the best."""
    best = best_trial(trials, goal.objective.name, goal.mmr_at_most)
    parts = [f"trial {last.number}: {last.state}"]
    if last.scores:
        mmr = "" if goal.mmr_at_most is None else f", MMR {last.scores['mmr']:.4g}"
        mmr += "" if goal.allows(last.scores["mmr"]) else " above the limit"
        parts.append(f"{goal.name} {goal.format(last.scores[goal.objective.name])}{mmr} in epoch {last.epochs}")
    if best is not None:
        lead = f"best {goal.format(best.scores[goal.objective.name])} (trial {best.number})"
        parts.append("the best" if best.number == last.number else lead)
    short = {name: f"{v:.4g}" if isinstance(v, float) else format_value(v) for name, v in last.settings.items()}
    settings = ", ".join(f"{name}={value}" for name, value in short.items())
    return "; ".join(filter(None, [*parts, settings, f"{last.seconds:.1f} s", last.failed]))
