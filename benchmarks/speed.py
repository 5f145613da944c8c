"""Measure training steps, exact lists, reading, imports, and the limits of the machine.

    python benchmarks/speed.py [--data book-crossing|FILE] [--device auto|cpu|cuda] [--quick] [-o RECORD.json]

Steps, lists and reading run in turns with a plain implementation in torch, NumPy and pandas (`plain.py`). Takes a few
minutes on two cores, half a minute with --quick; nothing else should be running.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import scipy.sparse as sp
import torch
from machine import measure_machine
from plain import plain_top
from steps import MEASURED_SAMPLERS, measure_steps
from timing import Speed, WorkDone, time_in_turns

import spherec
from spherec import datasets, rng
from spherec.data.interactions import Interactions
from spherec.device import resolve
from spherec.geometry import DenseVectors
from spherec.lab.records import environment_of
from spherec.ranking import ExactRanker
from spherec.training import Training

_BASELINE_USERS = 20  # ranked in one call of the baseline
_CSV_USERS, _CSV_ITEMS = 20_000, 50_000
_IMPORTS = {
    "python": "pass",
    "import_torch": "import torch",
    "import_spherec": "import spherec",
    "import_training": "import spherec.training",  # brings torch and numba
}


@dataclass(frozen=True)
class Plan:
    """Amount of what is measured."""

    quick: bool = False
    dim: int = 128
    negatives: tuple[int, ...] = (1, 5)
    batches: tuple[int, ...] = (256, 4096)
    chunks: int = 5
    "Chunks that medians are taken over."
    seconds: float = 0.5
    "Approximate length of a chunk; a single step may take longer."
    k: int = 50
    "Length of the lists."
    users: int = 1 << 62
    "Upper limit on the users that lists are made for."
    rows: int = 1_000_000
    "Rows of the CSV that is read."
    imports: int = 3
    "Processes for each import."


QUICK = Plan(quick=True, negatives=(5,), batches=(256,), chunks=3, seconds=0.1, users=256, rows=100_000, imports=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=datasets.BOOK_CROSSING.name)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    began = time.perf_counter()
    embedded = options.data == datasets.BOOK_CROSSING.name
    data = datasets.book_crossing() if embedded else Interactions.load(options.data)
    loaded_in = time.perf_counter() - began
    record = measure(data, QUICK if options.quick else Plan(), resolve(options.device), loaded_in)
    print_record(record)
    if options.output:
        options.output.write_text(json.dumps(record, indent=2) + "\n")


def measure(data: Interactions, plan: Plan, device: torch.device, loaded_in: float) -> dict[str, Any]:
    """Return the record of everything in `plan`; loading the data took `loaded_in` seconds."""
    print("limits of the machine", file=sys.stderr)
    machine = measure_machine(device)
    initial = DenseVectors.random(data.n_users, data.n_items, plan.dim, rng.torch_stream(0, "initial vectors"))
    initial = initial.to(device)
    steps = []
    for (name, sampler), negatives, batch in itertools.product(MEASURED_SAMPLERS.items(), plan.negatives, plan.batches):
        print(f"steps: {name}, N = {negatives}, batch {batch}", file=sys.stderr)
        config = Training(dim=plan.dim, sampler=sampler(negatives), batch_size=batch)
        steps.append(measure_steps(data, name, config, initial, machine, chunks=plan.chunks, seconds=plan.seconds))
    print("lists, reading, imports", file=sys.stderr)
    environment = environment_of(device) | {
        "device_type": device.type,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return {
        "environment": environment,
        "quick": plan.quick,
        "data": {"users": data.n_users, "items": data.n_items, "pairs": len(data)},
        "machine": asdict(machine),
        "steps": steps,
        "ranking": measure_lists(data, initial, plan),
        "reading": measure_reading(plan),
        "loading": {name: time_statement(code, plan.imports) for name, code in _IMPORTS.items()} | {"data": loaded_in},
    }


def measure_lists(data: Interactions, vectors: DenseVectors, plan: Plan) -> dict[str, Any]:
    """Time exact lists over all items: for many users at once in blocks, and in a loop over users."""
    k, ranker = min(plan.k, data.n_items), ExactRanker(vectors)
    everyone = np.arange(min(plan.users, data.n_users))
    some = everyone[:: max(len(everyone) // _BASELINE_USERS, 1)][:_BASELINE_USERS]
    ours = _repeat(lambda: ranker.top(everyone, k, without=data), len(everyone))
    plain = _repeat(lambda: plain_top(vectors, some, k, data), len(some))
    for workload in (ours, plain):
        workload(1)  # first-use setup
    speeds = time_in_turns([ours, plain], plan.chunks, plan.seconds, vectors.device)
    return {"k": k, "users": len(everyone), **compare_speeds("users", *speeds)}


def measure_reading(plan: Plan) -> dict[str, Any]:
    """Time reading a generated CSV: by spherec, and by read_csv, factorize and a sparse matrix."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.csv"
        _write_csv(path, plan.rows)

        def read_plainly() -> None:
            frame = pd.read_csv(path, dtype=str)
            (users, _), (items, _) = (pd.factorize(frame[name], sort=True) for name in ("user", "item"))
            matrix = sp.csr_array((np.ones(len(users), np.float32), (users, items)))
            matrix.sum_duplicates()

        ours = _repeat(lambda: spherec.read(path, user="user", item="item", duplicates="sum"), plan.rows)
        plain = _repeat(read_plainly, plan.rows)
        for workload in (ours, plain):
            workload(1)
        speeds = time_in_turns([ours, plain], plan.chunks, plan.seconds, torch.device("cpu"))
    return {"rows": plan.rows, **compare_speeds("rows", *speeds)}


