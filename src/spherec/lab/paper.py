"""The paper's table 2, and ours next to it."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from spherec.evaluation import Metric
from spherec.evaluation.metrics import average_precision, median_popularity, ndcg
from spherec.lab.table import MeanStd, TableRow, column_values, heading, metric_columns, to_csv, to_markdown

PAPER_METRICS: tuple[Metric, ...] = (average_precision, ndcg, median_popularity)
"""The metrics that the paper reports."""


@dataclass(frozen=True)
class PaperRow:
    """One row for one data set: means and standard deviations over 4 folds."""

    dataset: str
    sampler: str
    negatives: int
    batch: int
    scores: Mapping[str, MeanStd]
    "Figures by the names of metrics; MAP and NDCG in percent."

    @property
    def name(self) -> str:
        """The name of the row of ours that repeats it: uniform-5-4096."""
        return f"{self.sampler}-{self.negatives}-{self.batch}"


def paper_rows(dataset: str) -> dict[str, PaperRow]:
    """Return the 15 rows of a data set, by name, in the paper's order."""
    text = (resources.files("spherec.lab") / "table2.csv").read_text(encoding="utf-8")
    rows = [
        PaperRow(
            line["dataset"],
            line["sampler"],
            int(line["negatives"]),
            int(line["batch"]),
            {
                metric.name: MeanStd(float(line[f"{metric.name}_mean"]), float(line[f"{metric.name}_std"]))
                for metric in PAPER_METRICS
            },
        )
        for line in csv.DictReader(text.splitlines())
    ]
    return {row.name: row for row in rows if row.dataset == dataset}


def paper_csv(dataset: str, table: Sequence[TableRow]) -> str:
    """Return our rows with exactly the columns of the paper's table."""
    header = ["dataset", "sampler", "negatives", "batch", *metric_columns(PAPER_METRICS)]
    rows = [[dataset, *row.model.rsplit("-", 2), *column_values(row, PAPER_METRICS)] for row in table]
    return to_csv(header, rows, ".3f")


def paper_markdown(table: Sequence[TableRow], paper: Mapping[str, PaperRow], made_by: str = "") -> str:
    """Return our rows next to the paper's, with a legend and where they were made.

    `paper` has the paper's rows by the names of ours.
    """
    heads = [head for metric in PAPER_METRICS for head in (heading(metric), "paper")]
    rows = []
    for row in table:
        cells = [cell for pair in compare_with_paper(row, paper.get(row.model)) for cell in pair]
        seconds = row.seconds["choosing"] + row.seconds["training"]
        rows.append([row.model, *cells, "" if row.epochs is None else f"{row.epochs:.0f}", f"{seconds:.0f}"])
    legend = "▲ better than the paper's mean, = within its standard deviation (MMR: within a tenth), ▼ worse."
    parts = [to_markdown(["row", *heads, "epochs", "seconds"], rows), legend, *([f"{made_by}."] if made_by else [])]
    return "\n\n".join(parts) + "\n"


def compare_with_paper(row: TableRow, paper: PaperRow | None) -> list[tuple[str, str]]:
    """Return for each metric our value with a mark, and the paper's; no mark for MMR where NDCG is worse."""
    cells, marks = [], dict[str, str]()
    for metric in PAPER_METRICS:
        ours = row[metric.name]
        if paper is None:
            cells.append((str(ours), ""))
            continue
        theirs = paper.scores[metric.name]
        marks[metric.name] = mark(metric, ours, theirs)
        is_moot = metric is median_popularity and marks[ndcg.name] == "▼"  # poor lists are easily unpopular
        cells.append((str(ours) if is_moot else f"{ours} {marks[metric.name]}", str(theirs)))
    return cells


def mark(metric: Metric, ours: MeanStd, theirs: MeanStd) -> str:
    """Return ▲ where ours is better, = where it is as good, ▼ where it is worse."""
    is_lower_better = getattr(metric, "lower_is_better", False)
    ahead = (theirs.mean - ours.mean) if is_lower_better else (ours.mean - theirs.mean)
    if ahead >= 0:
        return "▲"
    allowed = 0.1 * theirs.mean if is_lower_better else theirs.std
    return "=" if -ahead <= allowed else "▼"
