"""The index against exact ranking: how much of the true top 50 it finds among a million items, and how much sooner.

    python benchmarks/index.py [--items 1000000] [--uniform-items 200000] [--threads 1] [--folder DIR] [--output FILE]

Two sets of vectors (D = 128, on the sphere) are generated:

- clustered: 4,000 places, around each of them about 250 items that scatter in 20 directions of the place's own, and a
  little in all others; users are drawn like items. Trained vectors look so. Recorded for comparison: the local
  intrinsic dimension around users (`lid`) and the cosines of the nearest and the 50th item. In the two-stage model of
  Book-Crossing (127,339 items) they are 6.8, 0.79 and 0.43 around users, 15.8, 0.71 and 0.49 around items.
- uniform: no structure at all, every item is about as far as every other. The hardest case there is, and no model's.
  A fifth as many items (--uniform-items), for its graph takes longest to build; with more, recall is lower still.

Both rankers answer the same users, who have nothing yet, in the same number of threads, by turns; the fastest pass
counts, for exact ranking that of all passes over a set. Finished indexes stay in --folder, if one is given, and are not
built again.
"""

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from spherec import rng
from spherec.geometry import Vectors, unit
from spherec.ranking import ExactRanker, Ranker
from spherec.ranking.usearch import Hnsw, UsearchRanker

DIM, PLACES, DIRECTIONS, K, PASSES, CHUNK = 128, 4000, 20, 50, 3, 5000
WIDTHS = (1.5, 2, 3, 4, 5, 8, 16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--uniform-items", type=int, default=200_000)
    parser.add_argument("--users", type=int, default=512)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where finished indexes stay; a temporary folder by default")
    parser.add_argument("--output", type=Path, default=Path("results/bench/index.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        sets = [
            measured("clustered", clustered(arguments.users, arguments.items), folder),
            measured("uniform", uniform(arguments.users, arguments.uniform_items), folder),
        ]
    record = {
        "command": " ".join(["python", *sys.argv]),
        "commit": _output("git", "describe", "--always", "--dirty"),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "versions": {name: version(name) for name in ("torch", "numpy", "usearch")},
        "threads": arguments.threads,
        "seed": 0,
        "dim": DIM,
        "users": arguments.users,
        "k": K,
        "sets": sets,
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=2) + "\n")


def clustered(n_users: int, n_items: int) -> Vectors:
    """Around places, each with directions of its own."""
    generator = rng.stream(0, "benchmark clustered")
    places = unit(torch.as_tensor(generator.standard_normal((PLACES, DIM), np.float32)))
    axes = torch.as_tensor(generator.standard_normal((PLACES, DIRECTIONS, DIM), np.float32)) / (DIRECTIONS * DIM) ** 0.5

    def draw(n: int) -> torch.Tensor:
        rows = torch.empty(n, DIM)
        for first in range(0, n, CHUNK):
            m = min(CHUNK, n - first)
            at = torch.as_tensor(generator.integers(0, PLACES, m))
            along = torch.as_tensor(generator.standard_normal((m, 1, DIRECTIONS), np.float32))
            noise = torch.as_tensor(generator.standard_normal((m, DIM), np.float32)) / DIM**0.5
            rows[first : first + m] = unit(places[at] + (along @ axes[at])[:, 0] + 0.6 * noise)
        return rows

    return Vectors(draw(n_users), draw(n_items))


def uniform(n_users: int, n_items: int) -> Vectors:
    """Anywhere on the sphere."""
    generator = rng.stream(0, "benchmark uniform")
    users, items = (torch.as_tensor(generator.standard_normal((n, DIM), np.float32)) for n in (n_users, n_items))
    return Vectors(unit(users), unit(items))


def measured(name: str, vectors: Vectors, folder: Path) -> dict[str, object]:
    """Recall and speed of the index of these vectors, for each width of search."""
    path = folder / f"{name}-{len(vectors.item_table)}.usearch"
    if not path.exists():
        _build(path, vectors)
    exact, n_users = ExactRanker(vectors), len(vectors.user_table)
    true, exact_ms = _timed(exact, n_users)
    rows: list[dict[str, float]] = []
    for width in WIDTHS:
        ranker = UsearchRanker.load(path, vectors, width=width)
        found, _ = _timed(ranker, n_users)  # brings the file into memory
        index_ms = math.inf
        for _ in range(PASSES):
            index_ms = min(index_ms, _timed(ranker, n_users)[1])
            exact_ms = min(exact_ms, _timed(exact, n_users)[1])
        rows.append(
            {
                "width": width,
                "expansion_search": math.ceil(width * K),
                "recall_at_50": round(_recall(found, true), 4),
                "index_ms_per_user": round(index_ms, 3),
            }
        )
        print(name, rows[-1], f"exact: {exact_ms:.3f} ms", file=sys.stderr)
    for row in rows:
        row["times_faster"] = round(exact_ms / row["index_ms_per_user"], 1)
    config = {key: value for key, value in asdict(ranker.config).items() if key != "width"}
    return {
        "set": name,
        "items": len(vectors.item_table),
        **_shape(vectors, true),
        "index": config,
        "build": json.loads(path.with_suffix(".json").read_text()),
        "file_mb": round(path.stat().st_size / 1e6),
        "exact_ms_per_user": round(exact_ms, 3),
        "search": rows,
    }


def _build(path: Path, vectors: Vectors) -> None:
    begin = time.perf_counter()

    def tell(done: int, total: int) -> None:
        print(f"\r{path.stem}: {done:,} of {total:,}", end="", file=sys.stderr, flush=True)

    # The graph answers every query here, also where exact ranking would be faster.
    UsearchRanker.build(vectors, Hnsw(exact_beyond=1.0), progress=tell).save(path)
    print(file=sys.stderr)
    built = {"seconds": round(time.perf_counter() - begin), "threads": torch.get_num_threads(), "nice": os.nice(0)}
    path.with_suffix(".json").write_text(json.dumps(built))


def _timed(ranker: Ranker, n_users: int) -> tuple[NDArray[np.int64], float]:
    """The lists of all users, and milliseconds a user."""
    begin = time.perf_counter()
    items = ranker.top(np.arange(n_users), K).items
    return items, 1000 * (time.perf_counter() - begin) / n_users


def _recall(found: NDArray[np.int64], true: NDArray[np.int64]) -> float:
    return float(np.mean([len(set(a) & set(b)) / K for a, b in zip(found.tolist(), true.tolist(), strict=True)]))


def _shape(vectors: Vectors, true: NDArray[np.int64]) -> dict[str, float]:
    """How the items lie around users: cosines, and the maximum-likelihood estimate of the local dimension."""
    near = vectors.items(torch.as_tensor(true))  # (B, K, D)
    cosines = (near @ vectors.user_table[:, :, None])[..., 0].double()  # (B, K)
    distances = (2 - 2 * cosines).clamp_min(1e-12).sqrt()
    lid = -1 / (distances[:, :-1] / distances[:, -1:]).log().mean(1)  # (B,)
    return {
        "cosine_of_the_nearest": round(float(cosines[:, 0].mean()), 3),
        "cosine_of_the_50th": round(float(cosines[:, -1].mean()), 3),
        "lid": round(float(lid.median()), 1),
    }


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
