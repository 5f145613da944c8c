"""`spherec compare`: our models and the models that a user might take instead, on the user's data."""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spherec.cli._features import FeatureFiles, FeatureIdColumn, FeatureKinds, read_item_features
from spherec.cli._output import AsJson, grid, note, show
from spherec.cli._runs import check_workers, parse_folds, runs_bar
from spherec.cli._settings import Device, Force, refuse_existing, run_option
from spherec.cli._source import Source, takes_source
from spherec.data.output_files import atomic_write
from spherec.errors import ArgumentError, MissingPackageError, TrainingError, escape_controls, quote
from spherec.lab.registry import BASELINES

if TYPE_CHECKING:
    from spherec.lab import ComparisonPlan, Result, TableRow


@takes_source
def compare_command(
    context: typer.Context,
    models: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help=f"Comma-separated presets ('spherec presets') and baselines: {', '.join(BASELINES)}; "
            "with --item-features also accurate+features, content-knn. Default: our main presets and "
            "all baselines.",
        ),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(metavar="N", help="Parts that each user's items are dealt over. Default: 4.")
    ] = None,
    only_folds: Annotated[
        str | None, typer.Option(metavar="FOLDS", help="Folds to run, e.g. 0,1. Default: all.")
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(metavar="DATA", help="Data to test on, read like DATA, instead of folds. May be repeated."),
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="N", help="Length of the lists.")] = 50,
    trials: Annotated[int, typer.Option(metavar="N", help="Settings to try for each model on each fold.")] = 10,
    validation: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of training items on which settings are chosen.")
    ] = 0.05,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed of everything.")] = 0,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder of results.")] = Path(
        "results/compare"
    ),
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the results. Default: that of the data.")
    ] = None,
    force: Force = False,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Draw a plot; needs matplotlib.")] = True,
    as_json: AsJson = False,
    device: Device = "auto",
    workers: Annotated[
        int | None, run_option(metavar="N", help="Trials of ours at once. Default: 8 on a GPU, else 1.")
    ] = None,
    item_features: FeatureFiles = None,
    features_id_column: FeatureIdColumn = None,
    feature_kinds: FeatureKinds = None,
    *,
    source: Source,
) -> None:
    """Train and test our models and baselines alike: which is best for your data, and at what cost?

    Each model is tried with the same number of settings on a validation part of the training items, then trained with
    the best on all of them, and tested once. What is recorded in the folder is not run again: stop and start at will.

    For example:

    - spherec compare book-crossing --models two-stage,ease,als --trials 5
    - spherec compare split/train.npz --test split/test.npz --item-features songs.csv --models accurate+features,ease
    """
    from spherec.device import resolve
    from spherec.lab import Comparison, ComparisonPlan
    from spherec.lab.registry import default_models, find_models
    from spherec.lab.tables import comparison_csv, summarize

    if test and (folds is not None or only_folds is not None):
        raise ArgumentError("--test is the one part to test on; leave out --folds and --only-folds")
    folds, where = 4 if folds is None else folds, resolve(device)
    chosen = parse_folds(only_folds, 1 if test else folds)
    check_workers(workers)
    name = _name_of(source) if name is None else name
    _check_places(output, name, force=force)
    data, test_part = source.load_parts(test) if test else (source.load(), None)
    features = None
    if item_features:
        features = read_item_features(item_features, features_id_column, feature_kinds or [], data.item_ids)
    named = default_models(features) if models is None else [model.strip() for model in models.split(",")]
    found = tuple(find_models(filter(None, named), features))
    plan = ComparisonPlan(found, folds, k, trials, validation, seed, workers=workers)
    comparison = Comparison(plan, data, output / name, test=test_part)
    before = len(comparison.results())
    try:
        with runs_bar(comparison.runs_left(chosen)) as watch:
            results = comparison.run(device=where, folds=chosen, watch=watch, needs_all=models is not None)
    except KeyboardInterrupt:
        note("finished work is saved; rerun the same command to continue")
        raise
    if before:
        kept = f"{before} of {len(results)} tests were recorded before in {output / name}"
        note(f"{kept}; choose another --output to run them again")
    for model, error in comparison.failed.items():
        note(f"{model} is left out: {error}")
    if comparison.failed and not results:
        raise TrainingError("no model could be fit; name others with --models")
    table = summarize(results, plan.metrics, comparison.user_values)
    command = escape_controls(shlex.join(["spherec", *context.obj]))
    texts = {"csv": comparison_csv(table, plan.metrics), "md": comparison.page(name, command, table)}
    for file_name, text in {f"{name}.{ending}": text for ending, text in texts.items()}.items():
        with atomic_write(output / file_name) as file:
            file.write(text.encode())
    is_drawn = plots and _draw(name, table, plan.k, output)
    if as_json:
        typer.echo(json.dumps(_as_json(name, table, results, plan, comparison.sizes)))
    else:
        _show(name, table, results, plan)
    note(f"{output} holds {name}.csv, {name}.md{f', {name}.png' if is_drawn else ''} and, in {name}, the records")


