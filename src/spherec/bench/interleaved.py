"""Timing several contenders in turns, so that what else the machine does meets all of them alike."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch


class Done(NamedTuple):
    """What was done."""

    steps: int
    units: int
    "Of what speed counts: places for negatives, users, rows."


Work = Callable[[int], Done]
"""Makes so many calls; one call may be several steps."""


class Speed(NamedTuple):
    """Medians over the chunks."""

    per_second: float
    "Units."
    ms_per_step: float
    fastest_ms_per_step: float
    "In the best chunk: what else the machine does can only add."
    steps: int
    "Measured in all."


def interleaved(contenders: Sequence[Work], chunks: int, seconds: float, device: torch.device) -> list[Speed]:
    """The speed of each: `chunks` chunks of about so many seconds, one call at least, in turns.

    Each must have been called before: what is set up at first use is not measured here.
    """
    calls = [_calls_lasting(work, seconds, device) for work in contenders]
    measured: list[list[tuple[float, Done]]] = [[] for _ in contenders]
    for _ in range(chunks):
        for work, count, into in zip(contenders, calls, measured, strict=True):
            into.append(_timed(work, count, device))
    return [_speed(one) for one in measured]


def _calls_lasting(work: Work, seconds: float, device: torch.device) -> int:
    """How many calls last so long; found by making some."""
    count = 1
    while True:
        took, _ = _timed(work, count, device)
        if took >= seconds / 4:
            return max(round(count * seconds / took), 1)
        count *= 2


def _timed(work: Work, count: int, device: torch.device) -> tuple[float, Done]:
    wait(device)
    began = time.perf_counter()
    done = work(count)
    wait(device)
    return time.perf_counter() - began, done


def _speed(chunks: Sequence[tuple[float, Done]]) -> Speed:
    ms = [1000 * took / done.steps for took, done in chunks]
    return Speed(
        per_second=statistics.median(done.units / took for took, done in chunks),
        ms_per_step=statistics.median(ms),
        fastest_ms_per_step=min(ms),
        steps=sum(done.steps for _, done in chunks),
    )


def wait(device: torch.device) -> None:
    """Until a GPU has done what it was told; a CPU has."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
