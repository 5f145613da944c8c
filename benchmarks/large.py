"""Measure training on large data: steps per second, memory, time of an epoch, and what a step spends its time on.

    python benchmarks/large.py [--device auto|cpu|cuda] [--users 1000000] [--items 1000000] [--pairs 100000000]
        [--cases two-stage,accurate] [--dim D] [--seconds 5] [-o FILE]

Interactions are generated with a planted taste: users and items belong to groups, four fifths of a user's items are of
their own group, and within a group a few items are popular. A part of an epoch is trained, as the trainer does it.
Needs torch, NumPy, SciPy and numba.
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from steps import TrainerSteps
from timing import synchronize, time_in_turns
from torch.profiler import ProfilerActivity, profile

from spherec import rng
from spherec.data.ids import IdMap
from spherec.data.interactions import Interactions
from spherec.device import measure_peak, resolve
from spherec.geometry import DenseVectors
from spherec.lab.records import environment_of
from spherec.training.config import PRESETS

GROUPS = 1000
OWN_GROUP = 0.8  # share of a user's items that are of their group
MORE = 1.25  # draws for each pair
CHUNKS = 3

# Parts of the names of kernels, in the order in which they are looked for.
KERNELS = {
    "drawing": ("_take", "_mark", "_collect", "_mask", "_without", "searchsorted", "distribution", "_pick", "bitwise"),
    "gathering and moving rows": ("_read", "_move", "_place", "_unit", "Sort", "sort", "Cat"),
    "multiplying": ("gemm", "nvjet", "splitK", "cutlass"),
    "the loss around the products": ("_prepare", "_share", "_finish", "_pair"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--users", type=int, default=10**6)
    parser.add_argument("--items", type=int, default=10**6)
    parser.add_argument("--pairs", type=int, default=10**8)
    parser.add_argument("--cases", default="two-stage,accurate", help="comma-separated presets")
    parser.add_argument("--dim", type=int, help="D instead of that of the preset; `accurate` keeps its four subspaces")
    parser.add_argument("--seconds", type=float, default=5.0, help="of steps that are timed, for each case")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    device = resolve(arguments.device)
    began = time.perf_counter()
    data = generate(arguments.users, arguments.items, arguments.pairs, device)
    generated = time.perf_counter() - began
    print(f"{len(data):,} pairs generated in {generated:.1f} s", file=sys.stderr, flush=True)
    results = []
    for name in arguments.cases.split(","):
        results.append(measure(data, name, arguments.dim, device, arguments.seconds))
        print(json.dumps(results[-1], indent=1), flush=True)
    if arguments.output:
        record = {
            "benchmark": "large",
            "command": " ".join(["python", *sys.argv]),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "environment": environment_of(device),
            "data": {"users": data.n_users, "items": data.n_items, "pairs": len(data), "seconds": round(generated, 1)},
            "cases": results,
        }
        arguments.output.write_text(json.dumps(record, indent=1) + "\n")


def generate(users: int, items: int, pairs: int, device: torch.device) -> Interactions:
    """Generate about so many interactions on the device; pairs that are drawn again are left out.

    The density of a user's activity falls as rank^(−1/3), that of an item's popularity in its group as rank^(−1/2).
    """
    random = rng.torch_stream(0, "generated", device=device)
    count = round(pairs * MORE)

    def draw(power: float, below: int) -> torch.Tensor:
        numbers = torch.empty(count, device=device).uniform_(generator=random).pow_(power)
        return numbers.mul_(below).long().clamp_max_(below - 1)  # (count,)

    keys = draw(1.5, users)  # (count,) the users
    group = torch.where(draw(1.0, 1000) < 1000 * OWN_GROUP, keys % GROUPS, draw(1.0, GROUPS))
    item = draw(2.0, -(-items // GROUPS)).mul_(GROUPS).add_(group).clamp_max_(items - 1)
    del group
    keys.mul_(items).add_(item)
    del item
    keys = keys.sort().values  # by user, then item
    keys = keys[torch.cat((keys.new_ones(1) > 0, keys[1:] != keys[:-1]))]
    is_kept = torch.empty(len(keys), device=device).uniform_(generator=random) * len(keys) < pairs
    keys = keys[is_kept]  # (E,)
    user = torch.div(keys, items, rounding_mode="floor")
    starts = torch.searchsorted(user, torch.arange(users + 1, device=device))  # (U + 1,)
    return Interactions(
        indptr=starts.cpu().numpy(),
        indices=keys.remainder_(items).int().cpu().numpy(),
        user_ids=IdMap(np.arange(users)),
        item_ids=IdMap(np.arange(items)),
    )


def measure(data: Interactions, name: str, dim: int | None, device: torch.device, seconds: float) -> dict[str, Any]:
    """Return the speed, memory and shares of one preset."""
    config = PRESETS[name].training
    if dim is not None:
        config = replace(config, dim=dim, subspace_dim=dim // 4 if config.subspace_dim else None)
    config = config.resolve(data)
    began = time.perf_counter()
    generator = rng.torch_stream(0, "initial vectors", device=device)
    initial = DenseVectors.random(data.n_users, data.n_items, config.dim, generator)
    with measure_peak(device) as peak:
        steps = TrainerSteps(data, config, initial)
        steps.set_up()
        synchronize(device)
    ready = time.perf_counter() - began
    (speed,) = time_in_turns([steps], CHUNKS, seconds / CHUNKS, device)
    shares = share_kernels(steps) if device.type == "cuda" else share_calls(steps, max(speed.steps // 3, 1))
    return {
        "preset": name,
        "dim": config.dim,
        "batch": config.batch_size,
        "negatives": config.sampler.negatives,
        "shared": config.sampler.shared,
        "seconds_until_ready": round(ready, 1),
        "us_per_step": round(1000 * speed.ms_per_step, 1),
        "steps_per_second": round(1000 / speed.ms_per_step, 1),
        "steps_measured": speed.steps,
        "minutes_per_epoch": round(len(data) / config.batch_size * speed.ms_per_step / 60_000, 3),
        "peak_gb": None if peak.mb is None else round(peak.mb / 1000, 2),
        "shares": shares,
    }


def share_kernels(steps: TrainerSteps) -> dict[str, float]:
    """Return the shares of the time that a GPU spends in kernels; some of them run at once."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        steps(8)
        torch.cuda.synchronize()
    took: dict[str, float] = defaultdict(float)
    for event in profiled.key_averages():
        kinds = (kind for kind, names in KERNELS.items() if any(part in event.key for part in names))
        took[next(kinds, "other")] += event.self_device_time_total
    return _divide(took)


def share_calls(steps: TrainerSteps, calls: int) -> dict[str, float]:
    """Return the shares of the time that a CPU spends in the parts of a step."""
    took: dict[str, float] = defaultdict(float)
    run: Any = steps._run

    def time_calls(owner: Any, method: str, kind: str) -> None:
        function: Callable[..., Any] = getattr(owner, method)

        def timed(*given: Any, **named: Any) -> Any:
            began, inside = time.perf_counter(), sum(took.values())
            result = function(*given, **named)
            took[kind] += time.perf_counter() - began - (sum(took.values()) - inside)  # without the timed calls in it
            return result

        setattr(owner, method, timed)

    time_calls(run, "draw", "drawing")
    time_calls(run, "_gradient", "multiplying and the loss")
    for method in ("rows", "step"):
        time_calls(run.embedding, method, "gathering and moving rows")
    began = time.perf_counter()
    steps(calls)
    took["other"] = time.perf_counter() - began - sum(took.values())
    return _divide(took)


def _divide(took: dict[str, float]) -> dict[str, float]:
    return {kind: round(each / sum(took.values()), 3) for kind, each in sorted(took.items())}


if __name__ == "__main__":
    main()
