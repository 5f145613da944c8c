"""Pictures of an experiment. The only file that imports matplotlib."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

try:
    import matplotlib as mpl
    from matplotlib import pyplot as plt
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter
except ImportError as error:
    from spherec.errors import MissingPackageError

    raise MissingPackageError("plots need matplotlib; install it with: pip install 'spherec[plots]'") from error

from spherec.experiments.paper import paper_rows
from spherec.experiments.records import Record
from spherec.experiments.report import Line

mpl.use("Agg")  # files, no windows

_COLOURS = {"uniform": "tab:blue", "popularity": "tab:orange", "two-stage": "tab:green"}
_OTHER = "tab:red"
_MARKERS = {1: "o", 2: "s", 5: "^"}  # by negatives
_LINES = {1: ":", 2: "--", 5: "-"}


def draw_all(dataset: str, table: Sequence[Line], records: Sequence[Record], folder: Path) -> list[Path]:
    """Accuracy against popularity, accuracy against batch size, training curves; gives back the files."""
    return [
        _popularity(dataset, table, folder / "accuracy-popularity.png"),
        _batch_size(dataset, table, folder / "accuracy-batch.png"),
        _curves(records, folder / "curves.png"),
    ]


def _popularity(dataset: str, table: Sequence[Line], path: Path) -> Path:
    figure, axes = plt.subplots(figsize=(8, 5))
    for line in table:
        look = _look(line.row)
        axes.errorbar(line.mmr.mean, line.ndcg.mean, line.ndcg.std, line.mmr.std, capsize=2, **look)
    for row in paper_rows(dataset).values():
        look = _look(row.name) | {"markerfacecolor": "none", "label": None}
        axes.errorbar(row.mmr_mean, row.ndcg_mean, row.ndcg_std, row.mmr_std, alpha=0.5, **look)
    axes.set(xscale="log", xlabel="MMR@50: median popularity of what is recommended", ylabel="NDCG@50, %")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title(f"{dataset}: ours filled, the paper's hollow. Up and left is better")
    axes.legend(title="sampler-negatives-batch", fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    return _saved(figure, path)


def _batch_size(dataset: str, table: Sequence[Line], path: Path) -> Path:
    figure, axes = plt.subplots(figsize=(8, 5))
    groups: dict[str, list[tuple[int, Line]]] = {}
    for line in table:
        group, batch = line.row.rsplit("-", 1)
        groups.setdefault(group, []).append((int(batch), line))
    for group, members in groups.items():
        batches = [batch for batch, _ in members]
        means, stds = ([getattr(line.ndcg, part) for _, line in members] for part in ("mean", "std"))
        look = _look(members[0][1].row) | {"label": group, "markersize": 6, "linestyle": "-"}
        axes.errorbar(batches, means, stds, capsize=2, **look)
    shown = sorted({batch for members in groups.values() for batch, _ in members})
    axes.set(xscale="log", xlabel="batch size", ylabel="NDCG@50, %", title=f"{dataset}: accuracy against batch size")
    axes.set_xticks(shown, [str(batch) for batch in shown])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.legend(title="sampler-negatives", fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return _saved(figure, path)


def _curves(records: Sequence[Record], path: Path) -> Path:
    """Of each row its first fold."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5))
    seen = set()
    for record in records:
        if record.row in seen:
            continue
        seen.add(record.row)
        negatives, batch = (int(part) for part in record.row.rsplit("-", 2)[1:])
        look = {"color": _look(record.row)["color"], "linestyle": _LINES.get(negatives, "-.")}
        look |= {"linewidth": 1 + 0.4 * (batch > 256) + 0.6 * (batch > 1024), "label": record.row}
        looked_at = [epoch for epoch in record.curve if epoch["metric"] is not None]
        left.plot([epoch["epoch"] for epoch in record.curve], [epoch["loss"] for epoch in record.curve], **look)
        right.plot([epoch["epoch"] for epoch in looked_at], [100 * epoch["metric"] for epoch in looked_at], **look)
    left.set(xlabel="epoch", ylabel="loss", xscale="log", yscale="log", title="training loss")
    right.set(xlabel="epoch", ylabel="NDCG@50, %", xscale="log", title="validation")
    right.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    return _saved(figure, path)


def _look(row: str) -> dict[str, Any]:
    """Colour by sampler, shape by negatives, size by batch size."""
    sampler, negatives, batch = row.rsplit("-", 2)
    return {
        "color": _COLOURS.get(sampler, _OTHER),
        "marker": _MARKERS.get(int(negatives), "D"),
        "markersize": 5 + 2 * (int(batch) > 256) + 2 * (int(batch) > 1024),
        "linestyle": "none",
        "label": row,
    }


def _saved(figure: Figure, path: Path) -> Path:
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
