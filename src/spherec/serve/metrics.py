"""Counts of the server for Prometheus; every process has a file of its own, and any of them reports the sum of all."""

import os
import resource
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROUTES = (
    "recommend",
    "recommend_user",
    "similar",
    "explain",
    "score",
    "search",
    "item",
    "add_items",
    "user",
    "model",
    "map",
    "page",
    "other",
)
"""Routes that are counted apart."""

_STATUSES = (200, 202, 304, 400, 401, 403, 404, 405, 408, 413, 422, 500, 503)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)  # bounds of the histogram
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)  # lists ranked together


class Metrics:
    """Counters and histograms as one array of numbers, in memory or in a file that other processes read.

    Args:
        folder: Folder that the processes share; None keeps the numbers in memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        shape = _Slots.size()
        if folder is None:
            self._numbers: NDArray[np.float64] = np.zeros(shape)
        else:
            self._numbers = np.memmap(folder / f"{os.getpid()}.metrics", np.float64, "w+", shape=(shape,))

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request, its status and its time."""
        place = ROUTES.index(route) if route in ROUTES else len(ROUTES) - 1
        known = status if status in _STATUSES else 500 if status >= 500 else 400
        self._numbers[_Slots.requests + place * len(_STATUSES) + _STATUSES.index(known)] += 1
        self._count_value(_Slots.times + place * (len(_SECONDS) + 2), _SECONDS, seconds)

    def count_batch(self, size: int) -> None:
        """Count lists that were ranked together."""
        self._count_value(_Slots.batches, _SIZES, size)

    def count_swap(self, *, failed: bool = False) -> None:
        """Count a new model in place, or one that could not be loaded."""
        self._numbers[_Slots.swaps + failed] += 1

    def set_waiting(self, waiting: int) -> None:
        """Note how many lists wait."""
        self._numbers[_Slots.waiting] = waiting
        self._numbers[_Slots.memory] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def render(self, checksum: str | None) -> str:
        """Return the sums over all processes in the text format of Prometheus."""
        return "".join(f"{line}\n" for line in _write_lines(self._sum(), checksum))

    def _sum(self) -> NDArray[np.float64]:
        if self._folder is None:
            return self._numbers
        total = np.zeros(_Slots.size())
        for path in sorted(self._folder.glob("*.metrics")):
            with suppress(OSError, ValueError):
                numbers = np.array(np.memmap(path, np.float64, "r", shape=(_Slots.size(),)))
                if not _is_alive(int(path.stem)):
                    numbers[_Slots.waiting :] = 0  # it neither waits nor takes memory any more
                total += numbers
        return total

    def _count_value(self, begin: int, bounds: tuple[float, ...], value: float) -> None:
        self._numbers[begin + bisect_left(bounds, value)] += 1  # the first bound that is not smaller
        self._numbers[begin + len(bounds) + 1] += value


class _Slots:
    """Places of the numbers in the array. A histogram has a count for each bound, one beyond them, and the sum."""

    requests = 0
    times = requests + len(ROUTES) * len(_STATUSES)
    batches = times + len(ROUTES) * (len(_SECONDS) + 2)
    swaps = batches + len(_SIZES) + 2
    waiting = swaps + 2
    memory = waiting + 1

    @classmethod
    def size(cls) -> int:
        return cls.memory + 1


def _write_lines(numbers: NDArray[np.float64], checksum: str | None) -> Iterator[str]:
    yield "# HELP spherec_requests_total Requests by route and status."
    yield "# TYPE spherec_requests_total counter"
    for place, route in enumerate(ROUTES):
        for column, status in enumerate(_STATUSES):
            count = numbers[_Slots.requests + place * len(_STATUSES) + column]
            if count:
                yield f'spherec_requests_total{{route="{route}",status="{status}"}} {count:.0f}'
    yield "# HELP spherec_request_seconds Time from the first byte of a request to the last of its answer."
    yield "# TYPE spherec_request_seconds histogram"
    for place, route in enumerate(ROUTES):
        begin = _Slots.times + place * (len(_SECONDS) + 2)
        if numbers[begin : begin + len(_SECONDS) + 1].any():
            yield from _write_histogram("spherec_request_seconds", f'route="{route}",', numbers, begin, _SECONDS)
    yield "# HELP spherec_batch_lists Lists that were ranked together."
    yield "# TYPE spherec_batch_lists histogram"
    yield from _write_histogram("spherec_batch_lists", "", numbers, _Slots.batches, _SIZES)
    for name, description, kind, value in (
        ("spherec_model_swaps_total", "New models put in place.", "counter", numbers[_Slots.swaps]),
        ("spherec_model_failures_total", "New models that could not be loaded.", "counter", numbers[_Slots.swaps + 1]),
        ("spherec_waiting_lists", "Lists that wait to be ranked.", "gauge", numbers[_Slots.waiting]),
        ("spherec_memory_bytes", "Largest resident memory of all processes.", "gauge", numbers[_Slots.memory]),
    ):
        yield f"# HELP {name} {description}"
        yield f"# TYPE {name} {kind}"
        yield f"{name} {value:.0f}"
    if checksum is not None:
        yield "# HELP spherec_model_info The model in use."
        yield "# TYPE spherec_model_info gauge"
        yield f'spherec_model_info{{checksum="{checksum}"}} 1'


def _write_histogram(
    name: str, labels: str, numbers: NDArray[np.float64], begin: int, bounds: tuple[float, ...]
) -> Iterator[str]:
    counts = np.cumsum(numbers[begin : begin + len(bounds) + 1])
    for bound, count in zip((*bounds, "+Inf"), counts, strict=True):
        yield f'{name}_bucket{{{labels}le="{bound}"}} {count:.0f}'
    suffix = f"{{{labels.rstrip(',')}}}" if labels else ""
    yield f"{name}_sum{suffix} {numbers[begin + len(bounds) + 1]:.6f}"
    yield f"{name}_count{suffix} {counts[-1]:.0f}"


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True
