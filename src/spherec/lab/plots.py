"""Plots of experiments and comparisons. The only file that imports matplotlib."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spherec.errors import MissingPackageError
from spherec.evaluation.metrics import median_popularity, ndcg
from spherec.lab.records import Result
from spherec.lab.reproduction import paper_rows
from spherec.lab.tables import TableRow

try:
    from matplotlib import ticker
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingPackageError("plots need matplotlib; install it with: pip install 'spherec[plots]'") from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {"uniform": "tab:blue", "popularity": "tab:orange", "two-stage": "tab:green"}
_MARKERS = {1: "o", 2: "s", 5: "^"}  # by negatives
_LINES = {1: ":", 2: "--", 5: "-"}
_BESIDE: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}  # place of a legend


def plot_reproduction(dataset: str, table: Sequence[TableRow], results: Sequence[Result], folder: Path) -> list[Path]:
    """Draw accuracy against popularity, accuracy against batch size, and training curves; return the files."""
    return [
        _plot_popularity(dataset, table, folder / "accuracy-popularity.png"),
        _plot_batch_size(dataset, table, folder / "accuracy-batch.png"),
        _plot_curves(results, folder / "curves.png"),
    ]


def plot_comparison(title: str, table: Sequence[TableRow], k: int, path: Path) -> Path:
    """Draw NDCG against MMR, a point with its deviations for each model; return the file."""
    figure, axes = _figure()
    for is_ours, colour, label in ((True, "tab:blue", "spherec"), (False, "tab:orange", "baselines")):
        rows = [row for row in table if row.is_ours == is_ours]
        x, y = ([row[metric.name].mean for row in rows] for metric in (median_popularity, ndcg))
        dx, dy = (np.nan_to_num([row[metric.name].std for row in rows]) for metric in (median_popularity, ndcg))
        axes.errorbar(x, y, dy, dx, linestyle="none", marker="o", capsize=2, color=colour, label=label)
        for row, at in zip(rows, zip(x, y, strict=True), strict=True):
            offset, side = ((-5, 4), "right") if is_ours else ((5, -12), "left")
            axes.annotate(row.model, at, xytext=offset, textcoords="offset points", ha=side, fontsize=9)
    if all(row[median_popularity.name].mean > 0 for row in table):
        _use_log_popularity(axes)
    axes.set(xlabel=f"MMR@{k}: median popularity of what is recommended", ylabel=f"NDCG@{k}, %")
    axes.set_title(f"{title}: up is more accurate, left is less popular")
    axes.margins(x=0.2, y=0.12)
    axes.legend()
    return _save(figure, path)


def _plot_popularity(dataset: str, table: Sequence[TableRow], path: Path) -> Path:
    figure, axes = _figure()
    paper = {"markerfacecolor": "none", "label": None, "alpha": 0.5, "capsize": 0}
    rows = [(row, {"capsize": 2}) for row in table] + [(row, paper) for row in paper_rows(dataset).values()]
    for row, look in rows:
        x, y = row[median_popularity.name], row[ndcg.name]
        axes.errorbar(x.mean, y.mean, y.std, x.std, **(_look(row.model) | look))
    axes.set(xlabel="MMR@50: median popularity of what is recommended", ylabel="NDCG@50, %")
    _use_log_popularity(axes)
    axes.set_title(f"{dataset}: ours filled, the paper's hollow. Up and left is better")
    axes.legend(title="sampler-negatives-batch", fontsize=7, **_BESIDE)
    return _save(figure, path)


def _plot_batch_size(dataset: str, table: Sequence[TableRow], path: Path) -> Path:
    figure, axes = _figure()
    batches = {row.model: int(row.model.rsplit("-", 1)[1]) for row in table}
    for group in dict.fromkeys(model.rsplit("-", 1)[0] for model in batches):
        rows = [row for row in table if row.model.rsplit("-", 1)[0] == group]
        mean, std = ([getattr(row[ndcg.name], part) for row in rows] for part in ("mean", "std"))
        look = _look(rows[0].model) | {"label": group, "markersize": 6, "linestyle": "-", "capsize": 2}
        axes.errorbar([batches[row.model] for row in rows], mean, std, **look)
    ticks = sorted({*batches.values()})
    axes.set(xscale="log", xlabel="batch size", ylabel="NDCG@50, %", title=f"{dataset}: accuracy against batch size")
    axes.set_xticks(ticks, [str(batch) for batch in ticks])
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    axes.legend(title="sampler-negatives", fontsize=8, **_BESIDE)
    return _save(figure, path)


def _plot_curves(results: Sequence[Result], path: Path) -> Path:
    """Draw the curves of each row's first fold."""
    figure = Figure(figsize=(12, 4.5), layout="tight")
    left, right = figure.subplots(1, 2)
    first = {one.model: one.curve for one in reversed(results)}
    for model, curve in reversed(first.items()):
        width = {256: 1.0, 1024: 1.4}.get(int(model.rsplit("-", 1)[1]), 2.0)
        line = _LINES.get(int(model.rsplit("-", 2)[1]), "-.")
        look = {"color": _look(model)["color"], "linestyle": line, "linewidth": width, "label": model}
        validated = [epoch for epoch in curve if epoch["metric"] is not None]
        left.plot([epoch["epoch"] for epoch in curve], [epoch["loss"] for epoch in curve], **look)
        right.plot([epoch["epoch"] for epoch in validated], [100 * epoch["metric"] for epoch in validated], **look)
    left.set(xlabel="epoch", ylabel="loss", xscale="log", yscale="log", title="training loss")
    right.set(xlabel="epoch", ylabel="NDCG@50, %", xscale="log", title="validation")
    right.legend(fontsize=7, **_BESIDE)
    return _save(figure, path)


def _figure() -> "tuple[Figure, Axes]":
    figure = Figure(figsize=(8, 5), layout="tight")
    return figure, figure.subplots()


def _use_log_popularity(axes: "Axes") -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(ticker.ScalarFormatter())
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())


def _look(row: str) -> dict[str, Any]:
    """Return colour by sampler, shape by negatives, size by batch size."""
    sampler, negatives, batch = row.rsplit("-", 2)
    size = {256: 5, 1024: 7}.get(int(batch), 9)
    look = {"color": _COLOURS.get(sampler, "tab:red"), "marker": _MARKERS.get(int(negatives), "D")}
    return {**look, "markersize": size, "linestyle": "none", "label": row}


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=110)
    return path
