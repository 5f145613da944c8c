"""Measure how time and memory of a step grow with the catalogue, the interactions, the dimensions and the batch.

    python benchmarks/growth.py [--device auto|cpu|cuda] [--most-items 10000000] [--most-pairs 10000000] [--dim D]
    python benchmarks/growth.py --redraw results/bench/growth-cpu.json

Interactions are generated. Each curve changes one size and keeps the others; all its points are measured in turns.
Steps are done as the trainer does them, sampling included. Writes results/bench/growth-DEVICE.json, and draws
growth-DEVICE.png from it if matplotlib is installed. Needs torch, NumPy, SciPy and numba; with 10^7 items about 8 GB
on a CPU (D = 32).
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from machine import Machine, measure_machine
from plain import step_floor
from steps import MEASURED_SAMPLERS, TrainerSteps, compile_steps, generate_interactions
from timing import time_in_turns

from spherec import rng
from spherec.data.interactions import Interactions
from spherec.device import measure_peak, resolve
from spherec.geometry import DenseVectors
from spherec.lab.records import environment_of
from spherec.training import Training

PAIRS_PER_USER = 50
CHUNKS = 5
CLAIM = 10**5, 10**7, 2.0  # a step with the second number of items takes at most twice as long as with the first


@dataclass(frozen=True)
class Size:
    """Sizes of what a step works on."""

    items: int = 10**5
    pairs: int = 10**6
    dim: int = 128
    batch: int = 256
    negatives: int = 5


@dataclass(frozen=True)
class Point:
    """One measurement."""

    curve: str
    sampler: str
    size: Size
    users: int
    pairs: int
    "Number of distinct pairs."
    ms_per_step: float
    fastest_ms_per_step: float
    triplets_per_second: float
    floor_ms: float
    peak_mb: float | None
    "Peak memory of tables, moments, sampler, pairs and a step, without the initial vectors."
    tables_mb: float
    "Memory of rows and moments alone."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--most-items", type=int, default=10**7, help="end of the items curve")
    parser.add_argument("--most-pairs", type=int, default=10**7, help="10^8 takes 16 GB and a minute more")
    parser.add_argument("--most-batch", type=int, default=65_536)
    parser.add_argument("--dim", type=int, help="D of the other curves; default: 32 on a CPU, 128 on a GPU")
    parser.add_argument("--seconds", type=float, default=0.2, help="length of each chunk that medians are taken over")
    parser.add_argument("--folder", type=Path, default=Path("results/bench"))
    parser.add_argument("--redraw", type=Path, help="only draw this record again")
    arguments = parser.parse_args()
    if arguments.redraw:
        draw(arguments.redraw)
        return
    device = resolve(arguments.device)
    environment = environment_of(device)
    base = Size(dim=arguments.dim or (128 if device.type == "cuda" else 32))
    machine = measure_machine(device)
    began = time.perf_counter()
    points = []
    for point in measure(curves(base, arguments), machine, device, arguments.seconds):
        points.append(point)
        label = f"{point.curve} {getattr(point.size, point.curve):,}, {point.sampler}: {point.ms_per_step:.3f} ms"
        memory = "" if point.peak_mb is None else f", {point.peak_mb:,.0f} MB"
        print(f"{time.perf_counter() - began:6.1f} s  {label}{memory}", file=sys.stderr, flush=True)
    record = {
        "benchmark": "growth",
        "command": " ".join(["python", *sys.argv]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": environment,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "seconds": round(time.perf_counter() - began, 1),
        "machine": asdict(machine),
        "claim": claim(points),
        "points": [asdict(point) for point in points],
    }
    name = "cpu" if device.type == "cpu" else environment["device"].split()[-1].lower()
    path = arguments.folder / f"growth-{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record["claim"], indent=2))
    draw(path)


def curves(base: Size, arguments: argparse.Namespace) -> dict[str, list[Size]]:
    """Return the sizes of each curve."""
    items = [replace(base, items=10**power, pairs=10**7) for power in range(4, 8)]
    pairs = [replace(base, pairs=10**power) for power in range(6, 9)]
    batch = [replace(base, batch=4**power) for power in range(3, 9)]
    return {
        "items": [size for size in items if size.items <= arguments.most_items],
        "pairs": [size for size in pairs if size.pairs <= arguments.most_pairs],
        "dim": [replace(base, dim=2**power) for power in range(5, 10)],
        "batch": [size for size in batch if size.batch <= arguments.most_batch],
    }


def measure(curves: dict[str, list[Size]], machine: Machine, device: torch.device, seconds: float) -> Iterator[Point]:
    """Measure every size with every sampler."""
    for make in MEASURED_SAMPLERS.values():
        compile_steps(Training(dim=32, sampler=make(5)), device)
    for curve, sizes in curves.items():
        generated: dict[tuple[int, int], Interactions] = {}  # several sizes may share one
        for size in sizes:
            key = size.items, size.pairs
            generated[key] = generated.get(key) or generate_interactions(size.pairs // PAIRS_PER_USER, *key)
        data = [generated[size.items, size.pairs] for size in sizes]
        for sampler in MEASURED_SAMPLERS:
            yield from _measure_sizes(curve, sampler, sizes, data, machine, device, seconds)


def _measure_sizes(
    curve: str,
    sampler: str,
    sizes: Sequence[Size],
    data: Sequence[Interactions],
    machine: Machine,
    device: torch.device,
    seconds: float,
) -> list[Point]:
    contenders = [_set_up(each, size, sampler, device) for each, size in zip(data, sizes, strict=True)]
    speeds = time_in_turns([steps for steps, _ in contenders], CHUNKS, seconds, device)
    return [
        Point(
            curve=curve,
            sampler=sampler,
            size=size,
            users=each.n_users,
            pairs=len(each),
            ms_per_step=speed.ms_per_step,
            fastest_ms_per_step=speed.fastest_ms_per_step,
            triplets_per_second=speed.per_second,
            floor_ms=step_floor(_config(size, sampler)).ms_on(machine),
            peak_mb=peak_mb,
            tables_mb=3 * 4 * (each.n_users + each.n_items) * size.dim / 1e6,
        )
        for size, each, (_, peak_mb), speed in zip(sizes, data, contenders, speeds, strict=True)
    ]


def _set_up(data: Interactions, size: Size, sampler: str, device: torch.device) -> tuple[TrainerSteps, float | None]:
    """Return steps that are ready to run, and their peak memory in megabytes."""
    generator = rng.torch_stream(0, "initial vectors", device=device)
    initial = DenseVectors.random(data.n_users, data.n_items, size.dim, generator)
    with measure_peak(device) as peak:
        steps = TrainerSteps(data, _config(size, sampler), initial)
        steps.set_up()
    return steps, peak.mb


def _config(size: Size, sampler: str) -> Training:
    return Training(dim=size.dim, sampler=MEASURED_SAMPLERS[sampler](size.negatives), batch_size=size.batch)


def claim(points: Sequence[Point]) -> dict[str, dict[str, Any]]:
    """Return for each sampler the time of a step with many items divided by that with few, in the best chunks."""
    few, many, bound = CLAIM
    claims = {}
    for sampler in MEASURED_SAMPLERS:
        ms = {
            point.size.items: point.fastest_ms_per_step
            for point in points
            if point.curve == "items" and point.sampler == sampler
        }
        if few in ms and many in ms:
            ratio = ms[many] / ms[few]
            claims[sampler] = {
                f"ms_at_{few}_items": ms[few],
                f"ms_at_{many}_items": ms[many],
                "ratio": ratio,
                "at_most": bound,
                "holds": ratio <= bound,
            }
    return claims


def draw(path: Path) -> None:
    """Draw the record into a picture of the same name: time above, memory below, a column for each curve."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import LogLocator
    except ImportError:
        print("no picture: matplotlib is not installed; --redraw makes it later", file=sys.stderr)
        return
    record = json.loads(path.read_text())
    names = {"items": "items", "pairs": "interactions", "dim": "dimensions", "batch": "batch"}
    figure = Figure(figsize=(15, 7))
    rows = figure.subplots(2, len(names), sharey="row")
    for (curve, label), above, below in zip(names.items(), *rows, strict=True):
        for sampler in MEASURED_SAMPLERS:
            points = [point for point in record["points"] if (point["curve"], point["sampler"]) == (curve, sampler)]
            x = [point["size"][curve] for point in points]
            above.plot(x, [point["fastest_ms_per_step"] for point in points], marker="o", label=sampler)
            below.plot(x, [point["peak_mb"] or float("nan") for point in points], marker="o", label=sampler)
        below.plot(x, [point["tables_mb"] for point in points], ":k", label="tables and moments")
        for axes in (above, below):
            axes.set(xscale="log", yscale="log", xlabel=label)
            axes.set_xticks(x, [f"{value:g}" for value in x], fontsize=8)
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.minorticks_off()
            axes.grid(alpha=0.3)
    rows[0][0].set_ylabel("ms per step, best chunk")
    rows[1][0].set_ylabel("peak memory, MB")
    rows[0][0].legend()
    rows[1][0].legend()
    size = Size(**record["points"][0]["size"])
    figure.suptitle(f"{record['environment']['device']}: D = {size.dim}, batch {size.batch}, N = {size.negatives}")
    figure.tight_layout()
    figure.savefig(path.with_suffix(".png"), dpi=100)


if __name__ == "__main__":
    main()
