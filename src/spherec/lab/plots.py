"""The plot of a comparison. The only file that imports matplotlib."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from spherec.errors import MissingPackageError
from spherec.evaluation.metrics import median_popularity, ndcg
from spherec.lab.tables import TableRow

try:
    from matplotlib import ticker
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingPackageError("plots need matplotlib; install it with: pip install matplotlib") from error


def plot_comparison(title: str, table: Sequence[TableRow], k: int, path: Path) -> Path:
    """Draw NDCG against MMR, a point with its deviations for each model; return the file."""
    figure = Figure(figsize=(8, 5), layout="tight")
    axes = figure.subplots()
    for is_ours, colour, label in ((True, "tab:blue", "spherec"), (False, "tab:orange", "baselines")):
        rows = [row for row in table if row.is_ours == is_ours]
        x, y = ([row[metric.name].mean for row in rows] for metric in (median_popularity, ndcg))
        dx, dy = (np.nan_to_num([row[metric.name].std for row in rows]) for metric in (median_popularity, ndcg))
        axes.errorbar(x, y, dy, dx, linestyle="none", marker="o", capsize=2, color=colour, label=label)
        for row, at in zip(rows, zip(x, y, strict=True), strict=True):
            offset, side = ((-5, 4), "right") if is_ours else ((5, -12), "left")
            axes.annotate(row.model, at, xytext=offset, textcoords="offset points", ha=side, fontsize=9)
    if all(row[median_popularity.name].mean > 0 for row in table):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(ticker.ScalarFormatter())
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    axes.set(xlabel=f"MMR@{k}: median popularity of what is recommended", ylabel=f"NDCG@{k}, %")
    axes.set_title(f"{title}: up is more accurate, left is less popular")
    axes.margins(x=0.2, y=0.12)
    axes.legend()
    figure.savefig(path, dpi=110)
    return path
