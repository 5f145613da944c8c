"""What the results of a comparison come to: one line for each model, the most accurate first."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

import numpy as np

from spherec.compare.record import Folder, Result
from spherec.evaluation import paired
from spherec.experiments.report import Spread, spread

METRICS = ("map", "ndcg", "recall", "mmr")
_SPREADS = tuple(f"{name}_{part}" for name in METRICS for part in ("mean", "std"))
COLUMNS = ("model", *_SPREADS, "fit_seconds", "peak_mb", "p_value_vs_best_peer")


@dataclass(frozen=True)
class Line:
    """One model over its folds; MAP, NDCG and Recall in percent."""

    model: str
    is_ours: bool
    folds: int
    map: Spread
    ndcg: Spread
    recall: Spread
    mmr: Spread
    fit_seconds: float
    "Of the last fit, mean over folds."
    peak_mb: float | None
    "By how much memory grew during it at most, mean over folds."
    p_value: float | None
    "Of the paired test over users of NDCG against the best peer; None for that peer itself, and where there is none."
    p_value_map: float | None
    "The same of MAP."


def lines(results: Sequence[Result], folder: Folder) -> list[Line]:
    """One line for each model, by falling NDCG."""
    by_model: dict[str, list[Result]] = {}
    for result in results:
        by_model.setdefault(result.model, []).append(result)
    peer = best_peer(results)

    def p_value(model: str, metric: str) -> float | None:
        return None if peer is None or model == peer else _p_value(by_model[model], by_model[peer], folder, metric)

    made = [
        Line(
            model=model,
            is_ours=group[0].is_ours,
            folds=len(group),
            fit_seconds=float(np.mean([one.fit_seconds for one in group])),
            peak_mb=_mean([one.peak_mb for one in group]),
            p_value=p_value(model, "ndcg"),
            p_value_map=p_value(model, "ap"),
            **{name: spread([one.scores[name] for one in group], name) for name in METRICS},
        )
        for model, group in by_model.items()
    ]
    return sorted(made, key=lambda line: -line.ndcg.mean)


def best_peer(results: Sequence[Result]) -> str | None:
    """The peer with the highest mean NDCG over its folds."""
    ndcg: dict[str, list[float]] = {}
    for result in results:
        if not result.is_ours:
            ndcg.setdefault(result.model, []).append(result.scores["ndcg"])
    return max(ndcg, key=lambda model: float(np.mean(ndcg[model]))) if ndcg else None


def as_csv(table: Sequence[Line]) -> str:
    """A row for each line; what is not known is empty."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_shown(value) for value in as_row(line).values()] for line in table)
    return text.getvalue()


def as_row(line: Line) -> dict[str, Any]:
    """The values of a line by the names of the columns; None where one is not known."""
    numbers = [getattr(getattr(line, name), part) for name in METRICS for part in ("mean", "std")]
    values = [None if math.isnan(number) else number for number in numbers]
    row = (line.model, *values, line.fit_seconds, line.peak_mb, line.p_value)
    return dict(zip(COLUMNS, row, strict=True))


def _p_value(ours: Sequence[Result], theirs: Sequence[Result], folder: Folder, metric: str) -> float | None:
    """Over users, each with her mean over the folds that both have; None where their values are not at hand."""
    peers = {one.fold: one for one in theirs}
    parts = []  # users, ours, theirs
    for one in ours:
        if one.fold not in peers:
            continue
        pair = folder.load_users(one), folder.load_users(peers[one.fold])
        if pair[0] is None or pair[1] is None or not np.array_equal(pair[0]["users"], pair[1]["users"]):
            return None
        parts.append((pair[0]["users"], pair[0][metric], pair[1][metric]))
    if not parts:
        return None
    users, first, second = (np.concatenate(one) for one in zip(*parts, strict=True))
    each, place = np.unique(users, return_inverse=True)
    if len(each) < 2:
        return None
    sums = [np.bincount(place, values.astype(np.float64)) for values in (first, second)]
    return paired(*(one / np.bincount(place) for one in sums)).p_value


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
