"""Timing of several workloads in turns, so that other load on the machine meets all of them alike."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch


class WorkDone(NamedTuple):
    """Amount of work that some calls did."""

    steps: int
    units: int
    "Units that speed is counted in: places for negatives, users, rows."


Workload = Callable[[int], WorkDone]
"""Function that makes the given number of calls; one call may be several steps."""


class Speed(NamedTuple):
    """Speed of one workload: medians over the chunks."""

    per_second: float
    "Units per second."
    ms_per_step: float
    fastest_ms_per_step: float
    "Time in the best chunk: other load on the machine can only add to it."
    steps: int
    "Steps measured in all chunks together."

    def to_dict(self, unit: str) -> dict[str, float]:
        """Return plain data for JSON."""
        return {
            f"{unit}_per_second": self.per_second,
            "ms_per_step": self.ms_per_step,
            "fastest_ms_per_step": self.fastest_ms_per_step,
            "steps_measured": self.steps,
        }


def time_in_turns(workloads: Sequence[Workload], chunks: int, seconds: float, device: torch.device) -> list[Speed]:
    """Time each workload for `chunks` chunks of about `seconds` seconds, at least one call each, in turns.

    Each workload must have been called before, so that first-use setup is not measured.
    """
    calls = [_count_calls(workload, seconds, device) for workload in workloads]
    measured: list[list[tuple[float, WorkDone]]] = [[] for _ in workloads]
    for _ in range(chunks):
        for workload, count, chunk_times in zip(workloads, calls, measured, strict=True):
            chunk_times.append(_time(workload, count, device))
    return [_summarise(chunk_times) for chunk_times in measured]


def _count_calls(workload: Workload, seconds: float, device: torch.device) -> int:
    """Return the number of calls that take about `seconds` seconds, found by trying."""
    count = 1
    while True:
        took, _ = _time(workload, count, device)
        if took >= seconds / 4:
            return max(round(count * seconds / took), 1)
        count *= 2


def _time(workload: Workload, count: int, device: torch.device) -> tuple[float, WorkDone]:
    synchronize(device)
    began = time.perf_counter()
    work = workload(count)
    synchronize(device)
    return time.perf_counter() - began, work


def _summarise(chunks: Sequence[tuple[float, WorkDone]]) -> Speed:
    ms = [1000 * took / work.steps for took, work in chunks]
    return Speed(
        per_second=statistics.median(work.units / took for took, work in chunks),
        ms_per_step=statistics.median(ms),
        fastest_ms_per_step=min(ms),
        steps=sum(work.steps for _, work in chunks),
    )


def synchronize(device: torch.device) -> None:
    """Wait until a GPU has finished its queue; return at once on a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
