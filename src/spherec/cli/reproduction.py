"""What `spherec reproduce` does once its options are read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from rich.table import Table

from spherec import datasets
from spherec.cli.display import note, show
from spherec.cli.reproduce import Dataset
from spherec.cli.runs import folds_of, watched
from spherec.cli.source import Source
from spherec.data.files import atomic_write, is_archive
from spherec.data.interactions import Interactions
from spherec.device import DeviceName, resolve
from spherec.errors import ArgumentError
from spherec.experiments import Experiment, Record, Records, Row, paper_rows, run
from spherec.experiments.paper import PaperRow
from spherec.experiments.report import Line, as_csv, as_markdown, beside, lines, made_by
from spherec.experiments.runner import recorded

Draw = Callable[[str, Sequence[Line], Sequence[Record], Path], object]

_QUICK_EPOCHS = 10


def run_reproduction(
    dataset: Dataset,
    data: Path | None,
    rows: list[str] | None,
    folds: str | None,
    *,
    device: DeviceName,
    workers: int | None,
    quick: bool,
    output: Path,
    plots: bool,
) -> None:
    """Run what is not recorded yet, write the table and the plots, show both beside the paper's."""
    experiment = Experiment.embedded(dataset)
    experiment = experiment.only(rows) if rows else experiment
    chosen = [0] if quick and folds is None else folds_of(folds, experiment.folds)
    if quick:
        experiment = replace(experiment, name=f"{experiment.name}-quick", rows=tuple(map(_quick, experiment.rows)))
    if workers is not None and workers < 1:
        raise ArgumentError(f"--workers must be a whole number >= 1, got {workers}")
    if output.exists() and not output.is_dir():
        raise ArgumentError(f"--output must be a folder, and {output} is a file; name another")
    draw = _drawing() if plots and not quick and dataset != "two-stage" else None
    files = _files(dataset)
    interactions = _data(files.dataset, data)
    output.mkdir(parents=True, exist_ok=True)
    records = Records(output / ("quick.jsonl" if quick else files.records))
    before = {record.key for record in records}
    with watched(len(experiment.rows) * len(chosen)) as watch:
        done = run(
            experiment, interactions, records, device=resolve(device), folds=chosen, workers=workers, watch=watch
        )
    _show(files.dataset, lines(done), _of_paper(files.dataset, done))
    if old := sum(record.key in before for record in done):
        note(f"{old} of {len(done)} runs were recorded before in {output}; another --output runs them anew")
    if quick:
        note("a quick look: fold 0, few epochs; without --quick the runs are what the paper's are")
        return
    # What is written holds all that is recorded, not only the rows and folds that were asked for this time.
    whole = recorded(Experiment.embedded(dataset), interactions, records)
    if dataset == "two-stage":
        whole += _tuned(interactions, Records(output / _files("book-crossing").records))
    table = lines(whole)
    text = as_markdown(table, _of_paper(files.dataset, whole), made_by(whole))
    _write(files.table, {"csv": as_csv(files.dataset, table), "md": text}, output)
    if draw is not None:
        draw(files.dataset, table, whole, output)
    note(f"{output} holds the table, the records{' and the plots' if draw else ''}")


class Files(NamedTuple):
    """Which data an experiment runs on, and what its files are called."""

    dataset: Literal["book-crossing", "amazon-movies", "echonest"]
    records: str
    table: str


def _files(dataset: Dataset) -> Files:
    """The faces of two-stage sampling stand beside the table of the data set that they run on."""
    if dataset == "two-stage":
        return Files("book-crossing", "two-stage.jsonl", "two-stage")
    return Files(dataset, "records.jsonl", "table")


def _tuned(interactions: Interactions, records: Records) -> list[Record]:
    """The two-stage rows of the paper's table, where they are recorded in the same folder."""
    experiment = Experiment.embedded("book-crossing")
    tuned = experiment.only([row.name for row in experiment.rows if row.name.startswith("two-stage-")])
    found = recorded(tuned, interactions, records)
    return [replace(record, row=record.row.replace("two-stage", "tuned")) for record in found]


def _of_paper(dataset: str, records: Sequence[Record]) -> dict[str, PaperRow]:
    """The paper's row for each of ours; of the faces of two-stage sampling, the one they are faces of."""
    rows = paper_rows(dataset)
    faces = {record.row: f"two-stage-{'-'.join(record.row.rsplit('-', 2)[1:])}" for record in records}
    return {name: rows[name if name in rows else face] for name, face in faces.items()}


def _quick(row: Row) -> Row:
    training = row.choices[len(row.choices) // 2]
    few = min(training.epochs or _QUICK_EPOCHS, _QUICK_EPOCHS)
    return Row(row.name, replace(training, epochs=few, validate_every=max(few // 5, 1)))


def _data(dataset: Literal["book-crossing", "amazon-movies", "echonest"], path: Path | None) -> Interactions:
    """The embedded data set, a prepared file, or a raw one read and cut as the paper did."""
    if path is None:
        if dataset != "book-crossing":
            raise ArgumentError(f"{dataset} is not embedded; give its published file with --data")
        return datasets.book_crossing()
    if is_archive(path):
        return Source(data=str(path)).load()
    return Source(data=str(path), preset=dataset).load()


def _show(title: str, table: Sequence[Line], paper: Mapping[str, PaperRow]) -> None:
    """The table, ours above the paper's."""
    folds = max((line.folds for line in table), default=0)
    over = f"mean ± deviation over {folds} folds" if folds > 1 else "one fold"
    shown = Table("row", "MAP %", "NDCG %", "MMR", title=f"{title}: ours, {over}; the paper's below")
    shown.columns[0].no_wrap = True
    for line in table:
        ours, theirs = zip(*beside(line, paper.get(line.row)), strict=True)
        shown.add_row(line.row, *ours)
        if any(theirs):
            shown.add_row("", *(f"{one}  " for one in theirs), style="dim")
    for column in shown.columns[1:]:
        column.justify = "right"
    show(shown)
    note("▲ better than the paper's mean, = within its deviation (MMR: within a tenth), ▼ worse")


def _write(name: str, texts: Mapping[str, str], output: Path) -> None:
    for ending, text in texts.items():
        with atomic_write(output / f"{name}.{ending}") as file:
            file.write(text.encode())


def _drawing() -> Draw:
    """What draws; asked for before long work, for it needs matplotlib."""
    from spherec.experiments.plots import draw_all

    return draw_all
