"""`spherec reproduce`: run the experiments of the paper's table."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from spherec import datasets
from spherec.cli._output import grid, note, show
from spherec.cli._runs import check_workers, parse_folds, runs_bar
from spherec.cli._settings import Device, run_option
from spherec.cli._source import RawSource, Source
from spherec.data.container import kind_of
from spherec.data.interactions import Interactions
from spherec.data.output_files import atomic_write
from spherec.errors import ArgumentError

if TYPE_CHECKING:
    from spherec.lab import Result, Row, TableRow

_Dataset = Literal["book-crossing", "amazon-movies", "echonest", "two-stage"]
_QUICK_EPOCHS = 10


def reproduce_command(
    dataset: Annotated[
        _Dataset,
        typer.Argument(help="Data set of the paper; or 'two-stage': its sampler as in public code and in the text."),
    ],
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Published file of amazon-movies or echonest, raw or prepared.")
    ] = None,
    rows: Annotated[
        str | None, typer.Option(metavar="ROWS", help="Rows to run, e.g. two-stage-5-256,uniform-5-4096. Default: all.")
    ] = None,
    only_folds: Annotated[
        str | None, typer.Option(metavar="FOLDS", help="Folds to run, e.g. 0,1. Default: all.")
    ] = None,
    device: Device = "auto",
    workers: Annotated[int | None, run_option(metavar="N", help="Runs at once. Default: 8 on a GPU, else 1.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run fold 0 with at most 10 epochs: a look, not a result.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Folder of results. Default: results/DATASET."),
    ] = None,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Draw plots; needs matplotlib.")] = True,
) -> None:
    """Train and test every row of the paper's table on 4 folds, and compare the figures with the paper's.

    Runs that are recorded in the folder are not run again, so this can be stopped and started at will.
    """
    from spherec.device import resolve
    from spherec.lab import Experiment, Reproduction
    from spherec.lab.reproduction import PAPER_METRICS, paper_csv, paper_markdown
    from spherec.lab.tables import describe_environments, summarize

    output = output or Path("results") / ("book-crossing" if dataset == "two-stage" else dataset)
    experiment = Experiment.embedded(dataset)
    experiment = experiment.only([row.strip() for row in rows.split(",")]) if rows else experiment
    chosen = [0] if quick and only_folds is None else parse_folds(only_folds, experiment.folds)
    if quick:
        experiment = replace(experiment, name=f"{experiment.name}-quick", models=tuple(map(_quick, experiment.models)))
    check_workers(workers)
    experiment = replace(experiment, workers=workers)
    if output.exists() and not output.is_dir():
        raise ArgumentError(f"--output must be a folder, and {output} is a file; name another")
    is_drawn = plots and not quick and dataset != "two-stage"
    if is_drawn:
        from spherec.lab.plots import plot_reproduction  # before long work, because it needs matplotlib
    files = _files(dataset)
    interactions = _data(files.dataset, data)
    output.mkdir(parents=True, exist_ok=True)
    records = output / ("quick.jsonl" if quick else files.records)
    reproduction = Reproduction(experiment, interactions, records)
    before = {result.key for result in reproduction.results()}
    with runs_bar(reproduction.runs_left(chosen)) as watch:
        done = reproduction.run(device=resolve(device), folds=chosen, watch=watch)
    reproduction.raise_if_failed()
    done = [result for result in done if result.fold in chosen]
    _show(files.dataset, summarize(done, PAPER_METRICS), _of_paper(files.dataset, done))
    if old := sum(result.key in before for result in done):
        note(f"{old} of {len(done)} runs were recorded before in {output}; choose another --output to run them again")
    if quick:
        note("a quick look: fold 0, few epochs; without --quick the runs are what the paper's are")
        return
    # What is written holds all that is recorded, not only the rows and folds that were asked for this time.
    whole = Reproduction(Experiment.embedded(dataset), interactions, records).results()
    if dataset == "two-stage":
        whole += _read_tuned_rows(interactions, output / _files("book-crossing").records)
    table = summarize(whole, PAPER_METRICS)
    text = paper_markdown(table, _of_paper(files.dataset, whole), describe_environments(whole))
    for ending, content in {"csv": paper_csv(files.dataset, table), "md": text}.items():
        with atomic_write(output / f"{files.table}.{ending}") as file:
            file.write(content.encode())
    if is_drawn:
        plot_reproduction(files.dataset, table, whole, output)
    note(f"{output} holds the table, the records{' and the plots' if is_drawn else ''}")


class _Files(NamedTuple):
    """The data that an experiment runs on, and the names of its files."""

    dataset: Literal["book-crossing", "amazon-movies", "echonest"]
    records: str
    table: str


def _files(dataset: _Dataset) -> _Files:
    """Return the files of an experiment; the variants of two-stage sampling are kept with Book-Crossing."""
    if dataset == "two-stage":
        return _Files("book-crossing", "two-stage.jsonl", "two-stage")
    return _Files(dataset, "records.jsonl", "table")


def _read_tuned_rows(interactions: Interactions, records: Path) -> "list[Result]":
    """Return the two-stage rows of the paper's table that are recorded in the same folder."""
    from spherec.lab import Experiment, Reproduction

    experiment = Experiment.embedded("book-crossing")
    tuned = experiment.only([row.name for row in experiment.models if row.name.startswith("two-stage-")])
    results = Reproduction(tuned, interactions, records).results()
    return [replace(result, model=result.model.replace("two-stage", "tuned")) for result in results]


