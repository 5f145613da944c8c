"""`spherec reproduce`: run the experiments of the paper's table."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import typer

from spherec.cli._options import option
from spherec.cli._output import note
from spherec.cli._runs import RunsOptions, runs_bar
from spherec.cli._source import PaperCut, RawSource, Source
from spherec.data.interactions import Interactions
from spherec.data.output_files import atomic_write
from spherec.device import resolve
from spherec.errors import ArgumentError
from spherec.lab import Experiment, Reproduction, Result, paper_rows
from spherec.lab.family import FAMILY_LEGEND, FAMILY_MODELS, FamilyComparison, describe_family, find_family_sets
from spherec.lab.reproduction import PAPER_METRICS, paper_csv, paper_markdown
from spherec.lab.tables import describe_environments, summarize


def reproduce_command(
    runs: RunsOptions,
    dataset: Literal[PaperCut, "two-stage", "cml-family"] = typer.Argument(
        ...,
        help="Data set of the paper; 'two-stage': its sampler as in public code and in the text; 'cml-family': the "
        "benchmark of later papers.",
    ),
    folder: Path | None = typer.Argument(
        None, metavar="[FOLDER]", help="Folder of cml-family, with files NAME.users.dat(.gz)."
    ),
    data: Path | None = option("Published file of amazon-movies or echonest, raw or prepared.", "FILE"),
    rows: str | None = option("Rows to run, e.g. two-stage-5-256,uniform-5-4096. Default: all.", "ROWS"),
    models: str | None = option("Models of cml-family, e.g. accurate-100,ease. Default: ours, ease, ials.", "NAMES"),
    output: Path | None = option("Folder of results. Default: results/DATASET.", "FOLDER", "--output", "-o"),
) -> None:
    """Runs that are recorded in the folder are not run again, so this can be stopped and started at will.

    Example: spherec reproduce book-crossing --rows two-stage-5-256 --only-folds 0 -o again
    """
    idle = {"--data": data, "--rows": rows} if dataset == "cml-family" else {"FOLDER": folder, "--models": models}
    if given := [name for name, value in idle.items() if value is not None]:
        raise ArgumentError(f"{given[0]} has no effect on {dataset}; leave it out")
    if dataset == "cml-family":
        _reproduce_family(runs, folder or Path(), models, output or Path("results") / dataset)
    else:
        _reproduce_paper(runs, dataset, data, rows, output)


def _reproduce_paper(
    runs: RunsOptions, dataset: Literal[PaperCut, "two-stage"], data: Path | None, rows: str | None, output: Path | None
) -> None:
    """Run rows of the paper's table, and write the table of all rows that are recorded."""
    is_variants = dataset == "two-stage"  # on Book-Crossing, in files of their own in its folder
    of_paper: PaperCut = "book-crossing" if dataset == "two-stage" else dataset
    output = output or Path("results") / of_paper
    whole = Experiment.embedded(dataset)
    experiment = whole.only([row.strip() for row in rows.split(",")]) if rows else whole
    experiment, folds = replace(experiment, workers=runs.workers), runs.folds(experiment.folds)
    interactions = _load(of_paper, data)
    output.mkdir(parents=True, exist_ok=True)
    records = output / ("two-stage.jsonl" if is_variants else "records.jsonl")
    reproduction = Reproduction(experiment, interactions, records)
    before = {result.key for result in reproduction.results()}
    with runs_bar(reproduction.runs_left(folds)) as watch:
        done = reproduction.run(device=resolve(runs.device), folds=folds, watch=watch)
    reproduction.raise_if_failed()
    done = [result for result in done if result.fold in folds]
    typer.echo(_describe(of_paper, done))
    if old := sum(result.key in before for result in done):
        note(f"{old} of {len(done)} runs were recorded before in {output}; choose another --output to run them again")
    # What is written holds all that is recorded, not only the rows and folds that were asked for this time.
    results = Reproduction(whole, interactions, records).results()
    if is_variants:  # next to the two-stage rows of the paper's table that are recorded in the same folder
        paper = Reproduction(Experiment.embedded("book-crossing"), interactions, output / "records.jsonl").results()
        tuned = [result for result in paper if result.model.startswith("two-stage-")]
        results += [replace(result, model=result.model.replace("two-stage", "tuned")) for result in tuned]
    table = summarize(results, PAPER_METRICS)
    for ending, content in {"csv": paper_csv(of_paper, table), "md": _describe(of_paper, results)}.items():
        with atomic_write(output / f"{'two-stage' if is_variants else 'table'}.{ending}") as file:
            file.write(content.encode())
    note(f"{output} holds the table and the records")


def _reproduce_family(runs: RunsOptions, folder: Path, models: str | None, output: Path) -> None:
    """Run the benchmark of the CML family on each of its files in a folder."""
    names = FAMILY_MODELS if models is None else [name.strip() for name in models.split(",")]
    page = [FAMILY_LEGEND]
    for name, path in find_family_sets(folder).items():
        comparison = FamilyComparison(names, path, output, workers=runs.workers)
        with runs_bar(comparison.runs_left()) as watch:
            results = comparison.run(device=resolve(runs.device), watch=watch)
        comparison.raise_if_failed()
        page.append(describe_family(name, results))
        typer.echo(page[-1])
    with atomic_write(output / "cml-family.md") as file:
        file.write(("\n\n".join(page) + "\n").encode())
    note(f"{output} holds cml-family.md and the records")


def _describe(dataset: PaperCut, results: Sequence[Result]) -> str:
    """Return our table next to the paper's; a variant of two-stage sampling is compared with the paper's own."""
    rows = paper_rows(dataset)
    variants = {result.model: f"two-stage-{'-'.join(result.model.rsplit('-', 2)[1:])}" for result in results}
    theirs = {name: rows[name if name in rows else variant] for name, variant in variants.items()}
    return paper_markdown(summarize(results, PAPER_METRICS), theirs, describe_environments(results))


def _load(dataset: PaperCut, path: Path | None) -> Interactions:
    """Load the embedded data set, a prepared file, or a raw one that is cut as in the paper."""
    if path is None and dataset != "book-crossing":
        raise ArgumentError(f"{dataset} is not embedded; give its published file with --data")
    source = Source(data=[str(path or dataset)])
    return source.load() if source.kind is not None else RawSource(data=source.data, paper_cut=dataset).load()
