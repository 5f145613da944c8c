"""`spherec compare`: our models and the models that a user might take instead, on the user's data."""

import re
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import typer
from rich.table import Table

from spherec.cli._features import FeatureOptions
from spherec.cli._options import group, option
from spherec.cli._output import SafeConsole, grid, note, show
from spherec.cli._runs import RunsOptions, run_missing
from spherec.cli._source import Source
from spherec.data.features import Features
from spherec.data.output_files import atomic_write
from spherec.data.read.database import hide_password
from spherec.errors import ArgumentError, MissingPackageError, TrainingError, escape_controls
from spherec.evaluation.metrics import ndcg
from spherec.lab import Comparison, ComparisonPlan, TableRow
from spherec.lab.registry import BASELINES, default_models, find_models
from spherec.lab.tables import (
    best_baseline,
    comparison_csv,
    describe_ends,
    describe_folds,
    describe_test,
    page_cells,
    summarize,
)


@group
class CompareOptions:
    """Options that decide the figures."""

    models: str | None = option(
        f"Comma-separated presets, as they come (fast) or tuned (fast+tuned), and baselines: {', '.join(BASELINES)}; "
        "with --item-features also accurate+features, content-knn. Default: all baselines, and quick, fast "
        "and accurate in both ways.",
        "NAMES",
    )
    folds: int | None = option("Parts that each user's items are dealt over. Default: 4, if rough 2.", "N")
    test: list[str] | None = option("Data to test on instead of folds. May be repeated.", "DATA")
    k: int = option("Length of the lists.", "N", "-k", default=50)
    trials: int | None = option("Settings to try for each model on each fold. Default: 10, if rough 3.", "N")
    rough: bool = option("Fewer folds, trials and models.", None, "--rough", default=False)
    validation: float = option("Share of training items on which settings are chosen.", "SHARE", default=0.05)
    seed: int = option("Random seed of everything.", "N", default=0)
    output: Path | None = option(
        "Folder of the records; the table is written next to it. Default: results/compare/DATA.",
        "FOLDER",
        "--output",
        "-o",
    )

    def plan(self, features: Features | None, workers: int | None) -> ComparisonPlan:
        """Return the models that are named, or those of the default, and the numbers of the plan."""
        names = default_models(features, rough=self.rough) if self.models is None else self.models.split(",")
        usual = {"folds": 2 if self.rough else 4, "trials": 3 if self.rough else 10}
        given = {name: getattr(self, name) for name in (*usual, "k", "validation", "seed")}
        numbers = usual | {name: value for name, value in given.items() if value is not None}
        models = tuple(find_models(filter(None, map(str.strip, names)), features))
        return ComparisonPlan(models, **numbers, workers=workers)

    def place(self, source: Source) -> Path:
        """Return the folder of the records; a table next to it, of something else, may not be overwritten."""
        name = re.sub(r"[^\w-]+", "", source.name.split(".")[0]).strip("-_") or "data"
        records = self.output or Path("results/compare") / name
        table = records.with_name(f"{records.name}.md")
        if records.is_file() or (table.exists() and not records.is_dir()):
            raise ArgumentError(
                f"{table} or {records} is there already, of something else; name another folder with -o"
            )
        return records


def compare_command(
    context: typer.Context, source: Source, options: CompareOptions, runs: RunsOptions, features: FeatureOptions
) -> None:
    """Each model is tried with the same number of settings on a validation part of the training items, then trained
    with the best on all of them, and tested once. What is recorded is not run again: stop and start at will. Examples:

    - spherec compare book-crossing --rough
    - spherec compare split/train.npz --test split/test.npz --item-features songs.csv --models accurate+features,ease
    """
    records = options.place(source)
    data, test = source.load_parts(options.test) if options.test else (source.load(), None)
    plan = options.plan(features.read(data.item_ids), runs.workers)
    comparison = Comparison(plan, data, records, test=test, only_folds=runs.only_folds)
    run_missing(comparison, runs, needs_all=options.models is not None, after=partial(_report, comparison))
    for model, error in comparison.failed.items():
        note(f"{model} is left out: {error}")
    _write(comparison, records, escape_controls(shlex.join(["spherec", *map(hide_password, context.obj)])))
    note(f"{records}.csv and {records}.md hold the table, and {records} the records")


def _write(comparison: Comparison, records: Path, command: str) -> None:
    """Write and show the table."""
    plan, results = comparison.plan, comparison.results()
    if comparison.failed and not results:
        raise TrainingError("no model could be fit; name others with --models")
    table, baseline = summarize(results, plan.metrics, comparison.user_values), best_baseline(results)
    texts = {"csv": comparison_csv(table, plan.metrics), "md": comparison.page(records.name, command, table)}
    for ending, text in texts.items():
        with atomic_write(records.with_name(f"{records.name}.{ending}")) as file:
            file.write(text.encode())
    try:
        from spherec.lab.plots import plot_comparison  # needs matplotlib

        plot_comparison(records.name, table, plan.k, records.with_name(f"{records.name}.png"))
    except MissingPackageError as error:
        note(str(error))
    show(_lay_out(table, plan, records.name, without=("p MAP",)))  # 80 characters have no room for it
    about = "Ours in bold; MMR: median popularity of what is recommended; fit: the last alone"
    compared = describe_test(baseline) if baseline else ""
    for line in filter(None, [f"{describe_folds(table)} {about}", compared, describe_ends(results)]):
        note(line)


def _report(comparison: Comparison, model: str) -> None:
    """Show the table so far in a terminal; elsewhere a line on a model that is done."""
    plan, console = comparison.plan, SafeConsole(markup=False, emoji=False, highlight=False)
    table = sorted(summarize(comparison.results(), plan.metrics), key=lambda row: -row[ndcg.name].mean)
    if not console.is_terminal:
        (cells,) = (page_cells(row, plan.metrics) for row in table if row.model == model)
        note(", ".join(f"{head} {cell}" for head, cell in cells.items() if cell))
        return
    with console.capture() as shown:
        console.print(_lay_out(table, plan, "so far", ("MAP %", "Recall %", "p MAP", "p NDCG", "peak MB")))
    sys.stdout.write(f"{shown.get()}\n")  # above the bar, which a console of its own would not know


def _lay_out(table: Sequence[TableRow], plan: ComparisonPlan, name: str, without: Sequence[str]) -> Table:
    cells = [page_cells(row, plan.metrics) for row in table]
    header = [column for column in cells[0] if column not in without]
    shown = grid(header, (), title=f"{name}: lists of {plan.k}", box=None, padding=(0, 1, 0, 0))
    for row, texts in zip(table, cells, strict=True):
        shown.add_row(*(texts[column].replace(" ", "") for column in header), style="bold" if row.is_ours else None)
    for column in shown.columns:
        column.no_wrap = True
    return shown
