"""A picture of a comparison: accuracy against popularity."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

try:
    import matplotlib as mpl
    from matplotlib import pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter
except ImportError as error:
    from spherec.errors import MissingPackageError

    raise MissingPackageError("plots need matplotlib; install it with: pip install 'spherec[plots]'") from error

from spherec.compare.table import Line

mpl.use("Agg")  # files, no windows

_OURS, _PEERS = "tab:blue", "tab:orange"


def draw(title: str, table: Sequence[Line], k: int, path: Path) -> Path:
    """NDCG against MMR, a point with its deviations for each model; gives back the file."""
    figure, axes = plt.subplots(figsize=(8, 5))
    for is_ours, colour, label in ((True, _OURS, "spherec"), (False, _PEERS, "peers")):
        some = [line for line in table if line.is_ours == is_ours]
        if not some:
            continue
        x, y = ([getattr(line, name).mean for line in some] for name in ("mmr", "ndcg"))
        dx, dy = (np.nan_to_num([getattr(line, name).std for line in some]) for name in ("mmr", "ndcg"))
        axes.errorbar(x, y, dy, dx, linestyle="none", marker="o", capsize=2, color=colour, label=label)
        for line, at_x, at_y in zip(some, x, y, strict=True):
            place, side = ((0, 6), "center") if is_ours else ((5, -12), "left")  # ours above, those of peers beside
            axes.annotate(line.model, (at_x, at_y), xytext=place, textcoords="offset points", ha=side, fontsize=9)
    if all(line.mmr.mean > 0 for line in table):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set(xlabel=f"MMR@{k}: median popularity of what is recommended", ylabel=f"NDCG@{k}, %")
    axes.set_title(f"{title}: up is more accurate, left is less popular")
    axes.margins(x=0.2, y=0.12)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
