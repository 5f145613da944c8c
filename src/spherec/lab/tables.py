"""Tables of results: mean and standard deviation over folds, p-values; as CSV, as Markdown, and as a whole page."""

import csv
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
    """P-values against the best baseline, by metric, corrected for the number of models by Holm; none for that baseline
    itself and where single users are not known."""

    def __getitem__(self, metric: str) -> MeanStd:
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
    groups, baseline = group_by_model(results), None if user_values is None else best_baseline(results)
    models = list(groups) if user_values is None else sorted(groups, key=lambda model: -_mean_ndcg(groups[model]))
    p_values: dict[str, dict[str, float]] = {model: {} for model in models}
    if user_values is not None and baseline is not None:
        others = (model for model in models if model != baseline)
        p_values |= {model: _p_values(groups[model], groups[baseline], user_values, metrics) for model in others}
        _correct(list(p_values.values()))
    rows = []
    for model in models:
        group = groups[model]
        scores = {metric.name: MeanStd.of([one.scores[metric.name] for one in group], metric) for metric in metrics}
        seconds = {name: _mean([one.seconds.get(name) for one in group]) or 0.0 for name in ("choosing", "training")}
        epochs, peak_mb = (_mean([one.settings.get("epochs") for one in group]), _mean([one.peak_mb for one in group]))
        rows.append(TableRow(model, len(group), scores, seconds, epochs, group[0].is_ours, peak_mb, p_values[model]))
    return rows


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


def figures(row: TableRow, metrics: Sequence[Metric]) -> dict[str, float]:
    """Return the figures of a row by the names of CSV columns: map_mean, map_std, …"""
    parts = ((metric.name, row[metric.name]) for metric in metrics)
    return {f"{name}_{part}": getattr(figure, part) for name, figure in parts for part in ("mean", "std")}


def comparison_csv(table: Sequence[TableRow], metrics: Sequence[Metric]) -> str:
    """Return the table as CSV; what is not known is empty."""
    rows = []
    for row in table:
        cost = {"fit_seconds": row.seconds["training"], "peak_mb": row.peak_mb}
        p_value = {"p_holm_vs_best_baseline": row.p_values.get(ndcg.name)}
        rows.append({"model": row.model, **figures(row, metrics), **cost, **p_value})
    return to_csv(rows, ".4g")


def page_cells(row: TableRow, metrics: Sequence[Metric]) -> dict[str, str]:
    """Return the cells of a row in the table for people, by the heads of the columns."""
    seconds = row.seconds["training"]
    return {
        "model": row.model,
        **{heading(metric): str(row[metric.name]) for metric in metrics},
        **{f"p {metric.label}": _show_p(row.p_values.get(metric.name)) for metric in tested_metrics(metrics)},
        "fit s": f"{seconds:.3g}" if seconds < 100 else f"{seconds:.0f}",
        "peak MB": "" if row.peak_mb is None else f"{row.peak_mb:,.0f}",
    }


def to_csv(rows: Sequence[Mapping[str, Any]], digits: str) -> str:
    """Return rows as CSV, below their names. Floats are formatted by `digits` (".3f"); None and NaN become empty."""

    def show(value: Any) -> Any:
        if isinstance(value, float):
            return "" if math.isnan(value) else format(value, digits)
        return value

    text = StringIO()
    writer = csv.DictWriter(text, rows[0] if rows else (), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: show(value) for name, value in row.items()} for row in rows)
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


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _mean_ndcg(results: Sequence[Result]) -> float:
    return float(np.mean([result.scores[ndcg.name] for result in results]))


