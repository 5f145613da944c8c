"""Measure how long a fit takes until its lists are as good as they are: seconds, and the quality on a test part.

    python benchmarks/fit_time.py TRAIN.npz TEST.npz [--preset accurate] [--epochs 10,30] [--seeds 1] [-k 20]
    python benchmarks/fit_time.py book-crossing [--folds 4] [--preset fast] [--change dim=1024 effort=0.8]

The parts are prepared files of one split. A single file, or the embedded data set, is split into the folds of `spherec
compare`. A fit is timed from the data in memory to the vectors on the device. The
first one includes the compiling of kernels that are not in Triton's cache yet, and is marked so. Needs torch, NumPy,
SciPy and numba.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import spherec
from spherec.device import resolve
from spherec.lab.records import environment_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path, nargs="?")
    parser.add_argument("--folds", type=int, default=4, help="of a data set without a test part")
    parser.add_argument("--preset", default="accurate")
    parser.add_argument("--change", nargs="*", default=[], metavar="SETTING=VALUE", help="of the preset")
    parser.add_argument("--epochs", default="", help="comma-separated; default: those of the preset")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("-k", type=int, default=20)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    folds = split(arguments)
    lengths: list[int | None] = [int(epochs) for epochs in arguments.epochs.split(",") if epochs] or [None]
    fits: list[dict[str, Any]] = []
    for (number, fold), epochs, seed in product(enumerate(folds), lengths, range(arguments.seeds)):
        fits.append({"fold": number, **fit(fold, arguments, epochs, seed, is_first=not fits)})
        print(fits[-1], flush=True)
    if arguments.output:
        record = {
            "benchmark": "fit_time",
            "command": " ".join(["python", *sys.argv]),
            "environment": environment_of(resolve(arguments.device)),
            "fits": fits,
        }
        arguments.output.write_text(json.dumps(record, indent=1) + "\n")


def split(arguments: argparse.Namespace) -> Sequence[spherec.splits.Fold]:
    """Return the split that is given, or the folds of one data set."""
    if arguments.test is not None:
        return [spherec.splits.given(spherec.read(arguments.train), spherec.read(arguments.test))]
    is_embedded = str(arguments.train) == "book-crossing"
    data = spherec.datasets.book_crossing() if is_embedded else spherec.read(arguments.train)
    return spherec.splits.k_fold(data, arguments.folds, seed=0)


def fit(
    fold: spherec.splits.Fold, arguments: argparse.Namespace, epochs: int | None, seed: int, *, is_first: bool
) -> dict[str, Any]:
    """Return the seconds and the scores of one fit."""
    changes = {name: json.loads(value) for name, value in (change.split("=", 1) for change in arguments.change)}
    if epochs is not None:
        changes["epochs"] = epochs
    model = spherec.CML.preset(arguments.preset, seed=seed, device=arguments.device, **changes)
    began = time.perf_counter()
    model.fit(fold.train, progress=False)
    seconds = time.perf_counter() - began
    scores = spherec.evaluate(model, fold.train, fold.test, k=arguments.k)
    return {
        "preset": arguments.preset,
        **changes,
        "epochs": len(model.history.epochs),
        "seed": seed,
        "is_first": is_first,
        "seconds": round(seconds, 2),
        "seconds_of_steps": round(sum(record.seconds for record in model.history.epochs), 2),
        **{name: round(value, 6) for name, value in scores.values.items()},
    }


if __name__ == "__main__":
    main()
