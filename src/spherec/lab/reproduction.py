"""Reproduce the paper's table: each row is trained and tested on every fold, its config chosen from a small grid.

An experiment is a comparison whose models are rows of settings. The rows of the paper ship with the package as TOML.
"""

import csv
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, check_choice
from spherec.evaluation import Metric
from spherec.evaluation.metrics import average_precision, median_popularity, ndcg
from spherec.lab.comparison import Comparison, ComparisonPlan
from spherec.lab.models import ComparedModel, OurModel
from spherec.lab.records import RecordFile, Result, Settings
from spherec.lab.search_space import apply_settings
from spherec.lab.tables import MeanStd, TableRow, figures, heading, to_csv, to_markdown
from spherec.sampling import Popularity, TwoStage, Uniform
from spherec.training import Training
from spherec.training.config import overlay

EXPERIMENTS = ("book-crossing", "amazon-movies", "echonest", "two-stage")
"""The experiments that ship with the package; "two-stage" is on Book-Crossing."""

PAPER_METRICS: tuple[Metric, ...] = (average_precision, ndcg, median_popularity)
"""The metrics that the paper reports."""

PAPER_SETTINGS: Mapping[str, Training] = {
    "uniform": Training(sampler=Uniform(negatives=5), batch_size=4096),
    "popularity": Training(sampler=Popularity(negatives=5)),
    "two-stage": Training(),
    "two-stage-as-released": Training(sampler=TwoStage.as_released()),
    "two-stage-as-written": Training(sampler=TwoStage.as_written()),
}
"""Settings that the rows of an experiment begin from: the paper's baselines, and two-stage sampling on live vectors, as
in the paper's public code (on the initial vectors), and as in its text, where training collapses."""


class Row(OurModel):
    """One row of a table: how its models are trained, and settings to choose from on each fold. Its seed is its own."""

    has_choices = True  # if nothing else, the number of epochs

    def __init__(
        self, name: str, training: Training, grid: Sequence[Settings] = ({},), mmr_at_most: float | None = None
    ) -> None:
        super().__init__(name, training, {})
        self.grid, self.mmr_at_most = grid, mmr_at_most
        self.choices = tuple(apply_settings(training, settings) for settings in grid)

    def draw(self, trials: int, *, seed: int, fold: int) -> list[dict[str, Any]]:
        del trials, seed, fold
        return list(map(dict, self.grid))

    def configure(self, settings: Settings, data: Interactions, seed: int) -> Training:
        del data, seed
        return apply_settings(self.config, settings)


@dataclass(frozen=True)
class Experiment(ComparisonPlan):
    """A comparison whose models are rows. On each fold a validation part decides on the epochs and on the settings."""

    models: tuple[Row, ...]
    name: str = "experiment"

    def only(self, names: Sequence[str]) -> "Experiment":
        """Return the same experiment with only the rows of these names."""
        known = [row.name for row in self.models]
        if unknown := [name for name in names if name not in known]:
            raise ArgumentError(f"{self.name} has no row {', '.join(unknown)}; it has {', '.join(known)}")
        return replace(self, models=tuple(row for row in self.models if row.name in names))

    @classmethod
    def from_toml(cls, text: str) -> "Experiment":
        """Read a table with `name`, `folds`, `seed`, `k`, `validation`, and `[[rows]]`.

        A row has a `name`, a `preset` of `PAPER_SETTINGS` to begin from, and settings as `spherec train` takes them;
        those of `[all]` hold for every row. It may have a `grid`, such as { "sampler.beta" = [0.7, 0.8] }, and with it
        `mmr_at_most`.
        """
        content = tomllib.loads(text)
        common = content.pop("all", {})
        rows = tuple(_read_row(table, common) for table in content.pop("rows", []))
        return cls(rows, **content)

    @classmethod
    def embedded(cls, name: str) -> "Experiment":
        check_choice("experiment", name, EXPERIMENTS)
        return cls.from_toml((resources.files("spherec.lab") / f"{name}.toml").read_text(encoding="utf-8"))


def _read_row(table: Mapping[str, Any], common: Mapping[str, Any]) -> Row:
    settings = dict(table)
    name, preset = settings.pop("name"), settings.pop("preset", "two-stage")
    grid, mmr_at_most = settings.pop("grid", {}), settings.pop("mmr_at_most", None)
    combinations = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    return Row(name, PAPER_SETTINGS[preset].change(overlay(common, settings)), combinations, mmr_at_most)


