"""The whole benchmark: training steps, lists, reading, loading, and the limits of the machine."""

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from spherec import rng
from spherec.bench.baseline import plain_top
from spherec.bench.machine import Machine, measure_machine
from spherec.bench.report import LoadingResult, RankingResult, ReadingResult, Report, SpeedPair, StepResult
from spherec.bench.steps import MEASURED_SAMPLERS, measure_steps
from spherec.bench.timing import WorkDone, Workload, time_in_turns
from spherec.data.interactions import Interactions
from spherec.data.read import read
from spherec.errors import ArgumentError, DataError, MissingPackageError
from spherec.geometry import DenseVectors
from spherec.lab.environment import environment_of
from spherec.ranking import ExactRanker
from spherec.training import Training

_BASELINE_USERS = 20  # ranked in one call of the baseline
_CSV_USERS, _CSV_ITEMS = 20_000, 50_000


@dataclass(frozen=True)
class BenchmarkPlan:
    """Settings and amount of what is measured."""

    quick: bool = False
    "True for a first impression, False for a result to record."
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

    def __post_init__(self) -> None:
        if not 0 < self.seconds < float("inf"):
            raise ArgumentError(f"seconds must be > 0, got {self.seconds}; 0.5 is usual")
        for name in ("chunks", "k", "users", "rows", "imports"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"{name} must be a whole number >= 1, got {getattr(self, name)}")


QUICK = BenchmarkPlan(
    quick=True, negatives=(5,), batches=(256,), chunks=3, seconds=0.1, users=256, rows=100_000, imports=1
)
"""A first impression, within half a minute on two cores."""


def measure(
    data: Interactions,
    plan: BenchmarkPlan | None = None,
    *,
    device: torch.device,
    loaded_in: float | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Measure everything in `plan` on `data`.

    `loaded_in` is the number of seconds that loading the data took. `on_progress` gets the name of each measurement
    before it begins.
    """
    if not len(data):
        raise DataError("there are no pairs to train on; give interactions with some")
    plan = plan or BenchmarkPlan()
    on_progress("limits of the machine")
    machine = measure_machine(device)
    initial = DenseVectors.random(data.n_users, data.n_items, plan.dim, rng.torch_stream(0, "initial vectors"))
    initial = initial.to(device)
    steps = _measure_all_steps(data, plan, initial, machine, on_progress)
    on_progress("lists")
    ranking = measure_lists(data, initial, plan)
    on_progress("reading")
    reading = measure_reading(plan)
    on_progress("loading")
    loading = measure_loading(times=plan.imports, data=loaded_in)
    return Report(
        environment=_describe_environment(device),
        quick=plan.quick,
        data={"users": data.n_users, "items": data.n_items, "pairs": len(data)},
        machine=machine,
        steps=tuple(steps),
        ranking=ranking,
        reading=reading,
        loading=loading,
    )


def _measure_all_steps(
    data: Interactions,
    plan: BenchmarkPlan,
    initial: DenseVectors,
    machine: Machine,
    on_progress: Callable[[str], None],
) -> list[StepResult]:
    results = []
    for (name, sampler), negatives, batch in itertools.product(MEASURED_SAMPLERS.items(), plan.negatives, plan.batches):
        on_progress(f"steps: {name}, N = {negatives}, batch {batch}")
        config = Training(dim=plan.dim, sampler=sampler(negatives), batch_size=batch)
        result = measure_steps(data, name, config, initial, machine, chunks=plan.chunks, seconds=plan.seconds)
        results.append(result)
    return results


def measure_lists(data: Interactions, vectors: DenseVectors, plan: BenchmarkPlan) -> RankingResult:
    """Time exact lists over all items: for many users at once in blocks, and in a loop over users."""
    k, ranker = min(plan.k, data.n_items), ExactRanker(vectors)
    everyone = np.arange(min(plan.users, data.n_users))
    some = everyone[:: max(len(everyone) // _BASELINE_USERS, 1)][:_BASELINE_USERS]

    def ours(calls: int) -> WorkDone:
        for _ in range(calls):
            ranker.top(everyone, k, without=data)
        return WorkDone(calls, calls * len(everyone))

    def plain(calls: int) -> WorkDone:
        for _ in range(calls):
            plain_top(vectors, some, k, data)
        return WorkDone(calls, calls * len(some))

    ranker.top(some, k, without=data)  # first-use setup
    plain(1)
    speeds = time_in_turns([ours, plain], plan.chunks, plan.seconds, vectors.device)
    return RankingResult(k, len(everyone), SpeedPair("users", *speeds))


def measure_reading(plan: BenchmarkPlan) -> ReadingResult | str:
    """Time reading a generated CSV, compared with pandas; return the reason if polars is missing."""
    try:
        return _time_reading(plan)
    except MissingPackageError as error:
        return str(error)


def _time_reading(plan: BenchmarkPlan) -> ReadingResult:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.csv"
        _write_csv(path, plan.rows)

        def ours(calls: int) -> WorkDone:
            for _ in range(calls):
                read(path, user="user", item="item", duplicates="sum")
            return WorkDone(calls, calls * plan.rows)

        plain = _pandas_reader(path, plan.rows)
        workloads = [ours] if isinstance(plain, str) else [ours, plain]
        for workload in workloads:
            workload(1)
        speeds = time_in_turns(workloads, plan.chunks, plan.seconds, torch.device("cpu"))
    pair = SpeedPair("rows", speeds[0], speeds[1] if len(speeds) > 1 else None)
    return ReadingResult(plan.rows, pair, plain if isinstance(plain, str) else None)


def _write_csv(path: Path, rows: int) -> None:
    """Write a table with the columns user and item, both skewed, in random order, with some repeated rows."""
    random = rng.stream(0, "events")
    users = (_CSV_USERS * random.random(rows) ** 1.5).astype(np.int64).tolist()
    items = (_CSV_ITEMS * random.random(rows) ** 2).astype(np.int64).tolist()
    lines = [f"reader-{user},{item:010d}" for user, item in zip(users, items, strict=True)]
    path.write_text("\n".join(["user,item", *lines, ""]))


def _pandas_reader(path: Path, rows: int) -> Workload | str:
    """Return the plain reader (read_csv, factorize, a sparse matrix), or the reason why there is none."""
    try:
        import pandas as pd  # type: ignore[import-untyped]
    except ImportError:
        return "the baseline needs pandas: pip install pandas"

    def plain(calls: int) -> WorkDone:
        for _ in range(calls):
            frame = pd.read_csv(path, dtype=str)
            (users, _), (items, _) = (pd.factorize(frame[name], sort=True) for name in ("user", "item"))
            matrix = sp.csr_array((np.ones(len(users), np.float32), (users, items)))
            matrix.sum_duplicates()
        return WorkDone(calls, calls * rows)

    return plain


def measure_loading(*, times: int, data: float | None) -> LoadingResult:
    """Time imports, `times` times each in a process of its own; `data` is the time that loading the data took."""
    return LoadingResult(
        python=_time_statement("pass", times),
        import_torch=_time_statement("import torch", times),
        import_spherec=_time_statement("import spherec", times),
        import_training=_time_statement("import spherec.training", times),
        data=data,
    )


def _time_statement(statement: str, times: int) -> float:
    """Return the median of the seconds that Python takes to start and execute the statement."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    took = []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], env=environment, check=True)
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def _describe_environment(device: torch.device) -> dict[str, Any]:
    return {
        **environment_of(device),
        "device_type": device.type,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
