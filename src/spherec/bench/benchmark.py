"""The whole benchmark: steps, lists, reading, loading, and what the machine can do."""

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import torch

from spherec import rng
from spherec.bench.lists import measure_lists
from spherec.bench.loading import measure_loading
from spherec.bench.machine import Machine, machine
from spherec.bench.reading import measure_reading
from spherec.bench.record import Record, StepResult
from spherec.bench.steps import SAMPLERS, measure_steps
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError
from spherec.experiments.environment import environment_of
from spherec.geometry import DenseVectors
from spherec.training import Training

Tell = Callable[[str], None]
"""Told what is about to be measured."""


@dataclass(frozen=True)
class Scope:
    """How much is measured."""

    quick: bool = False
    "Whether this is a look rather than a result."
    dim: int = 128
    negatives: tuple[int, ...] = (1, 5)
    batches: tuple[int, ...] = (256, 4096)
    chunks: int = 5
    "Of which medians are taken."
    seconds: float = 0.5
    "For each chunk, about; a single step may take longer."
    k: int = 50
    "Length of the lists."
    users: int = 1 << 62
    "For whom lists are made, at most."
    rows: int = 1_000_000
    "Of the table that is read."
    imports: int = 3
    "Processes for each import."

    def __post_init__(self) -> None:
        if not 0 < self.seconds < float("inf"):
            raise ArgumentError(f"seconds must be > 0, got {self.seconds}; 0.5 is usual")
        for name in ("chunks", "k", "users", "rows", "imports"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"{name} must be a whole number >= 1, got {getattr(self, name)}")


QUICK = Scope(quick=True, negatives=(5,), batches=(256,), chunks=3, seconds=0.1, users=256, rows=100_000, imports=1)
"""A look, within half a minute on two cores."""


def measure(
    data: Interactions,
    scope: Scope | None = None,
    *,
    device: torch.device,
    loaded_in: float | None = None,
    tell: Tell = lambda _: None,
) -> Record:
    """Everything that `scope` says, on `data`; `loaded_in` is how many seconds loading the data took."""
    if not len(data):
        raise DataError("there are no pairs to train on; give interactions with some")
    scope = scope or Scope()
    timing: dict[str, Any] = {"chunks": scope.chunks, "seconds": scope.seconds}
    tell("what the machine can do")
    can = machine(device)
    steps = _steps(data, scope, can, device, timing, tell)
    tell("lists")
    vectors = _initial(data, scope.dim, device)
    ranking = measure_lists(data, vectors, k=scope.k, users=scope.users, device=device, **timing)
    tell("reading")
    reading = measure_reading(rows=scope.rows, **timing)
    tell("loading")
    loading = measure_loading(times=scope.imports, data=loaded_in)
    return Record(
        environment=_environment(device),
        quick=scope.quick,
        data={"users": data.n_users, "items": data.n_items, "pairs": len(data)},
        machine=can,
        steps=tuple(steps),
        ranking=ranking,
        reading=reading,
        loading=loading,
    )


def _steps(
    data: Interactions, scope: Scope, can: Machine, device: torch.device, timing: dict[str, Any], tell: Tell
) -> list[StepResult]:
    initial = _initial(data, scope.dim, device)
    results = []
    for (name, sampler), negatives, batch in itertools.product(SAMPLERS.items(), scope.negatives, scope.batches):
        tell(f"steps: {name}, N = {negatives}, batch {batch}")
        config = Training(dim=scope.dim, sampler=sampler(negatives), batch_size=batch)
        results.append(measure_steps(data, name, config, initial, can, **timing))
    return results


def _initial(data: Interactions, dim: int, device: torch.device) -> DenseVectors:
    return DenseVectors.random(data.n_users, data.n_items, dim, rng.torch_stream(0, "initial vectors")).to(device)


def _environment(device: torch.device) -> dict[str, Any]:
    return {
        **environment_of(device),
        "device_type": device.type,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
