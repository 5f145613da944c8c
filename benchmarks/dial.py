"""Turn the dial: how accurate and how popular the lists of one model are for nine places of it.

    python benchmarks/dial.py DATA [--fold 0 | --test FILE] [-k 50] [--name NAME] [--device auto] [--output FOLDER]

Trains the preset `accurate` once, on the training part of one of four folds or on all of DATA where --test is given,
and scores its lists for each `mainstream` on the test part. Next to it stand models without reach, one trained for each
gamma. Runs that the file holds are not repeated. Draws the frontier next to the file.
"""

import argparse
import json
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import spherec
from spherec.data import splits
from spherec.device import resolve
from spherec.lab.records import environment_of
from spherec.losses import Softmin
from spherec.training import Run, Training, join, train
from spherec.training.config import PRESETS

DIAL = (-0.5, -0.25, 0.0, 0.25, 0.5, 0.6, 0.75, 1.0, 1.25)
GAMMAS = (0.85, 0.3, -0.6)
METRICS = ("ndcg", "map", "recall", "mmr")


def main() -> None:
    """Run what is not recorded yet, then write and draw the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="book-crossing, or a prepared file")
    parser.add_argument("--fold", type=int, choices=range(4), default=0)
    parser.add_argument("--test", type=Path)
    parser.add_argument("--places", type=float, nargs="+", default=DIAL, help="places of the dial, ascending")
    parser.add_argument("-k", type=int, default=50)
    parser.add_argument("--name")
    parser.add_argument("--gammas", type=float, nargs="*", default=GAMMAS)
    parser.add_argument("--dim", type=int, default=PRESETS["accurate"].training.dim)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--output", type=Path, default=Path("results/dial"))
    arguments = parser.parse_args()
    name = arguments.name or Path(arguments.data).stem
    data = spherec.datasets.book_crossing() if arguments.data == "book-crossing" else spherec.read(arguments.data)
    if arguments.test:
        fold = splits.given(data, spherec.read(arguments.test))
    else:
        fold = splits.k_fold(data, 4, seed=0)[arguments.fold]
    arguments.output.mkdir(parents=True, exist_ok=True)
    file = arguments.output / f"{name}.json"
    runs: dict[str, Any] = json.loads(file.read_text())["runs"] if file.exists() else {}
    accurate = replace(PRESETS["accurate"].training, dim=arguments.dim)
    wanted = {"reach": accurate} | {
        f"gamma {gamma:g}": replace(accurate, reach=False, loss=Softmin(gamma=gamma)) for gamma in arguments.gammas
    }
    device = resolve(arguments.device)
    for key, config in wanted.items():
        if key in runs and runs[key]["training"] == config.to_record():
            continue
        began = time.perf_counter()
        vectors = train(Run(fold.train, config, crew=join(device))).vectors
        seconds = round(time.perf_counter() - began, 1)
        points = []
        for place in arguments.places if config.reach else (None,):
            scores = spherec.evaluate(
                vectors, fold.train, fold.test, k=arguments.k, metrics=METRICS, mainstream=place
            ).summary()
            points.append({"mainstream": place, **scores})
            print(f"{name}, {key}, {place}: NDCG {100 * scores['ndcg']:.2f}, MMR {scores['mmr']:.1f}", flush=True)
        runs[key] = _record(config, points, seconds, environment_of(device))
        command = " ".join(["python", *sys.argv])
        file.write_text(json.dumps({"command": command, "k": arguments.k, "runs": runs}, indent=1) + "\n")
    curve = runs["reach"]["points"]
    grows = all(lower["mmr"] < higher["mmr"] for lower, higher in pairwise(curve))
    print(f"{name}: lists become more popular with every step of the dial: {grows}")
    draw(runs, arguments.k, file.with_suffix(".png"))


def _record(
    config: Training, points: list[dict[str, Any]], seconds: float, environment: dict[str, str]
) -> dict[str, Any]:
    return {"training": config.to_record(), "points": points, "seconds": seconds, "environment": environment}


def draw(runs: dict[str, Any], k: int, path: Path) -> None:
    """Draw NDCG over MMR: the curve of one model with reach, a point for each model without."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for key, run in runs.items():
        popular, good = ([point[name] for point in run["points"]] for name in ("mmr", "ndcg"))
        percent = [100 * value for value in good]
        if key == "reach":
            axes.plot(popular, percent, marker="o", color="tab:blue", label="one model with reach, mainstream turned")
            for point, x, y in zip(run["points"], popular, percent, strict=True):
                axes.annotate(f"{point['mainstream']:g}", (x, y), xytext=(4, -11), textcoords="offset points", size=8)
        else:
            axes.plot(popular, percent, marker="s", color="tab:orange", linestyle="none")
            axes.annotate(key, (popular[0], percent[0]), xytext=(5, 5), textcoords="offset points", size=8)
    axes.plot([], [], "s", color="tab:orange", label="models without reach, one for each gamma")
    axes.set(xlabel=f"MMR@{k}: users who have the median item of a list", ylabel=f"NDCG@{k}, %", xscale="log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
