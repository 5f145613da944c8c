"""What the machine itself can do: the floors that no program on it goes below."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from spherec import rng
from spherec.bench.interleaved import wait
from spherec.device import threads_for

_FLOATS = 1 << 26  # 256 MB: beyond every cache
_ROW = 128
_TIMES = 5
_LAUNCHES = 1000


@dataclass(frozen=True)
class Machine:
    """Measured on one thread of a CPU, as a small step runs; on the whole of a GPU."""

    copy_gb_per_second: float
    "A large array onto another; read and written bytes both count."
    gather_gb_per_second: float
    "Rows of 512 bytes at random places of a large table; read and written bytes both count."
    gflops: float
    "Products of float32 matrices (1024, 128) x (128, 4096), as a sampler multiplies; a product and a sum are two."
    launch_us: float | None
    "GPU only: from one tiny kernel to the next, when each is called."
    graph_launch_us: float | None
    "GPU only: the same within a CUDA graph."


def machine(device: torch.device) -> Machine:
    """Measured now; takes about a second."""
    generator = rng.torch_stream(0, "machine", device=device)
    with threads_for(1, device):
        source = torch.ones(_FLOATS // _ROW, _ROW, device=device)
        target = torch.ones_like(source)
        index = rng.permutation(len(source), generator)
        one = torch.empty(1024, _ROW, device=device).normal_(generator=generator)
        other = torch.empty(_ROW, 4096, device=device).normal_(generator=generator)
        out = torch.empty(1024, 4096, device=device)
        moved = 2 * 4 * _FLOATS / 1e9
        return Machine(
            copy_gb_per_second=moved / _best(lambda: target.copy_(source), device),
            gather_gb_per_second=moved / _best(lambda: torch.index_select(source, 0, index, out=target), device),
            gflops=2 * 1024 * 4096 * _ROW / 1e9 / _best(lambda: torch.mm(one, other, out=out), device),
            launch_us=_launches(device) if device.type == "cuda" else None,
            graph_launch_us=_graph_launches(device) if device.type == "cuda" else None,
        )


def _best(work: Callable[[], object], device: torch.device) -> float:
    """Seconds, the least of a few times: a floor is not to be raised by what else goes on."""
    took = []
    for _ in range(_TIMES + 1):  # the first one sets things up
        wait(device)
        began = time.perf_counter()
        work()
        wait(device)
        took.append(time.perf_counter() - began)
    return min(took[1:])


def _launches(device: torch.device) -> float:
    number = torch.zeros(1, device=device)

    def work() -> None:
        for _ in range(_LAUNCHES):
            number.add_(1)

    return _best(work, device) / _LAUNCHES * 1e6


def _graph_launches(device: torch.device) -> float:
    number = torch.zeros(1, device=device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_LAUNCHES):
            number.add_(1)
    return _best(graph.replay, device) / _LAUNCHES * 1e6
