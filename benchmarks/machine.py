"""Limits of the machine: rates of copying and multiplying that no program on it exceeds."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from timing import synchronize

from spherec import rng
from spherec.device import threads_for

_FLOATS = 1 << 26  # 256 MB, larger than every cache
_ROW = 128
_TIMES = 5
_LAUNCHES = 1000


@dataclass(frozen=True)
class Machine:
    """Measured rates: on one thread of a CPU, as a small step runs, or on a whole GPU."""

    copy_gb_per_second: float
    "Copying a large array; bytes read and bytes written both count."
    gather_gb_per_second: float
    "Gathering rows of 512 bytes at random places of a large table; bytes read and bytes written both count."
    gflops: float
    "Multiplying float32 matrices (1024, 128) x (128, 4096), as a sampler does; a product and a sum are two operations."
    launch_us: float | None
    "GPU only: time from one tiny kernel to the next, each called by itself."
    graph_launch_us: float | None
    "GPU only: the same time within a CUDA graph."


def measure_machine(device: torch.device) -> Machine:
    """Measure the machine; takes about a second."""
    generator = rng.torch_stream(0, "machine", device=device)
    with threads_for(1, device):
        source = torch.ones(_FLOATS // _ROW, _ROW, device=device)
        target = torch.ones_like(source)
        index = rng.permutation(len(source), generator)
        left = torch.empty(1024, _ROW, device=device).normal_(generator=generator)
        right = torch.empty(_ROW, 4096, device=device).normal_(generator=generator)
        out = torch.empty(1024, 4096, device=device)
        moved = 2 * 4 * _FLOATS / 1e9
        return Machine(
            copy_gb_per_second=moved / _time_best(lambda: target.copy_(source), device),
            gather_gb_per_second=moved / _time_best(lambda: torch.index_select(source, 0, index, out=target), device),
            gflops=2 * 1024 * 4096 * _ROW / 1e9 / _time_best(lambda: torch.mm(left, right, out=out), device),
            launch_us=_time_launches(device) if device.type == "cuda" else None,
            graph_launch_us=_time_graph_launches(device) if device.type == "cuda" else None,
        )


def _time_best(work: Callable[[], object], device: torch.device) -> float:
    """Return the seconds of the fastest of a few runs: other load must not lower the limit."""
    took = []
    for _ in range(_TIMES + 1):  # the first run includes setup
        synchronize(device)
        began = time.perf_counter()
        work()
        synchronize(device)
        took.append(time.perf_counter() - began)
    return min(took[1:])


def _time_launches(device: torch.device) -> float:
    number = torch.zeros(1, device=device)

    def work() -> None:
        for _ in range(_LAUNCHES):
            number.add_(1)

    return _time_best(work, device) / _LAUNCHES * 1e6


def _time_graph_launches(device: torch.device) -> float:
    number = torch.zeros(1, device=device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_LAUNCHES):
            number.add_(1)
    return _time_best(graph.replay, device) / _LAUNCHES * 1e6
