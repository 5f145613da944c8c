"""Report of a comparison: its table with p-values, as CSV and as a page in Markdown."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spherec.evaluation import METRICS, Metric, paired
from spherec.evaluation.metrics import average_precision, ndcg
from spherec.lab.store import Result
from spherec.lab.table import (
    TableRow,
    column_values,
    group_by_model,
    heading,
    metric_columns,
    summarize,
    to_csv,
    to_markdown,
)
from spherec.lab.user_values import UserValues

_TESTED = (average_precision.name, ndcg.name)


def summarize_comparison(
    results: Sequence[Result], user_values: UserValues, metrics: Sequence[Metric]
) -> list[TableRow]:
    """Return one row for each model, by falling NDCG, with p-values against the best baseline."""
    groups = group_by_model(results)
    baseline = best_baseline(results)
    rows = []
    for row in summarize(results, metrics):
        p_values: dict[str, float] = {}
        if baseline is not None and row.model != baseline:
            for metric in tested_metrics(metrics):
                value = _p_value(groups[row.model], groups[baseline], user_values, metric.name)
                p_values |= {} if value is None else {metric.name: value}
        rows.append(replace(row, p_values=p_values))
    return sorted(rows, key=lambda row: -_mean_ndcg(groups[row.model]))


def tested_metrics(metrics: Sequence[Metric]) -> list[Metric]:
    """Return the metrics whose differences are tested: MAP, NDCG and those of the user's own."""
    built_in = {metric.name for metric in METRICS}
    return [metric for metric in metrics if metric.name in _TESTED or metric.name not in built_in]


def best_baseline(results: Sequence[Result]) -> str | None:
    """Return the baseline with the highest mean NDCG over its folds."""
    baselines = group_by_model(result for result in results if not result.is_ours)
    return max(baselines, key=lambda model: _mean_ndcg(baselines[model])) if baselines else None


def comparison_columns(row: TableRow, metrics: Sequence[Metric]) -> dict[str, Any]:
    """Return the values of a row by the names of the CSV columns; None where one is not known."""
    numbers = (None if np.isnan(number) else number for number in column_values(row, metrics))
    rest = (row.seconds["training"], row.peak_mb, row.p_values.get(ndcg.name))
    return dict(zip(_csv_header(metrics), (row.model, *numbers, *rest), strict=True))


def comparison_csv(table: Sequence[TableRow], metrics: Sequence[Metric]) -> str:
    """Return the table as CSV; what is not known is empty."""
    rows = [list(comparison_columns(row, metrics).values()) for row in table]
    return to_csv(_csv_header(metrics), rows, ".4g")


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
    sizes: Mapping[str, int]
    "Numbers of users, items and pairs."
    k: int
    trials: int
    validation: float


def comparison_page(
    table: Sequence[TableRow], results: Sequence[Result], metrics: Sequence[Metric], facts: PageFacts
) -> str:
    """Return the page: the table, how it was made, and which settings were chosen."""
    about = ", ".join(f"{count:,} {name}" for name, count in facts.sizes.items())
    rows = [[f"**{row.model}**" if row.is_ours else row.model, *page_cells(row, metrics)[1:]] for row in table]
    parts = [
        f"# {facts.title}: models compared",
        f"{about}. Lists of {facts.k}. {_describe_folds(table)}",
        to_markdown(page_header(metrics), rows),
        f"{_describe_test(results)}fit s, peak MB: the last fit alone, mean over folds; {_describe_memory(results)}.",
        f"For each model and fold, up to {facts.trials} settings were tried on a validation part of "
        f"{100 * facts.validation:g} % of the training pairs; the best by NDCG was fit again on all of them and tested "
        f"once.",
        f"```sh\n{facts.command}\n```",
        "## Settings chosen",
        _chosen_settings(table, results),
        "## Made by",
        _describe_origins(results),
    ]
    return "\n\n".join(parts) + "\n"


def _csv_header(metrics: Sequence[Metric]) -> list[str]:
    return ["model", *metric_columns(metrics), "fit_seconds", "peak_mb", "p_value_vs_best_baseline"]


def _mean_ndcg(results: Sequence[Result]) -> float:
    return float(np.mean([result.scores[ndcg.name] for result in results]))


def _p_value(ours: Sequence[Result], theirs: Sequence[Result], user_values: UserValues, metric: str) -> float | None:
    """Test over users, each with their mean over the folds that both have; None where their values are not known."""
    baselines = {result.fold: result for result in theirs}
    parts = []  # users, ours, theirs
    for result in ours:
        if result.fold not in baselines:
            continue
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


def _describe_test(results: Sequence[Result]) -> str:
    baseline = best_baseline(results)
    test = "p: of a paired t-test over users (mean of each over folds)"
    return f"{test} against {baseline}, the best baseline. " if baseline else ""


def _describe_folds(table: Sequence[TableRow]) -> str:
    most = max((row.folds for row in table), default=0)
    fewer = [f"{row.model} has {row.folds}" for row in table if row.folds < most]
    over = f"Mean ± standard deviation over {most} folds" if most > 1 else "One split"
    return f"{over}{'; ' if fewer else ''}{', '.join(fewer)}."


def _chosen_settings(table: Sequence[TableRow], results: Sequence[Result]) -> str:
    header = ["model", "fold", "settings", "validation NDCG %", "trials"]
    rows = [
        [result.model, str(result.fold), _describe(result.settings), _validation(result), str(len(result.trials))]
        for row in table
        for result in results
        if result.model == row.model
    ]
    return to_markdown(header, rows, left=(0, 2))


def _describe(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "none"


def _validation(result: Result) -> str:
    values = [trial.scores[ndcg.name] for trial in result.trials if not trial.failed]
    return f"{100 * max(values):.2f}" if values else ""


def _describe_origins(results: Sequence[Result]) -> str:
    """Return the commits, devices and versions, and the models with each."""
    origins: dict[str, Counter[str]] = {}
    for result in results:
        text = ", ".join(f"{name} {value}" for name, value in result.environment.items())
        origins.setdefault(text, Counter())[result.model] += 1
    return "\n".join(f"- {', '.join(models)}: {text}" for text, models in origins.items())


def _describe_memory(results: Sequence[Result]) -> str:
    by_kind: dict[str, list[str]] = {}
    for result in results:
        if result.model not in by_kind.setdefault(result.peak_of, []):
            by_kind[result.peak_of].append(result.model)
    return "memory " + "; ".join(f"{kind} for {', '.join(models)}" for kind, models in by_kind.items())


def _show_p(value: float | None) -> str:
    return "" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"