def _p_values(
    ours: Sequence[Result], theirs: Sequence[Result], user_values: UserValues, metrics: Sequence[Metric]
) -> dict[str, float]:
    """Test over users, each with their mean over the folds that both have; nothing where their values are not known."""
    others = {result.fold: user_values.load(result) for result in theirs}
    both = [(user_values.load(result), others[result.fold]) for result in ours if result.fold in others]
    known = [(one, two) for one, two in both if one and two and np.array_equal(one["user"], two["user"])]
    if not known or len(known) < len(both):
        return {}
    users, place = np.unique(np.concatenate([one["user"] for one, _ in known]), return_inverse=True)
    if len(users) < 2:
        return {}
    counts, found = np.bincount(place), {}
    for name in (metric.name for metric in tested_metrics(metrics)):
        if all(name in values for pair in known for values in pair):
            sides = (np.concatenate([values[name] for values in side]) for side in zip(*known, strict=True))
            means = (np.bincount(place, side.astype(np.float64)) / counts for side in sides)
            found[name] = paired(*means).p_value
    return found


def _correct(p_values: Sequence[dict[str, float]]) -> None:
    """Correct the p-values of each metric for their number, in place (Holm, 1979).

    The k-th least of n is multiplied by n + 1 − k, and is no less than those before it, so that the probability of any
    false finding in the table is that of one test.
    """
    for metric in {metric for values in p_values for metric in values}:
        tested, least = sorted((values for values in p_values if metric in values), key=lambda one: one[metric]), 0.0
        for place, values in enumerate(tested):
            least = max(least, min(values[metric] * (len(tested) - place), 1.0))
            values[metric] = least


def _show_p(value: float | None) -> str:
    return "" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def describe_test(baseline: str) -> str:
    """Say where p-values come from."""
    return f"p: paired t-test over users against {baseline}, the best baseline, corrected for their number by Holm."


def describe_ends(results: Iterable[Result]) -> str:
    """Say which values were chosen at the end of their grid; nothing where none was. Nothing is less than a 0."""
    ends = Counter[str]()
    for result in results:
        for name, values in result.identity.get("space", {}).items():
            numbers = [value for value in values if isinstance(value, int | float)]
            if len(numbers) > 1 and (chosen := result.settings[name]) in (min(numbers), max(numbers)) and chosen:
                ends[f"{result.model} {name} {chosen:g}"] += 1
    at = ", ".join(f"{end} ({count} fold{'s' * (count > 1)})" for end, count in ends.items())
    return f"At the end of the grid, so that a wider one might do better: {at}." if at else ""


def describe_time(estimates: Mapping[str, float | None]) -> str:
    """Say how long a comparison is expected to take, and if it is long, where the time goes."""
    total = sum(seconds or 0 for seconds in estimates.values())
    parts = [f"{model} {_show_seconds(each)}" for model, each in estimates.items() if each is not None and total >= 60]
    parts += [f"{model} cannot be measured" for model, each in estimates.items() if each is None]
    return f"about {_show_seconds(total)}" + (f" ({', '.join(parts)})" if parts else "")


def _show_seconds(seconds: float) -> str:
    size, unit = (3600, "h") if seconds >= 5400 else (60, "min") if seconds >= 90 else (1, "s")
    return f"{seconds / size:.{int(size == 3600)}f} {unit}"


def describe_folds(table: Sequence[TableRow]) -> str:
    """Say over how many folds the figures are."""
    most = max((row.folds for row in table), default=0)
    fewer = [f"{row.model} has {row.folds}" for row in table if row.folds < most]
    over = f"Mean ± standard deviation over {most} folds" if most > 1 else "One split"
    return f"{over}{'; ' if fewer else ''}{', '.join(fewer)}."


def chosen_settings(table: Sequence[TableRow], results: Sequence[Result]) -> str:
    """Return a Markdown table of the settings that were chosen for each model on each fold."""
    groups = group_by_model(results)
    rows = []
    for result in (result for row in table for result in groups[row.model]):
        settings = ", ".join(f"{name} {value}" for name, value in result.settings.items()) or "none"
        values = [trial.scores[ndcg.name] for trial in result.trials if not trial.failed]
        best = f"{100 * max(values):.2f}" if values else ""
        rows.append([result.model, str(result.fold), settings, best, str(len(result.trials))])
    return to_markdown(["model", "fold", "settings", "validation NDCG %", "trials"], rows, left=(0, 2))