def _check_places(output: Path, name: str, *, force: bool) -> None:
    """Raise an `ArgumentError` if the results cannot be written there, or would overwrite a file."""
    if not name or Path(name).name != name:
        raise ArgumentError(f"--name must be a name for files, without folders, got {quote(name)}")
    for path in (output, output / name):
        if path.exists() and not path.is_dir():
            raise ArgumentError(f"{path} must be a folder, and it is a file; choose another --output or --name")
    for file in (output / f"{name}{ending}" for ending in (".csv", ".md", ".png")):
        refuse_existing(file, force or (output / name).is_dir())  # its own records are there: it goes on


def _name_of(source: Source) -> str:
    """Return the name of the data, without folders and endings."""
    name = Path(source.data[0]).name.split(".")[0]
    return re.sub(r"[^\w-]+", "", name).strip("-_") or "data"


def _draw(name: str, table: "Sequence[TableRow]", k: int, output: Path) -> bool:
    try:
        from spherec.lab.plots import plot_comparison
    except MissingPackageError as error:
        note(f"{error}, or leave plots out with --no-plots")
        return False
    plot_comparison(name, table, k, output / f"{name}.png")
    return True


def _as_json(
    name: str,
    table: "Sequence[TableRow]",
    results: "Sequence[Result]",
    plan: "ComparisonPlan",
    sizes: dict[str, int],
) -> dict[str, object]:
    from spherec.lab.tables import best_baseline, comparison_columns

    models = [
        {
            **comparison_columns(row, plan.metrics),
            "ours": row.is_ours,
            "folds": row.folds,
            "settings": {str(result.fold): result.settings for result in results if result.model == row.model},
        }
        for row in table
    ]
    return {"name": name, "data": sizes, "best_baseline": best_baseline(results), "models": models}


def _show(name: str, table: "Sequence[TableRow]", results: "Sequence[Result]", plan: "ComparisonPlan") -> None:
    from spherec.lab.tables import best_baseline, page_cells

    folds = max((row.folds for row in table), default=0)
    over = f"mean ± deviation over {folds} folds" if folds > 1 else "one split"
    title = f"{name}: lists of {plan.k}, {over}"
    cells = [page_cells(row, plan.metrics) for row in table]
    header = [name for name in cells[0] if name != "p MAP"]  # 80 characters have no room for it
    shown = grid(header, (), title=title, box=None, padding=(0, 1, 0, 0))
    for row, texts in zip(table, cells, strict=True):
        shown.add_row(*(texts[name].replace(" ", "") for name in header), style="bold" if row.is_ours else None)
    for column in shown.columns:
        column.no_wrap = True
    show(shown)
    baseline = best_baseline(results)
    note("ours in bold; MMR: median popularity of what is recommended; fit s, peak MB: of the last fit alone")
    if baseline is not None:
        note(f"p NDCG: paired t-test over users against {baseline}, the best baseline; the page has that of MAP, too")
    if any(not row.p_values and row.model != baseline for row in table):
        note("no p where the values of single users are not next to the records, or there are too few users")
    if fewer := [f"{row.model} {row.folds}" for row in table if row.folds < folds]:
        note(f"fewer folds than {folds}: {', '.join(fewer)}")
