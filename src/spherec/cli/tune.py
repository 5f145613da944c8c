"""`spherec tune`: search the settings that are best for some data."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from spherec.cli._options import Device, group, option
from spherec.cli._output import INTERRUPTED, counting_bar, note, show
from spherec.cli._source import Source
from spherec.cli.presets import ModelSettings
from spherec.data.output_files import atomic_write, refuse_unwritable
from spherec.data.read.database import hide_password
from spherec.device import resolve
from spherec.errors import ArgumentError, TrainingError, escape_controls
from spherec.lab import SearchSpace, Trial, best_trial
from spherec.lab.records import environment_of
from spherec.lab.search_space import format_value
from spherec.training import EpochRecord, History, Training
from spherec.training.config import find_idle_settings

if TYPE_CHECKING:  # needs an extra, the help does not
    from spherec.lab.tuning import Goal, TuneWatcher

_search = partial(option, panel="Search")
_goal = partial(option, panel="Goal")
_FIRST_WORDS = "# spherec tune "  # of every file that it writes


@group
class SearchOptions:
    """Options about what is tried, and where it is kept."""

    output: Path = option("TOML file to write, e.g. best.toml.", "FILE", "--output", "-o", default=...)
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

    @property
    def place(self) -> str:
        """The file or the database of the study; raise an error if the output cannot be written."""
        refuse_unwritable(self.output)
        if self.output.is_file() and not self.output.read_bytes().startswith(_FIRST_WORDS.encode()):
            raise ArgumentError(f"{self.output} exists already, and spherec tune has not written it; name another file")
        return self.storage or str(self.output.with_suffix(".db"))


@group
class GoalOptions:
    """Options about what is best."""

    metric: str = _goal("Metric: ndcg, map, recall, mrr, …", "NAME", default="ndcg")
    k: int = _goal("Length of the lists.", "N", "-k", default=50)
    validation: float = _goal("Share of each user's items to hold out.", "SHARE", default=0.1)


def tune_command(
    context: typer.Context,
    source: Source,
    search: SearchOptions,
    aim: GoalOptions,
    model: ModelSettings,
    device: Device = "auto",
) -> None:
    """Keep test data out of DATA. After Ctrl-C, the same command continues. Examples:

    - spherec tune book-crossing -o best.toml --search sampler.beta=0.1..1.0 --trials 30
    - spherec train book-crossing --config best.toml -o books.spherec
    """
    from spherec.lab.tuning import Goal, show_place, tune

    output, storage = search.output, search.place
    base, goal = model.training(), Goal(**vars(aim))
    space = SearchSpace.build(base, search.searches or None)
    data = source.load()
    domains = ", ".join(f"{name}={domain}" for name, domain in space.domains.items())
    note(f"searching {domains}{'' if search.searches else ' (give --search to search something else)'}")
    note(f"{goal.name} on {goal.validation:g} of each user's items; the study is in {show_place(storage)}")
    for advice in find_idle_settings(base, data):
        note(advice)
    options = {"trials": search.trials, "minutes": search.minutes, "study": search.study}
    with _trials_bar(search.trials, goal) as watcher:
        place = {"storage": storage, "device": device, "watcher": watcher}
        tuned = tune(data, base, space.domains, goal=goal, **options, **place)
    if tuned.best is not None and tuned.config is not None:
        words = [hide_password(word.replace(storage, show_place(storage))) for word in context.obj]
        _write(output, shlex.join(["spherec", *words]), _line(tuned.trials, tuned.best, goal), tuned.config)
        show(f"{tuned.ended}, {len(tuned.trials)} trials; {_line(tuned.trials, tuned.best, goal)}")
        command = ["spherec", "train", *source.words(), "--config", output, "-o", output.with_suffix(".spherec")]
        note(f"{output} holds these settings; train with them: {shlex.join(map(str, command))}")
    if tuned.ended == "interrupted":
        note("finished trials are saved, and the one in progress comes first next time; rerun the command to continue")
        raise typer.Exit(INTERRUPTED)
    if tuned.best is None:
        reasons = [trial.failed for trial in tuned.trials if trial.failed]
        raise TrainingError(f"no trial was completed{f'; the last failed: {reasons[-1]}' if reasons else ''}")


def _write(output: Path, command: str, line: str, config: Training) -> None:
    """Write the best settings as TOML, below comments that say where they come from."""
    learning = "it learns from all items, to the end of the schedule"
    if config.optimizer.schedule == "constant":
        learning = "it holds out items of its own, unless you add --validation 0 and --epochs"
    comments = [
        command,
        line,
        f"commit {environment_of(resolve('cpu'))['commit']}",
        f"spherec train --config: {learning}",
    ]
    text = "".join(f"# {escape_controls(comment)}\n" for comment in comments)  # a path may have a line break
    with atomic_write(output) as file:
        file.write(f"{text}\n{config.to_toml()}\n".encode())


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
    best = best_trial(trials, goal.objective.name)
    parts = [f"trial {last.number}: {last.state}"]
    if last.scores:
        figure = f"{goal.name} {goal.format(last.scores[goal.objective.name])}"
        parts.append(f"{figure}, MMR {last.scores['mmr']:.4g} in epoch {last.epochs}")
    if best is not None:
        lead = f"best {goal.format(best.scores[goal.objective.name])} (trial {best.number})"
        parts.append("the best" if best.number == last.number else lead)
    short = {name: f"{v:.4g}" if isinstance(v, float) else format_value(v) for name, v in last.settings.items()}
    settings = ", ".join(f"{name}={value}" for name, value in short.items())
    return "; ".join(filter(None, [*parts, settings, f"{last.seconds:.1f} s", last.failed]))