def compare_speeds(unit: str, ours: Speed, plain: Speed) -> dict[str, Any]:
    """Return the speeds in units per second and their ratio."""
    return {
        "spherec": ours.to_dict(unit),
        "baseline": plain.to_dict(unit),
        "ratio": ours.per_second / plain.per_second,
    }


def time_statement(statement: str, times: int) -> float:
    """Return the median of the seconds that Python takes to start and execute the statement."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    took = []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], env=environment, check=True)
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def _repeat(work: Callable[[], object], units: int) -> Callable[[int], WorkDone]:
    """Return a workload that does the work, of so many units, in each call."""

    def workload(calls: int) -> WorkDone:
        for _ in range(calls):
            work()
        return WorkDone(calls, calls * units)

    return workload


def _write_csv(path: Path, rows: int) -> None:
    """Write a table with the columns user and item, both skewed, in random order, with some repeated rows."""
    random = rng.stream(0, "events")
    users = (_CSV_USERS * random.random(rows) ** 1.5).astype(np.int64).tolist()
    items = (_CSV_ITEMS * random.random(rows) ** 2).astype(np.int64).tolist()
    lines = [f"reader-{user},{item:010d}" for user, item in zip(users, items, strict=True)]
    path.write_text("\n".join(["user,item", *lines, ""]))


def print_record(record: dict[str, Any]) -> None:
    """Print the record as tables."""
    print(f"{'sampler-N-batch':<20}{'k/s':>8}{'plain':>8}{'times':>7}{'ms':>9}{'plain':>8}{'floor':>8}{'MB':>7}")
    for step in record["steps"]:
        ours, plain = step["spherec"], step["baseline"]
        peak = "" if ours["peak_mb"] is None else f"{ours['peak_mb']:,.0f}"
        print(
            f"{step['sampler']}-{step['negatives']}-{step['batch']}".ljust(20)
            + f"{ours['triplets_per_second'] / 1e3:>8,.0f}{plain['triplets_per_second'] / 1e3:>8,.1f}"
            + f"{step['ratio']:>7,.1f}{ours['ms_per_step']:>9,.3f}{plain['ms_per_step']:>8,.1f}"
            + f"{step['floor_ms']:>8,.3f}{peak:>7}"
        )
    print("k/s: thousand triplets a second; ms: of a step; plain: the obvious way; floor: what a step must move")
    for name, unit in (("ranking", "users"), ("reading", "rows")):
        ours, plain = (record[name][who][f"{unit}_per_second"] for who in ("spherec", "baseline"))
        print(f"{name}: {ours:,.0f} {unit}/s, plain {plain:,.0f}, {record[name]['ratio']:,.1f} times")
    print("seconds: " + ", ".join(f"{name} {took:.2f}" for name, took in record["loading"].items()))
    print(
        "machine: " + ", ".join(f"{name} {rate:,.1f}" for name, rate in record["machine"].items() if rate is not None)
    )


if __name__ == "__main__":
    main()
