"""`spherec compare`: our models and the models that a user might take instead, on the user's data."""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import typer

from spherec.cli._features import FeatureOptions
from spherec.cli._options import AsJson, group, option
from spherec.cli._output import grid, note, show
from spherec.cli._runs import RunsOptions, runs_bar
from spherec.cli._source import Source
from spherec.data.output_files import atomic_write
from spherec.device import resolve
from spherec.errors import ArgumentError, MissingPackageError, TrainingError, escape_controls, quote
from spherec.lab import Comparison, ComparisonPlan, Result, TableRow
from spherec.lab.registry import BASELINES, default_models, find_models
from spherec.lab.tables import (
    best_baseline,
    comparison_columns,
    comparison_csv,
    describe_folds,
    page_cells,
    summarize,
)


@group
class PlanOptions:
    """Options that decide the figures."""

    models: str | None = option(
        f"Comma-separated presets and baselines: {', '.join(BASELINES)}; with --item-features also accurate+features, "
        "content-knn. Default: our main presets and all baselines.",
        "NAMES",
    )
    folds: int = option("Parts that each user's items are dealt over.", "N", default=4)
    test: list[str] | None = option("Data to test on instead of folds. May be repeated.", "DATA")
    k: int = option("Length of the lists.", "N", "-k", default=50)
    trials: int = option("Settings to try for each model on each fold.", "N", default=10)
    validation: float = option("Share of training items on which settings are chosen.", "SHARE", default=0.05)
    seed: int = option("Random seed of everything.", "N", default=0)


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

    - spherec compare book-crossing --models two-stage,ease,als --trials 5
    - spherec compare split/train.npz --test split/test.npz --item-features songs.csv --models accurate+features,ease
    """
    folds, records = runs.folds(1 if options.test else options.folds), place.find(source)
    data, test = source.load_parts(options.test) if options.test else (source.load(), None)
    known = features.read(data.item_ids)
    named = default_models(known) if options.models is None else [model.strip() for model in options.models.split(",")]
    found = tuple(find_models(filter(None, named), known))
    figures = {name: getattr(options, name) for name in ("folds", "k", "trials", "validation", "seed")}
    plan = ComparisonPlan(found, **figures, workers=runs.workers)
    comparison = Comparison(plan, data, records, test=test)
    if before := len(comparison.results()):
        note(f"{before} tests were recorded before in {records}; choose another --output to run them again")
    with runs_bar(comparison.runs_left(folds)) as watch:
        try:
            needs_all = options.models is not None
            results = comparison.run(device=resolve(runs.device), folds=folds, watch=watch, needs_all=needs_all)
        except KeyboardInterrupt:
            note("finished work is saved; rerun the same command to continue")
            raise
    for model, error in comparison.failed.items():
        note(f"{model} is left out: {error}")
    if comparison.failed and not results:
        raise TrainingError("no model could be fit; name others with --models")
    table = summarize(results, plan.metrics, comparison.user_values)
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
        facts_too = {"name": records.name, "data": comparison.sizes, "best_baseline": best_baseline(results)}
        typer.echo(json.dumps({**facts_too, "models": models}))
    else:
        _show(table, best_baseline(results), plan, records.name)
    note(f"{place.output} holds {records.name}.csv, {records.name}.md and, in {records.name}, the records")


def _describe(row: TableRow, results: Sequence[Result]) -> dict[str, object]:
    """Return what JSON says of a model beyond the columns of the CSV."""
    settings = {str(result.fold): result.settings for result in results if result.model == row.model}
    return {"ours": row.is_ours, "folds": row.folds, "settings": settings}


def _show(table: Sequence[TableRow], baseline: str | None, plan: ComparisonPlan, name: str) -> None:
    cells = [page_cells(row, plan.metrics) for row in table]
    header = [column for column in cells[0] if column != "p MAP"]  # 80 characters have no room for it
    shown = grid(header, (), title=f"{name}: lists of {plan.k}", box=None, padding=(0, 1, 0, 0))
    for row, texts in zip(table, cells, strict=True):
        shown.add_row(*(texts[column].replace(" ", "") for column in header), style="bold" if row.is_ours else None)
    for column in shown.columns:
        column.no_wrap = True
    show(shown)
    note(f"{describe_folds(table)} Ours in bold; MMR: median popularity of what is recommended; fit: the last alone")
    if baseline is not None:
        note(f"p NDCG: paired t-test over users against {baseline}, the best baseline; the page has that of MAP, too")
