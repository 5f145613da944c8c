"""Compute checksums of trained vectors for every preset and for one config of every path through a training step.

    python scripts/digests.py -o results/digests/cpu.json             write the checksums
    python scripts/digests.py --compare results/digests/cpu.json      train again and list the differences

The same code, seed, device and library versions give the same bits. Run this before and after a change that should
change no result. On a CPU use one thread: OMP_NUM_THREADS=1.
"""

import argparse
import json
import platform
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

import spherec
from spherec.device import DeviceName
from spherec.lab.environment import environment_of

# Every preset; those that have reach without it, as they were when the first digests were made.
PRESETS: dict[str, dict[str, Any]] = {
    "two-stage": {},
    "two-stage-as-released": {},
    "two-stage-as-written": {},
    "uniform": {},
    "popularity": {},
    "accurate": {"reach": False, "loss": spherec.Softmin(0.09, gamma=0.85)},
    "balanced": {"reach": False, "loss": spherec.Softmin(0.09, gamma=0.3)},
    "niche": {"reach": False, "loss": spherec.Softmin(0.09, gamma=-0.6)},
}
SEEDS = (0, 1)

POOL = spherec.Popularity(negatives=64, beta=0.5, shared=True)
VARIANTS: dict[str, dict[str, Any]] = {
    "hinge, uniform": {"sampler": spherec.Uniform(negatives=3)},
    "hinge, rank weight, popularity": {"loss": spherec.Hinge(rank_weight=True), "sampler": spherec.Popularity(2)},
    "hinge, hard": {"sampler": spherec.Hard()},
    "hinge, semi-hard": {"sampler": spherec.SemiHard(negatives=2)},
    "hinge, two-stage, few candidates": {"sampler": spherec.TwoStage(candidates=50)},
    "hinge, two-stage, replacement": {"sampler": spherec.TwoStage(candidates=50, replacement=True)},
    "hinge, two-stage, sharp": {"sampler": spherec.TwoStage(candidates=50, sharpness=1.0)},
    "hinge, two-stage, frozen": {"sampler": spherec.TwoStage(candidates=50, vectors="frozen")},
    "ball, uniform": {"constraint": "ball", "sampler": spherec.Uniform(negatives=3)},
    "ball, two-stage": {"constraint": "ball", "sampler": spherec.TwoStage(candidates=50)},
    "ball, softmin, shared pool": {"constraint": "ball", "loss": spherec.Softmin(0.1), "sampler": POOL},
    "softmin, popularity": {"loss": spherec.Softmin(0.1), "sampler": spherec.Popularity(negatives=8)},
    "softmin, shared pool": {"loss": spherec.Softmin(0.1, gamma=0.5), "sampler": POOL},
    "softmin, shared uniform pool": {"loss": spherec.Softmin(0.1), "sampler": spherec.Uniform(64, shared=True)},
    "softmin, shared pool, balance": {"loss": spherec.Softmin(0.1), "sampler": POOL, "balance": 0.5},
    "hinge, shared pool": {"sampler": spherec.Uniform(negatives=16, shared=True)},
    "hinge, balance": {"sampler": spherec.Uniform(negatives=3), "balance": 0.5},
    "penalties": {"covariance": 1.0, "spread_out": 1.0, "sampler": spherec.Uniform(negatives=3)},
    "subspaces, hinge": {"subspace_dim": 8, "sampler": spherec.TwoStage(candidates=50)},
    "subspaces, frozen": {"subspace_dim": 8, "sampler": spherec.TwoStage(candidates=50, vectors="frozen")},
    "subspaces, softmin": {"subspace_dim": 8, "loss": spherec.Softmin(0.1), "sampler": POOL},
    "reach, subspaces": {"subspace_dim": 8, "reach": True, "loss": spherec.Softmin(0.1), "sampler": POOL},
    "reach, hinge": {"reach": True, "sampler": spherec.Uniform(negatives=3)},
    "subspaces, ball": {"subspace_dim": 8, "constraint": "ball", "sampler": spherec.Uniform(negatives=3)},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("-o", "--output", type=Path, help="write the digests to this file")
    parser.add_argument("--compare", type=Path, help="a file of digests; exit with 1 where one differs")
    parser.add_argument("--quick", action="store_true", help="leave out the presets on Book-Crossing")
    arguments = parser.parse_args()
    digests = run(arguments.device, quick=arguments.quick)
    if arguments.output:
        described = {
            "command": f"python scripts/digests.py --device {arguments.device}",
            "environment": {**environment_of(torch.device(arguments.device)), "machine": platform.processor()},
            "digests": digests,
        }
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(described, indent=1) + "\n")
    if arguments.compare:
        before = json.loads(arguments.compare.read_text())["digests"]
        known = {name: digest for name, digest in digests.items() if name in before}
        differs = [name for name, digest in known.items() if before[name] != digest]
        print(f"{len(known) - len(differs)} of {len(known)} equal; differing: {', '.join(differs) or 'none'}")
        print(f"not in the file: {', '.join(digests.keys() - known.keys()) or 'none'}")
        sys.exit(bool(differs))


def run(device: DeviceName, *, quick: bool) -> dict[str, str]:
    """Train everything and return the checksum of each model's vectors, by name."""
    small, whole = planted(), spherec.datasets.book_crossing()
    digests = {}
    for seed in SEEDS:
        for name, settings in VARIANTS.items():
            model = spherec.CML(dim=16, batch_size=128, epochs=6, seed=seed, device=device, **settings)
            digests[f"{name}; seed {seed}"] = digest(model.fit(small, validation=0.2, progress=False))
        for preset, changes in PRESETS.items():
            model = spherec.CML(preset=preset, epochs=3, seed=seed, device=device, **changes)
            digests[f"preset {preset}, planted; seed {seed}"] = digest(model.fit(small, progress=False))
            if quick:
                continue
            began = time.perf_counter()
            model = spherec.CML(preset=preset, epochs=1, seed=seed, device=device, **changes)
            digests[f"preset {preset}, Book-Crossing; seed {seed}"] = digest(model.fit(whole, progress=False))
            print(f"{preset}, seed {seed}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
    return digests


def planted() -> spherec.Interactions:
    """300 users, 400 items in 8 groups; a user has items of one group, and a few others."""
    users, items = np.meshgrid(np.arange(300), np.arange(400), indexing="ij")
    noise = (users * 7919 + items * 104729) % 1000  # a fixed pattern, no generator needed
    has = np.where(users % 8 == items % 8, noise < 300, noise < 8)
    return spherec.Interactions.from_pairs(users[has].tolist(), items[has].tolist())


def digest(model: spherec.CML) -> str:
    """Checksum of both tables, of reach if there is any, and of the validation curve."""
    tables = [model.vectors.user_table, model.vectors.item_table]
    if model.vectors.item_reach is not None:
        tables.append(model.vectors.item_reach)
    curve = json.dumps([(record.epoch, record.loss, record.metric) for record in model.history.epochs])
    value = zlib.crc32(curve.encode())
    for table in tables:
        value = zlib.crc32(np.ascontiguousarray(table.cpu().numpy()).tobytes(), value)
    return f"{value:08x}"


if __name__ == "__main__":
    main()
