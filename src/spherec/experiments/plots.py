"""Pictures of an experiment. The only file that imports matplotlib."""

from collections.abc import Sequence
from pathlib import Path

try:
    import matplotlib as mpl
    from matplotlib import pyplot as plt
    from matplotlib.figure import Figure
except ImportError as error:
    from spherec.errors import MissingPackageError

    raise MissingPackageError("plots need matplotlib; install it with: pip install 'spherec[plots]'") from error

from spherec.experiments.paper import paper_rows
from spherec.experiments.records import Record
from spherec.experiments.report import Line

mpl.use("Agg")  # files, no windows

_COLOURS = {"uniform": "tab:blue", "popularity": "tab:orange", "two-stage": "tab:green"}
_OTHER = "tab:red"


def draw_all(dataset: str, table: Sequence[Line], records: Sequence[Record], folder: Path) -> list[Path]:
    """Accuracy against popularity, accuracy against batch size, training curves; gives back the files."""
    return [
        _popularity(dataset, table, folder / "accuracy-popularity.png"),
        _batch_size(dataset, table, folder / "accuracy-batch.png"),
        _curves(records, folder / "curves.png"),
    ]


def _popularity(dataset: str, table: Sequence[Line], path: Path) -> Path:
    figure, axes = plt.subplots(figsize=(7, 5))
    for line in table:
        colour = _colour(line.row)
        axes.errorbar(line.mmr.mean, line.ndcg.mean, line.ndcg.std, line.mmr.std, fmt="o", color=colour, capsize=2)
        axes.annotate(line.row, (line.mmr.mean, line.ndcg.mean), fontsize=7, xytext=(4, 3), textcoords="offset points")
    for row in paper_rows(dataset).values():
        axes.errorbar(
            row.mmr_mean, row.ndcg_mean, row.ndcg_std, row.mmr_std, fmt="x", color=_colour(row.name), alpha=0.5
        )
    axes.set(xscale="log", xlabel="MMR@50: median popularity of what is recommended", ylabel="NDCG@50, %")
    axes.set_title(f"{dataset}: ours ●, the paper's ×. Up and left is better")
    return _saved(figure, path)


def _batch_size(dataset: str, table: Sequence[Line], path: Path) -> Path:
    figure, axes = plt.subplots(figsize=(7, 5))
    groups: dict[str, list[tuple[int, Line]]] = {}
    for line in table:
        group, batch = line.row.rsplit("-", 1)
        groups.setdefault(group, []).append((int(batch), line))
    for group, members in groups.items():
        batches = [batch for batch, _ in members]
        means, stds = ([getattr(line.ndcg, part) for _, line in members] for part in ("mean", "std"))
        axes.errorbar(batches, means, stds, marker="o", label=group, capsize=2)
    axes.set(xscale="log", xlabel="batch size", ylabel="NDCG@50, %", title=f"{dataset}: accuracy against batch size")
    axes.legend(title="sampler-negatives", fontsize=8)
    return _saved(figure, path)


def _curves(records: Sequence[Record], path: Path) -> Path:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5))
    seen = set()
    for record in records:
        if record.row in seen:
            continue
        seen.add(record.row)
        steps = [epoch["epoch"] for epoch in record.curve]
        left.plot(steps, [epoch["loss"] for epoch in record.curve], label=record.row)
        validated = [epoch for epoch in record.curve if epoch["metric"] is not None]
        right.plot(
            [epoch["epoch"] for epoch in validated], [100 * epoch["metric"] for epoch in validated], label=record.row
        )
    left.set(xlabel="epoch", ylabel="loss", xscale="log", yscale="log", title="training loss")
    right.set(xlabel="epoch", ylabel="NDCG@50, %", xscale="log", title="validation")
    right.legend(fontsize=7)
    return _saved(figure, path)


def _colour(row: str) -> str:
    return _COLOURS.get(row.rsplit("-", 2)[0], _OTHER)


def _saved(figure: Figure, path: Path) -> Path:
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path
