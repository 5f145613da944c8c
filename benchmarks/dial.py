"""Measure the effect of gamma on the accuracy and the popularity of lists.

    python benchmarks/dial.py [--dim 256] [--gammas 1 0.5 0 -0.5 -1] [--device auto] [--output FILE]

Trains the preset `accurate` on the training folds of Book-Crossing's first split with each gamma, everything else the
same, and tests on the remaining fold. Runs that the file already holds are not repeated. Draws a picture next to the
file, and prints whether the lists become more popular with every step of gamma.
"""

import argparse
import json
import sys
import time
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

from spherec import datasets, evaluate
from spherec.data import splits
from spherec.device import resolve
from spherec.experiments.environment import environment_of
from spherec.training import train
from spherec.training.presets import PRESETS

GAMMAS = (1.0, 0.5, 0.0, -0.5, -1.0)


def main() -> None:
    """Run what is not recorded yet, then write and draw the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--gammas", type=float, nargs="+", default=GAMMAS)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--output", type=Path, default=Path("results/dial/book-crossing.json"))
    arguments = parser.parse_args()
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    points = json.loads(arguments.output.read_text())["points"] if arguments.output.exists() else []
    fold = splits.k_fold(datasets.book_crossing(), 4, seed=0)[0]
    device = resolve(arguments.device)
    for gamma in arguments.gammas:
        config = PRESETS["accurate"].training.change({"dim": arguments.dim, "loss": {"gamma": gamma}})
        if any(point["training"] == config.to_dict() for point in points):
            continue
        began = time.perf_counter()
        model = train(fold.train, config, device=device).vectors
        scores = evaluate(model, fold.train, fold.test, k=50).summary()
        seconds = round(time.perf_counter() - began, 1)
        point = {"gamma": gamma, "scores": scores, "training": config.to_dict(), "seconds": seconds}
        points.append({**point, "environment": environment_of(device)})
        arguments.output.write_text(json.dumps({"command": " ".join(sys.argv), "points": points}, indent=1) + "\n")
        print(f"gamma {gamma}: NDCG {100 * scores['ndcg']:.2f}, MMR {scores['mmr']:.1f}, {seconds} s", flush=True)
    curve = sorted((point for point in points if point["training"]["dim"] == arguments.dim), key=itemgetter("gamma"))
    grows = all(lower["scores"]["mmr"] < higher["scores"]["mmr"] for lower, higher in pairwise(curve))
    print(f"lists become more popular with every step from {curve[0]['gamma']} to {curve[-1]['gamma']}: {grows}")
    draw(curve, arguments.output.with_suffix(".png"))


def draw(points: list[dict[str, Any]], path: Path) -> None:
    """Draw popularity and accuracy over gamma."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    left = figure.subplots()
    right = left.twinx()
    gammas = [point["gamma"] for point in points]
    left.plot(gammas, [point["scores"]["mmr"] for point in points], marker="o", color="tab:orange")
    right.plot(gammas, [100 * point["scores"]["ndcg"] for point in points], marker="s", color="tab:blue")
    left.set(xlabel="γ: niche to the left, mainstream to the right", ylim=(0, None))
    left.set_ylabel("MMR@50, users who have the median item", color="tab:orange")
    right.set_ylabel("NDCG@50, %", color="tab:blue")
    right.set_ylim(0, None)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
