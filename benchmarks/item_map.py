"""Seconds that the map of a model takes, and how much of the neighbourhoods in the space it keeps.

    python benchmarks/item_map.py books.spherec
    python benchmarks/item_map.py books.spherec --layout umap       # UMAP of all items at once

Printed are the shares of the 15 nearest items in the space that are among the 15 and the 100 nearest on the map: for
1,000 items of all, for 1,000 items with at least 5 users, and for the latter if only such items count.
"""

import argparse
import time
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from spherec import rng
from spherec.artifact import Artifact
from spherec.serve.item_map import draw_map

K, ASKED, POPULAR = 15, 1000, 5
WIDTHS = (15, 100)


def main() -> None:
    """Draw a map and print how good it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="Model file.")
    parser.add_argument(
        "--layout", choices=("spherec", "umap", "opentsne"), default="spherec", help="Layout to measure."
    )
    given = parser.parse_args()
    loaded = Artifact.load(given.model)
    rows, popularity = loaded.vectors.item_table, loaded.data.users_per_item
    begin = time.perf_counter()
    places = draw(given.layout, loaded)
    print(f"{given.layout}: {time.perf_counter() - begin:.1f} s for {len(rows):,} items, D = {rows.shape[1]}")
    everything, known = np.arange(len(rows)), np.flatnonzero(popularity >= POPULAR)
    for name, asked, among in (
        ("all items", everything, everything),
        (f"at least {POPULAR} users", known, everything),
        (f"at least {POPULAR} users, among these", known, known),
    ):
        shares = measure_shares(rows, places, asked, among)
        print(f"{name}: " + ", ".join(f"{share:.3f} @{width}" for share, width in zip(shares, WIDTHS, strict=True)))


def draw(layout: str, loaded: Artifact) -> NDArray[Any]:
    """Return places (I, 2)."""
    rows = loaded.vectors.item_table
    if layout == "spherec":
        return draw_map(rows, loaded.data.users_per_item)
    left, values, _ = torch.svd_lowrank(rows - rows.mean(0), min(50, rows.shape[1]), niter=3)
    principal = (left * values).numpy()  # (I, 50)
    if layout == "umap":
        return np.asarray(import_module("umap").UMAP(random_state=0).fit_transform(principal))
    tsne = import_module("openTSNE").TSNE(n_jobs=2, random_state=0, neighbors="pynndescent")
    return np.asarray(tsne.fit(principal))


def measure_shares(
    rows: torch.Tensor, places: NDArray[Any], asked: NDArray[np.int64], among: NDArray[np.int64]
) -> list[float]:
    """Return the share of the nearest items in the space that are among the nearest on the map, for each width."""
    drawn = rng.stream(0, "asked").choice(asked, min(ASKED, len(asked)), replace=False)
    away = torch.cdist(rows[torch.from_numpy(drawn)], rows[torch.from_numpy(among)])
    away[torch.from_numpy(drawn)[:, None] == torch.from_numpy(among)] = torch.inf
    near = among[away.topk(K, largest=False).indices.numpy()]  # (n, K)
    _, found = cKDTree(places[among]).query(places[drawn], max(WIDTHS) + 1)
    shown = among[np.asarray(found)]
    return [
        float(
            np.mean([len({*a} & ({*b[: width + 1]} - {own})) / K for own, a, b in zip(drawn, near, shown, strict=True)])
        )
        for width in WIDTHS
    ]


if __name__ == "__main__":
    main()
