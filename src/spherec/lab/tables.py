"""Tables of results: mean and standard deviation over folds, p-values; as CSV, as Markdown, and as a whole page."""

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import numpy as np

from spherec.evaluation import METRICS, Metric, paired
from spherec.evaluation.metrics import average_precision, ndcg
from spherec.lab.records import Result, UserValues

_TESTED = (average_precision.name, ndcg.name)


@dataclass(frozen=True)
class MeanStd:
    """Mean and standard deviation over folds; the deviation of one fold is NaN."""

    mean: float
    std: float

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if math.isnan(self.std) else f"{self.mean:.2f} ± {self.std:.2f}"

    @classmethod
    def of(cls, values: Sequence[float], metric: Metric) -> "MeanStd":
        """Return mean and deviation of a metric's values on the folds, in percent where the metric is."""
        scaled = np.asarray(values) * (100 if metric.percent else 1)
        return cls(float(scaled.mean()), float(scaled.std(ddof=1)) if len(scaled) > 1 else math.nan)


@dataclass(frozen=True)
class TableRow:
    """One model over its folds."""

    model: str
    folds: int
    scores: Mapping[str, MeanStd]
    "Figures by the names of metrics; in percent where the metric's `percent` is True: an NDCG of 0.128 is 12.8 here."
    seconds: Mapping[str, float] = field(default_factory=dict)
    "Time of choosing and training; like the chosen epochs and the memory of the last fit, a mean over folds."
    epochs: float | None = None
    is_ours: bool = True
    peak_mb: float | None = None
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


def summarize(
    results: Sequence[Result], metrics: Sequence[Metric], user_values: UserValues | None = None
) -> list[TableRow]:
    """Return one row for each model, in the order in which models first come.

    With the values of single users, rows have p-values against the best baseline, and come by falling NDCG.
    """
    groups, baseline = group_by_model(results), best_baseline(results)
    p_values = {} if user_values is None or baseline is None else _p_values(groups, baseline, user_values, metrics)
    models = list(groups) if user_values is None else sorted(groups, key=lambda model: -_mean_ndcg(groups[model]))
    return [
        TableRow(
            model=model,
            folds=len(group := groups[model]),
            scores={
                metric.name: MeanStd.of([result.scores[metric.name] for result in group], metric) for metric in metrics
            },
            seconds={
                name: float(np.mean([result.seconds.get(name, 0.0) for result in group]))
                for name in ("choosing", "training")
            },
            epochs=_mean([result.settings.get("epochs") for result in group]),
            is_ours=group[0].is_ours,
            peak_mb=_mean([result.peak_mb for result in group]),
            p_values=p_values.get(model, {}),
        )
        for model in models
    ]


def tested_metrics(metrics: Sequence[Metric]) -> list[Metric]:
    """Return the metrics whose differences are tested: MAP, NDCG and those of the user's own."""
    built_in = {metric.name for metric in METRICS}
    return [metric for metric in metrics if metric.name in _TESTED or metric.name not in built_in]


def best_baseline(results: Iterable[Result]) -> str | None:
    """Return the baseline with the highest mean NDCG over its folds."""
    baselines = group_by_model(result for result in results if not result.is_ours)
    return max(baselines, key=lambda model: _mean_ndcg(baselines[model])) if baselines else None


def heading(metric: Metric) -> str:
    """Return the head of a metric's column, such as "NDCG %"."""
    return f"{metric.label} %" if metric.percent else metric.label


def metric_columns(metrics: Sequence[Metric]) -> list[str]:
    """Return the names of the CSV columns of metrics: map_mean, map_std, …"""
    return [f"{metric.name}_{part}" for metric in metrics for part in ("mean", "std")]


def column_values(row: TableRow, metrics: Sequence[Metric]) -> list[float]:
    """Return what stands in these columns."""
    return [number for metric in metrics for number in (row[metric.name].mean, row[metric.name].std)]


def comparison_columns(row: TableRow, metrics: Sequence[Metric]) -> dict[str, Any]:
    """Return the values of a row by the names of the CSV columns; None where one is not known."""
    numbers = (None if np.isnan(number) else number for number in column_values(row, metrics))
    rest = (row.seconds["training"], row.peak_mb, row.p_values.get(ndcg.name))
    return dict(zip(_csv_header(metrics), (row.model, *numbers, *rest), strict=True))


def comparison_csv(table: Sequence[TableRow], metrics: Sequence[Metric]) -> str:
    """Return the table as CSV; what is not known is empty."""
    return to_csv(_csv_header(metrics), [[*comparison_columns(row, metrics).values()] for row in table], ".4g")


def page_header(metrics: Sequence[Metric]) -> list[str]:
    """Return the heads of the table for people."""
    tests = [f"p {metric.label}" for metric in tested_metrics(metrics)]
    return ["model", *map(heading, metrics), *tests, "fit s", "peak MB"]


def page_cells(row: TableRow, metrics: Sequence[Metric]) -> list[str]:
    """Return what stands under these heads."""
    seconds = row.seconds["training"]
    return [
        row.model,
        *(str(row[metric.name]) for metric in metrics),
        *(_show_p(row.p_values.get(metric.name)) for metric in tested_metrics(metrics)),
        f"{seconds:.3g}" if seconds < 100 else f"{seconds:.0f}",
        "" if row.peak_mb is None else f"{row.peak_mb:,.0f}",
    ]


@dataclass(frozen=True)
class PageFacts:
    """Facts that a page states about the comparison."""

    title: str
    command: str
    sizes: Mapping[str, int]  # numbers of users, items and pairs
    k: int
    trials: int
    validation: float