def _of_paper(dataset: str, results: "Sequence[Result]") -> "dict[str, TableRow]":
    """Return the paper's row for each of ours; a variant of two-stage sampling is compared with the paper's own."""
    from spherec.lab import paper_rows

    rows = paper_rows(dataset)
    variants = {result.model: f"two-stage-{'-'.join(result.model.rsplit('-', 2)[1:])}" for result in results}
    return {name: rows[name if name in rows else variant] for name, variant in variants.items()}


def _quick(row: "Row") -> "Row":
    """Return the row with one setting and few epochs."""
    from spherec.lab import Row

    training = row.choices[len(row.choices) // 2]
    few = min(training.epochs or _QUICK_EPOCHS, _QUICK_EPOCHS)
    return Row(row.name, replace(training, epochs=few, validate_every=max(few // 5, 1)))


def _data(dataset: Literal["book-crossing", "amazon-movies", "echonest"], path: Path | None) -> Interactions:
    """Load the embedded data set, a prepared file, or a raw one that is cut as in the paper."""
    if path is None:
        if dataset != "book-crossing":
            raise ArgumentError(f"{dataset} is not embedded; give its published file with --data")
        return datasets.book_crossing()
    if kind_of(path) is not None:
        return Source(data=[str(path)]).load()
    return RawSource(data=[str(path)], paper_cut=dataset).load()


def _show(title: str, table: "Sequence[TableRow]", paper: "Mapping[str, TableRow]") -> None:
    """Show the table, our figures above the paper's."""
    from spherec.lab.reproduction import PAPER_METRICS, compare_with_paper
    from spherec.lab.tables import heading

    folds = max((row.folds for row in table), default=0)
    over = f"mean ± deviation over {folds} folds" if folds > 1 else "one fold"
    shown = grid(["row", *map(heading, PAPER_METRICS)], (), title=f"{title}: ours, {over}; the paper's below")
    shown.columns[0].no_wrap = True
    for row in table:
        ours, theirs = zip(*compare_with_paper(row, paper.get(row.model)), strict=True)
        shown.add_row(row.model, *ours)
        if any(theirs):
            shown.add_row("", *(f"{figure}  " for figure in theirs), style="dim")
    show(shown)
    note("▲ better than the paper's mean, = within its deviation (MMR: within a tenth), ▼ worse")
