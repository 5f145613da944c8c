"""`spherec reproduce`: run the experiments of the paper's table, and the benchmark of its family."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import typer

from spherec.cli._options import option
from spherec.cli._output import note
from spherec.cli._runs import RunsOptions, run_missing
from spherec.cli._source import RawSource, Source
from spherec.data.interactions import Interactions
from spherec.data.output_files import atomic_write
from spherec.datasets import PAPER_DATASETS
from spherec.errors import ArgumentError
from spherec.lab import Experiment, Reproduction, paper_rows
from spherec.lab.family import FAMILY_LEGEND, FAMILY_MODELS, FamilyComparison, describe_family, find_family_sets
from spherec.lab.reproduction import PAPER_METRICS, paper_csv, paper_markdown
from spherec.lab.tables import describe_environments, summarize

PaperSet = Literal["book-crossing", "amazon-movies", "echonest"]


def reproduce_command(
    runs: RunsOptions,
    dataset: Literal[PaperSet, "two-stage", "cml-family"] = typer.Argument(
        ...,
        help="Data set of the paper; 'two-stage': its sampler as in public code and in the text; 'cml-family': the "
        "benchmark of later papers.",
    ),
    data: Path | None = option(
        "Published file of amazon-movies or echonest, raw or prepared; folder of cml-family, with files "
        "NAME.users.dat(.gz).",
        "PATH",
    ),
    rows: str | None = option(
        "Rows to run, e.g. two-stage-5-256,uniform-5-4096; of cml-family models, e.g. accurate-100,ease. Default: all.",
        "ROWS",
    ),
    output: Path | None = option("Folder of results. Default: results/DATASET.", "FOLDER", "--output", "-o"),
) -> None:
    """Runs that are recorded in the folder are not run again, so this can be stopped and started at will.

    Example: spherec reproduce book-crossing --rows two-stage-5-256 --only-fold 0 -o again
    """
    output = output or Path("results") / dataset
    names = None if rows is None else [row.strip() for row in rows.split(",")]
    if dataset == "cml-family":
        pages = {"cml-family.md": _reproduce_family(runs, data or Path(), names, output)}
    else:
        pages = _reproduce_paper(runs, dataset, data, names, output)
    for name, page in pages.items():
        with atomic_write(output / name) as file:
            file.write(page.encode())
    note(f"{output} holds {', '.join(pages)} and the records")


def _reproduce_paper(
    runs: RunsOptions, dataset: Literal[PaperSet, "two-stage"], path: Path | None, rows: list[str] | None, output: Path
) -> dict[str, str]:
    """Run rows of the paper's table; print all rows that are recorded, and return their files by name."""
    of_paper: PaperSet = "book-crossing" if dataset == "two-stage" else dataset
    experiment = replace(Experiment.embedded(dataset), workers=runs.workers)
    chosen, data, records = (
        experiment.only(rows) if rows else experiment,
        _load(of_paper, path),
        output / "records.jsonl",
    )
    reproduction = Reproduction(chosen, data, records, runs.only_folds)
    output.mkdir(parents=True, exist_ok=True)
    run_missing(reproduction, runs)
    reproduction.raise_if_failed()
    results = Reproduction(experiment, data, records).results()  # also rows and folds that were not asked for
    published, table = paper_rows(of_paper), summarize(results, PAPER_METRICS)
    names = {row.model: row.model for row in table}
    if dataset == "two-stage":  # variants, compared with the paper's own
        names = {name: f"two-stage-{'-'.join(name.rsplit('-', 2)[1:])}" for name in names}
    theirs = {name: published[row] for name, row in names.items()}
    page = paper_markdown(table, theirs, describe_environments(results))
    typer.echo(page)
    return {"table.csv": paper_csv(of_paper, table), "table.md": page}


def _reproduce_family(runs: RunsOptions, folder: Path, names: list[str] | None, output: Path) -> str:
    """Run the benchmark of the CML family on each of its files in a folder; print and return the tables."""
    page = [FAMILY_LEGEND]
    for name, path in find_family_sets(folder).items():
        comparison = FamilyComparison(names or FAMILY_MODELS, path, output, workers=runs.workers)
        run_missing(comparison, runs)
        comparison.raise_if_failed()
        page.append(describe_family(name, comparison.results()))
        typer.echo(page[-1])
    return "\n\n".join(page) + "\n"


def _load(dataset: PaperSet, path: Path | None) -> Interactions:
    """Load the embedded data set, a prepared file, or a raw one that is cut as in the paper."""
    if path is None and dataset != "book-crossing":
        raise ArgumentError(f"{dataset} is not embedded; give its published file with --data")
    source, paper = Source(data=[str(path or dataset)]), PAPER_DATASETS[dataset]
    if source.kind is not None:
        return source.load()
    return RawSource(data=source.data, **vars(paper.cut)).load()