def comparison_page(
    table: Sequence[TableRow], results: Sequence[Result], metrics: Sequence[Metric], facts: PageFacts
) -> str:
    """Return the page: the table, how it was made, and which settings were chosen."""
    about = ", ".join(f"{count:,} {name}" for name, count in facts.sizes.items())
    rows = [[f"**{row.model}**" if row.is_ours else row.model, *page_cells(row, metrics)[1:]] for row in table]
    baseline = best_baseline(results)
    test = f"p: paired t-test over users (mean of each over folds) against {baseline}, the best baseline. "
    memory = "; ".join(f"{kind} for {models}" for kind, models in _models_by(results, lambda one: one.peak_of))
    origins = _models_by(results, lambda one: ", ".join(f"{name} {what}" for name, what in one.environment.items()))
    parts = [
        f"# {facts.title}: models compared",
        f"{about}. Lists of {facts.k}. {_describe_folds(table)}",
        to_markdown(page_header(metrics), rows),
        f"{test if baseline else ''}fit s, peak MB: the last fit alone, mean over folds; memory {memory}.",
        f"For each model and fold, up to {facts.trials} settings were tried on a validation part of "
        f"{100 * facts.validation:g} % of the training pairs; the best by NDCG was fit again on all of them and tested "
        "once.",
        f"```sh\n{facts.command}\n```",
        "## Settings chosen",
        _chosen_settings(table, results),
        "## Made by",
        "\n".join(f"- {models}: {origin}" for origin, models in origins),
    ]
    return "\n\n".join(parts) + "\n"


def to_csv(header: Sequence[str], rows: Iterable[Sequence[object]], digits: str) -> str:
    """Return CSV. Floats are formatted by `digits` (".3f"); None and NaN become empty fields."""

    def field_of(value: object) -> str:
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return ""
        return format(value, digits) if isinstance(value, float) else str(value)

    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(map(field_of, row) for row in rows)
    return text.getvalue()


def to_markdown(header: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Return a Markdown table without a final newline; the columns `left` are left-aligned."""
    rule = "|" + "".join("---|" if at in left else "--:|" for at in range(len(header)))
    head, *lines = (f"| {' | '.join(cells)} |" for cells in (header, *rows))
    return "\n".join([head, rule, *lines])


def describe_environments(results: Sequence[Result]) -> str:
    """Return from which commits, devices and versions results come, with the number of runs of each."""
    named = ("commit", "device", "torch")
    counts = Counter(", ".join(f"{name} {result.environment.get(name, '?')}" for name in named) for result in results)
    return "; ".join(f"{count} runs: {where}" for where, count in counts.most_common())


def _csv_header(metrics: Sequence[Metric]) -> list[str]:
    return ["model", *metric_columns(metrics), "fit_seconds", "peak_mb", "p_value_vs_best_baseline"]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _mean_ndcg(results: Sequence[Result]) -> float:
    return float(np.mean([result.scores[ndcg.name] for result in results]))


def _p_values(
    groups: Mapping[str, Sequence[Result]], baseline: str, user_values: UserValues, metrics: Sequence[Metric]
) -> dict[str, dict[str, float]]:
    """Return the p-values of each model but the best baseline, by metric; none where they are not known."""
    found: dict[str, dict[str, float]] = {}
    for model in groups.keys() - {baseline}:
        names = [metric.name for metric in tested_metrics(metrics)]
        values = {name: _p_value(groups[model], groups[baseline], user_values, name) for name in names}
        found[model] = {name: value for name, value in values.items() if value is not None}
    return found


def _p_value(ours: Sequence[Result], theirs: Sequence[Result], user_values: UserValues, metric: str) -> float | None:
    """Test over users, each with their mean over the folds that both have; None where their values are not known."""
    baselines = {result.fold: result for result in theirs}
    parts = []  # users, ours, theirs
    for result in ours:
        if result.fold in baselines:
            first, second = user_values.load(result), user_values.load(baselines[result.fold])
            if first is None or second is None or metric not in first or metric not in second:
                return None
            if not np.array_equal(first["user"], second["user"]):
                return None
            parts.append((first["user"], first[metric], second[metric]))
    if not parts:
        return None
    users, *values = (np.concatenate(column) for column in zip(*parts, strict=True))
    distinct, place = np.unique(users, return_inverse=True)
    if len(distinct) < 2:
        return None
    counts = np.bincount(place)
    means = [np.bincount(place, column.astype(np.float64)) / counts for column in values]
    return paired(*means).p_value


def _show_p(value: float | None) -> str:
    return "" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def _describe_folds(table: Sequence[TableRow]) -> str:
    most = max((row.folds for row in table), default=0)
    fewer = [f"{row.model} has {row.folds}" for row in table if row.folds < most]
    over = f"Mean ± standard deviation over {most} folds" if most > 1 else "One split"
    return f"{over}{'; ' if fewer else ''}{', '.join(fewer)}."


def _chosen_settings(table: Sequence[TableRow], results: Sequence[Result]) -> str:
    groups = group_by_model(results)
    rows = []
    for result in (result for row in table for result in groups[row.model]):
        settings = ", ".join(f"{name} {value}" for name, value in result.settings.items()) or "none"
        values = [trial.scores[ndcg.name] for trial in result.trials if not trial.failed]
        best = f"{100 * max(values):.2f}" if values else ""
        rows.append([result.model, str(result.fold), settings, best, str(len(result.trials))])
    return to_markdown(["model", "fold", "settings", "validation NDCG %", "trials"], rows, left=(0, 2))


def _models_by(results: Sequence[Result], fact: Callable[[Result], str]) -> list[tuple[str, str]]:
    """Return each value of a fact with the models that have it."""
    models: dict[str, dict[str, None]] = {}
    for result in results:
        models.setdefault(fact(result), {})[result.model] = None
    return [(value, ", ".join(names)) for value, names in models.items()]
