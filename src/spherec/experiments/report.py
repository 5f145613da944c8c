"""What the records of an experiment come to: a table beside the paper's."""

import csv
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO

import numpy as np

from spherec.experiments.paper import PaperRow
from spherec.experiments.records import Record

COLUMNS = ("map", "ndcg", "mmr")
_IN_PERCENT = {"map", "ndcg", "recall"}


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over folds; that of one fold is NaN."""

    mean: float
    std: float

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if math.isnan(self.std) else f"{self.mean:.2f} ± {self.std:.2f}"


@dataclass(frozen=True)
class Line:
    """One row over its folds, MAP and NDCG in percent."""

    row: str
    folds: int
    map: Spread
    ndcg: Spread
    mmr: Spread
    epochs: float
    "Mean over folds."
    seconds: float
    "For choosing the epochs and training, mean over folds."


def lines(records: Iterable[Record]) -> list[Line]:
    """One line for each row, in the order in which rows first come."""
    by_row: dict[str, list[Record]] = {}
    for record in records:
        by_row.setdefault(record.row, []).append(record)
    return [
        Line(
            row=row,
            folds=len(group),
            epochs=float(np.mean([record.epochs for record in group])),
            seconds=float(np.mean([record.seconds["choosing"] + record.seconds["training"] for record in group])),
            **{name: spread([record.scores[name] for record in group], name) for name in COLUMNS},
        )
        for row, group in by_row.items()
    ]


def as_csv(dataset: str, table: Sequence[Line]) -> str:
    """With exactly the columns of the paper's table: a row's name gives sampler, negatives and batch size."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    spreads = [f"{name}_{part}" for name in COLUMNS for part in ("mean", "std")]
    writer.writerow(["dataset", "sampler", "negatives", "batch", *spreads])
    for line in table:
        sampler, negatives, batch = line.row.rsplit("-", 2)
        numbers = [getattr(getattr(line, name), part) for name in COLUMNS for part in ("mean", "std")]
        writer.writerow(
            [dataset, sampler, negatives, batch, *("" if math.isnan(number) else f"{number:.3f}" for number in numbers)]
        )
    return text.getvalue()


def made_by(records: Sequence[Record]) -> str:
    """Which commits, devices and versions the records come from, with how many runs each."""
    named = ("commit", "device", "torch")
    counts = Counter(", ".join(f"{name} {record.environment.get(name, '?')}" for name in named) for record in records)
    return "; ".join(f"{count} runs: {where}" for where, count in counts.most_common())


def as_markdown(table: Sequence[Line], paper: Mapping[str, PaperRow], made: str = "") -> str:
    """Ours beside the paper's, known by the names of our rows, with a legend and where it was made."""
    head = "| row | MAP % | paper | NDCG % | paper | MMR | paper | epochs | seconds |"
    rule = "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    body = [_markdown_line(line, paper.get(line.row)) for line in table]
    legend = "▲ better than the paper's mean, = within its standard deviation (MMR: within a tenth), ▼ worse."
    return "\n".join([head, rule, *body, "", legend, *(["", f"{made}."] if made else [])]) + "\n"


def _markdown_line(line: Line, paper: PaperRow | None) -> str:
    cells = [cell for pair in beside(line, paper) for cell in pair]
    return f"| {line.row} | {' | '.join(cells)} | {line.epochs:.0f} | {line.seconds:.0f} |"


def beside(line: Line, paper: PaperRow | None) -> list[tuple[str, str]]:
    """For each column, ours with how it compares, and the paper's; nothing is said for MMR where NDCG is worse."""
    cells, marks = [], dict[str, str]()
    for name in COLUMNS:
        ours: Spread = getattr(line, name)
        if paper is None:
            cells.append((str(ours), ""))
            continue
        theirs = Spread(getattr(paper, f"{name}_mean"), getattr(paper, f"{name}_std"))
        marks[name] = mark(name, ours, theirs)
        is_moot = name == "mmr" and marks["ndcg"] == "▼"  # lists that are no good are easily unpopular
        cells.append((str(ours) if is_moot else f"{ours} {marks[name]}", str(theirs)))
    return cells


def mark(name: str, ours: Spread, theirs: Spread) -> str:
    """How ours compares: of MMR less is better, of all others more."""
    ahead = (theirs.mean - ours.mean) if name == "mmr" else (ours.mean - theirs.mean)
    if ahead >= 0:
        return "▲"
    allowed = 0.1 * theirs.mean if name == "mmr" else theirs.std
    return "=" if -ahead <= allowed else "▼"


def spread(values: Sequence[float], name: str) -> Spread:
    """Of the values of a metric on the folds; MAP, NDCG and Recall in percent."""
    scaled = np.asarray(values) * (100 if name in _IN_PERCENT else 1)
    return Spread(float(scaled.mean()), float(scaled.std(ddof=1)) if len(scaled) > 1 else math.nan)
