"""Ask the index at nine places of the dial: share of the exact top 50 that it finds, with reach and without.

    python benchmarks/dial_index.py MODEL [--users 1000] [--output results/dial/index.json]

The index never falls back on exact ranking here. The last line has the same vectors in an index without reach.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import spherec
from spherec import rng
from spherec.data.interactions import Interactions
from spherec.device import resolve
from spherec.geometry import DenseVectors
from spherec.lab.records import environment_of
from spherec.ranking import ExactRanker
from spherec.ranking.usearch import Hnsw, UsearchRanker

DIAL = (-0.5, -0.25, 0.0, 0.25, 0.5, 0.6, 0.75, 1.0, 1.25)
K = 50


def main() -> None:
    """Measure one model and add it to the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--output", type=Path, default=Path("results/dial/index.json"))
    arguments = parser.parse_args()
    model = spherec.CML.load(arguments.model)
    vectors, data = model.vectors, model.data
    users = rng.stream(0, "benchmark users").permutation(data.n_users)[: arguments.users]
    found = {f"{place:g}": share for place, share in zip(DIAL, recalls(vectors, data, users, DIAL), strict=True)}
    found["without reach"] = recalls(replace(vectors, item_reach=None), data, users, [None])[0]
    record = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    record[arguments.model.stem] = {
        "command": " ".join(["python", "benchmarks/dial_index.py", *sys.argv[1:]]),
        "items": data.n_items,
        "dim": vectors.dim,
        "users": len(users),
        "recall_at_50": found,
        "environment": environment_of(resolve("cpu")),
    }
    arguments.output.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def recalls(
    vectors: DenseVectors, data: Interactions, users: NDArray[np.int64], places: Sequence[float | None]
) -> list[float]:
    """Return the share of the exact lists that the index has, for each place of the dial; own items are left out."""
    exact, index = ExactRanker(vectors), UsearchRanker.build(vectors, Hnsw(exact_beyond=1.0))
    found = []
    for place in places:
        pairs = zip(*(one.top(users, K, without=data, mainstream=place).items for one in (exact, index)), strict=True)
        found.append(round(sum(len(np.intersect1d(*pair)) for pair in pairs) / (K * len(users)), 4))
    return found


if __name__ == "__main__":
    main()
