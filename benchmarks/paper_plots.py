"""Draw the pictures of docs/results/paper.md next to recorded results: accuracy, popularity, batch size, curves.

    python benchmarks/paper_plots.py results/book-crossing

The folder is one that `spherec reproduce` has written, called like the data set. Needs matplotlib.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import ticker
from matplotlib.figure import Figure

from spherec.evaluation.metrics import median_popularity, ndcg
from spherec.lab import RecordFile, Result, TableRow, paper_rows
from spherec.lab.reproduction import PAPER_METRICS
from spherec.lab.tables import summarize

_COLOURS = {"uniform": "tab:blue", "popularity": "tab:orange", "two-stage": "tab:green"}
_MARKERS = {1: "o", 2: "s", 5: "^"}  # by negatives
_LINES = {1: ":", 2: "--", 5: "-"}
_BESIDE: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}  # place of a legend


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    results = list(RecordFile(folder / "records.jsonl"))
    table = summarize(results, PAPER_METRICS)
    plot_popularity(folder.name, table).savefig(folder / "accuracy-popularity.png", dpi=110)
    plot_batch_size(folder.name, table).savefig(folder / "accuracy-batch.png", dpi=110)
    plot_curves(results).savefig(folder / "curves.png", dpi=110)


def plot_popularity(dataset: str, table: Sequence[TableRow]) -> Figure:
    figure = Figure(figsize=(8, 5), layout="tight")
    axes = figure.subplots()
    paper = {"markerfacecolor": "none", "label": None, "alpha": 0.5, "capsize": 0}
    rows = [(row, {"capsize": 2}) for row in table] + [(row, paper) for row in paper_rows(dataset).values()]
    for row, look in rows:
        x, y = row[median_popularity.name], row[ndcg.name]
        axes.errorbar(x.mean, y.mean, y.std, x.std, **(_look(row.model) | look))
    axes.set(xlabel="MMR@50: median popularity of what is recommended", ylabel="NDCG@50, %")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(ticker.ScalarFormatter())
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    axes.set_title(f"{dataset}: ours filled, the paper's hollow. Up and left is better")
    axes.legend(title="sampler-negatives-batch", fontsize=7, **_BESIDE)
    return figure


def plot_batch_size(dataset: str, table: Sequence[TableRow]) -> Figure:
    figure = Figure(figsize=(8, 5), layout="tight")
    axes = figure.subplots()
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
    return figure


def plot_curves(results: Sequence[Result]) -> Figure:
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
    return figure


def _look(row: str) -> dict[str, Any]:
    """Return colour by sampler, shape by negatives, size by batch size."""
    sampler, negatives, batch = row.rsplit("-", 2)
    size = {256: 5, 1024: 7}.get(int(batch), 9)
    look = {"color": _COLOURS.get(sampler, "tab:red"), "marker": _MARKERS.get(int(negatives), "D")}
    return {**look, "markersize": size, "linestyle": "none", "label": row}


if __name__ == "__main__":
    main()
