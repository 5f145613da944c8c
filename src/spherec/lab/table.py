"""Tables of results: mean and standard deviation over folds, as CSV and Markdown."""

import csv
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO

import numpy as np

from spherec.evaluation import Metric
from spherec.lab.store import Result


@dataclass(frozen=True)
class MeanStd:
    """Mean and standard deviation over folds; the deviation of one fold is NaN."""

    mean: float
    std: float

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if math.isnan(self.std) else f"{self.mean:.2f} ± {self.std:.2f}"


@dataclass(frozen=True)
class TableRow:
    """One model over its folds."""

    model: str
    folds: int
    scores: Mapping[str, MeanStd]
    "Figures by the names of metrics; in percent where the metric's `percent` is True: an NDCG of 0.128 is 12.8 here."
    seconds: Mapping[str, float]
    "Time of choosing and training, mean over folds."
    epochs: float | None = None
    "Epochs that were chosen, mean over folds; None for a model without them."
    is_ours: bool = True
    peak_mb: float | None = None
    "Growth of memory during the last fit, mean over folds."
    p_values: Mapping[str, float] = field(default_factory=dict)
    "P-values against the best baseline, by metric; none for that baseline itself and where single users are not known."

    def __getitem__(self, metric: str) -> MeanStd:
        """Return mean and deviation of a metric over the folds, in the unit of `scores`."""
        return self.scores[metric]


def group_by_model(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Return the results of each model, in the order in which models first come."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.model, []).append(result)
    return groups


def summarize(results: Iterable[Result], metrics: Sequence[Metric]) -> list[TableRow]:
    """Return one row for each model, in the order in which models first come."""
    return [
        TableRow(
            model=model,
            folds=len(group),
            scores={
                metric.name: mean_std([result.scores[metric.name] for result in group], metric) for metric in metrics
            },
            seconds={
                name: float(np.mean([result.seconds.get(name, 0.0) for result in group]))
                for name in ("choosing", "training")
            },
            epochs=_mean([result.settings.get("epochs") for result in group]),
            is_ours=group[0].is_ours,
            peak_mb=_mean([result.peak_mb for result in group]),
        )
        for model, group in group_by_model(results).items()
    ]


def mean_std(values: Sequence[float], metric: Metric) -> MeanStd:
    """Return mean and deviation of a metric's values on the folds."""
    scaled = np.asarray(values) * (100 if metric.percent else 1)
    return MeanStd(float(scaled.mean()), float(scaled.std(ddof=1)) if len(scaled) > 1 else math.nan)


def heading(metric: Metric) -> str:
    """Return the head of a metric's column, such as "NDCG %"."""
    return f"{metric.label} %" if metric.percent else metric.label


def metric_columns(metrics: Sequence[Metric]) -> list[str]:
    """Return the names of the CSV columns of metrics: map_mean, map_std, …"""
    return [f"{metric.name}_{part}" for metric in metrics for part in ("mean", "std")]


def column_values(row: TableRow, metrics: Sequence[Metric]) -> list[float]:
    """Return what stands in these columns."""
    return [number for metric in metrics for number in (row[metric.name].mean, row[metric.name].std)]


def to_csv(header: Sequence[str], rows: Iterable[Sequence[object]], digits: str) -> str:
    """Return CSV. Floats are formatted by `digits` (".3f"); None and NaN become empty fields."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_csv_field(value, digits) for value in row] for row in rows)
    return text.getvalue()


def to_markdown(header: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Return a Markdown table without a final newline; the columns `left` are left-aligned."""
    rule = "|" + "".join("---|" if at in left else "--:|" for at in range(len(header)))
    return "\n".join([_markdown_line(header), rule, *map(_markdown_line, rows)])


def describe_environments(results: Sequence[Result]) -> str:
    """Return from which commits, devices and versions results come, with the number of runs of each."""
    named = ("commit", "device", "torch")
    counts = Counter(", ".join(f"{name} {result.environment.get(name, '?')}" for name in named) for result in results)
    return "; ".join(f"{count} runs: {where}" for where, count in counts.most_common())


def _markdown_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _csv_field(value: object, digits: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return format(value, digits) if isinstance(value, float) else str(value)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
