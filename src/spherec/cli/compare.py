"""`spherec compare`: our models and the models that a user might take instead, on the user's data."""

import json
import re
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from spherec.cli._features import FeatureOptions
from spherec.cli._options import AsJson, group, option
from spherec.cli._output import SafeConsole, grid, note, show
from spherec.cli._runs import RunsOptions, runs_bar
from spherec.cli._source import Source
from spherec.data.features import Features
from spherec.data.output_files import atomic_write
from spherec.device import resolve
from spherec.errors import ArgumentError, MissingPackageError, TrainingError, escape_controls, quote
from spherec.evaluation.metrics import ndcg
from spherec.lab import ComparedModel, Comparison, ComparisonPlan, Result, TableRow
from spherec.lab.registry import BASELINES, default_models, find_models
from spherec.lab.tables import (
    best_baseline,
    comparison_columns,
    comparison_csv,
    describe_ends,
    describe_folds,
    describe_test,
    describe_time,
    page_cells,
    summarize,
)


@group
class PlanOptions:
    """Options that decide the figures."""

    models: str | None = option(
        f"Comma-separated presets, as they come (fast) or tuned (fast+tuned), and baselines: {', '.join(BASELINES)}; "
        "with --item-features also accurate+features, content-knn. Default: all baselines, fast and accurate in both "
        "ways.",
        "NAMES",
    )
    folds: int | None = option("Parts that each user's items are dealt over. Default: 4, if rough 2.", "N")
    test: list[str] | None = option("Data to test on instead of folds. May be repeated.", "DATA")
    k: int = option("Length of the lists.", "N", "-k", default=50)
    trials: int | None = option("Settings to try for each model on each fold. Default: 10, if rough 3.", "N")
    rough: bool = option("Fewer folds, trials and models: no accurate, tuned, bpr.", None, "--rough", default=False)
    validation: float = option("Share of training items on which settings are chosen.", "SHARE", default=0.05)
    seed: int = option("Random seed of everything.", "N", default=0)

    def figures(self) -> dict[str, Any]:
        """Return the numbers of the plan, by name."""
        usual = {"folds": 2 if self.rough else 4, "trials": 3 if self.rough else 10}
        given = {name: getattr(self, name) for name in (*usual, "k", "validation", "seed")}
        return usual | {name: value for name, value in given.items() if value is not None}

    def find_models(self, features: Features | None) -> tuple[ComparedModel, ...]:
        """Return the models that are named, or those of the default."""
        names = default_models(features, rough=self.rough) if self.models is None else self.models.split(",")
        return tuple(find_models(filter(None, map(str.strip, names)), features))


@group
class PlaceOptions:
    """Options about what is written."""

    output: Path = option("Folder of results.", "FOLDER", "--output", "-o", default=Path("results/compare"))
    name: str | None = option("Name of the results. Default: that of the data.", "NAME")

    def find(self, source: Source) -> Path:
        """Return the folder of records, which may not overwrite a file; the results stand next to it."""
        of_data = re.sub(r"[^\w-]+", "", Path(source.data[0]).name.split(".")[0]).strip("-_") or "data"
        name = of_data if self.name is None else self.name
        if not name or Path(name).name != name:
            raise ArgumentError(f"--name must be a name for files, without folders, got {quote(name)}")
        records = self.output / name
        results = [] if records.is_dir() else [self.output / f"{name}{ending}" for ending in (".csv", ".md", ".png")]
        if taken := [path for path in (self.output, records) if path.is_file()] + [*filter(Path.exists, results)]:
            raise ArgumentError(f"{taken[0]} is there already, of something else; choose another --output or --name")
        return records


def compare_command(
    context: typer.Context,
    source: Source,
    options: PlanOptions,
    runs: RunsOptions,
    place: PlaceOptions,
    features: FeatureOptions,
    as_json: AsJson = False,
) -> None:
    """Each model is tried with the same number of settings on a validation part of the training items, then trained
    with the best on all of them, and tested once. What is recorded is not run again: stop and start at will. Examples:

    - spherec compare book-crossing --rough
    - spherec compare split/train.npz --test split/test.npz --item-features songs.csv --models accurate+features,ease
    """
    figures, records = options.figures(), place.find(source)
    folds = runs.folds(1 if options.test else figures["folds"])
    data, test = source.load_parts(options.test) if options.test else (source.load(), None)
    known, device = features.read(data.item_ids), resolve(runs.device)
    plan = ComparisonPlan(options.find_models(known), **figures, workers=runs.workers)
    comparison = Comparison(plan, data, records, test=test)
    if before := len(comparison.results()):
        note(f"{before} tests were recorded before in {records}; choose another --output to run them again")
    needs_all = options.models is not None
    if estimates := comparison.estimate(device=device, folds=folds, needs_all=needs_all):
        note(f"this takes {describe_time(estimates)}")
    with runs_bar(comparison.runs_left(folds)) as watch:
        after = partial(_report, comparison, as_json)
        try:
            results = comparison.run(device=device, folds=folds, watch=watch, needs_all=needs_all, after=after)
        except KeyboardInterrupt:
            note("finished work is saved; rerun the same command to continue")
            raise
    for model, error in comparison.failed.items():
        note(f"{model} is left out: {error}")
    if comparison.failed and not results:
        raise TrainingError("no model could be fit; name others with --models")
    table, baseline = summarize(results, plan.metrics, comparison.user_values), best_baseline(results)
    command = escape_controls(shlex.join(["spherec", *context.obj]))
    texts = {"csv": comparison_csv(table, plan.metrics), "md": comparison.page(records.name, command, table)}
    for ending, text in texts.items():
        with atomic_write(place.output / f"{records.name}.{ending}") as file:
            file.write(text.encode())
    try:
        from spherec.lab.plots import plot_comparison  # needs matplotlib

        plot_comparison(records.name, table, plan.k, place.output / f"{records.name}.png")
    except MissingPackageError as error:
        note(str(error))
    if as_json:
        models = [{**comparison_columns(row, plan.metrics), **_describe(row, results)} for row in table]
        facts_too = {"name": records.name, "data": comparison.sizes, "best_baseline": baseline}
        typer.echo(json.dumps({**facts_too, "models": models}))
    else:
        show(_lay_out(table, plan, records.name, without=("p MAP",)))  # 80 characters have no room for it
        about = "Ours in bold; MMR: median popularity of what is recommended; fit: the last alone"
        compared = describe_test(baseline) if baseline else ""
        for line in filter(None, [f"{describe_folds(table)} {about}", compared, describe_ends(results)]):
            note(line)
    note(f"{place.output} holds {records.name}.csv, {records.name}.md and, in {records.name}, the records")


def _describe(row: TableRow, results: Sequence[Result]) -> dict[str, object]:
    """Return what JSON says of a model beyond the columns of the CSV."""
    settings = {str(result.fold): result.settings for result in results if result.model == row.model}
    return {"ours": row.is_ours, "folds": row.folds, "settings": settings}


def _report(comparison: Comparison, as_json: bool, model: str) -> None:
    """Show the table so far in a terminal; elsewhere a line on a model that is done."""
    plan, console = comparison.plan, SafeConsole(markup=False, emoji=False, highlight=False)
    table = sorted(summarize(comparison.results(), plan.metrics), key=lambda row: -row[ndcg.name].mean)
    if as_json or not console.is_terminal:
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