class Reproduction(Comparison):
    """An experiment on some data, as a comparison of its rows; its trials are kept next to the file of records."""

    others = ()
    fits_alone = False

    def __init__(
        self, experiment: Experiment, data: Interactions, records: Path, only_folds: Iterable[int] | None = None
    ) -> None:
        super().__init__(experiment, data, records.parent, only_folds=only_folds)
        self.study, self.user_values = experiment.name, None
        self._results, self._trials = RecordFile(records), RecordFile(records.with_suffix(".trials.jsonl"))

    def identity(self, model: ComparedModel) -> dict[str, Any]:
        assert isinstance(model, Row)
        return {
            "choices": [config.to_record() for config in model.choices],
            "mmr_at_most": model.mmr_at_most,
            **self.split,
            "split_seed": self.plan.seed,
            "k": self.plan.k,
            "validation": self.plan.validation,
        }

    def blank_result(self, model: ComparedModel, fold: int) -> Result:
        return Result(self.study, model.name, fold, self.identity(model))


def paper_rows(dataset: str) -> dict[str, TableRow]:
    """Return the 15 rows of the paper's table 2 for a data set, by their names: uniform-5-4096, …"""
    text = (resources.files("spherec.lab") / "table2.csv").read_text(encoding="utf-8")
    rows = {}
    for line in csv.DictReader(text.splitlines()):
        if line["dataset"] == dataset:
            name = f"{line['sampler']}-{line['negatives']}-{line['batch']}"
            names = [metric.name for metric in PAPER_METRICS]
            scores = {each: MeanStd(float(line[f"{each}_mean"]), float(line[f"{each}_std"])) for each in names}
            rows[name] = TableRow(name, 4, scores)
    return rows


def paper_csv(dataset: str, table: Sequence[TableRow]) -> str:
    """Return our rows with exactly the columns of the paper's table."""
    names = ("sampler", "negatives", "batch")
    rows = ((row, dict(zip(names, row.model.rsplit("-", 2), strict=True))) for row in table)
    return to_csv([{"dataset": dataset, **parts, **figures(row, PAPER_METRICS)} for row, parts in rows], ".3f")


def paper_markdown(table: Sequence[TableRow], paper: Mapping[str, TableRow], made_by: str = "") -> str:
    """Return our rows next to the paper's, which go by the names of ours, with a legend and where they were made."""
    heads = [head for metric in PAPER_METRICS for head in (heading(metric), "paper")]
    rows = []
    for row in table:
        cells = [cell for pair in compare_with_paper(row, paper.get(row.model)) for cell in pair]
        seconds = row.seconds["choosing"] + row.seconds["training"]
        rows.append([row.model, *cells, "" if row.epochs is None else f"{row.epochs:.0f}", f"{seconds:.0f}"])
    legend = "▲ better than the paper's mean, = within its standard deviation (MMR: within a tenth), ▼ worse."
    parts = [to_markdown(["row", *heads, "epochs", "seconds"], rows), legend, *([f"{made_by}."] if made_by else [])]
    return "\n\n".join(parts) + "\n"


def compare_with_paper(row: TableRow, paper: TableRow | None) -> list[tuple[str, str]]:
    """Return for each metric our value with a mark, and the paper's; no mark for MMR where NDCG is worse."""
    if paper is None:
        return [(str(row[metric.name]), "") for metric in PAPER_METRICS]
    marks = {metric.name: mark(metric, row[metric.name], paper.scores[metric.name]) for metric in PAPER_METRICS}
    if marks[ndcg.name] == "▼":  # poor lists are easily unpopular
        marks[median_popularity.name] = ""
    return [(f"{row[name]} {sign}".rstrip(), str(paper.scores[name])) for name, sign in marks.items()]


def mark(metric: Metric, ours: MeanStd, theirs: MeanStd) -> str:
    """Return ▲ where ours is better, = where it is as good, ▼ where it is worse."""
    is_lower_better = getattr(metric, "lower_is_better", False)
    ahead = (theirs.mean - ours.mean) if is_lower_better else (ours.mean - theirs.mean)
    if ahead >= 0:
        return "▲"
    allowed = 0.1 * theirs.mean if is_lower_better else theirs.std
    return "=" if -ahead <= allowed else "▼"
