"""Several runs at once, on a GPU that one alone cannot fill."""

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from spherec.device import stream_of_thread
from spherec.errors import ArgumentError

_WORKERS_ON_GPU = 8
_Result = TypeVar("_Result")


def workers_for(wanted: int | None, device: torch.device) -> int:
    """How many runs at once; if nothing is said, 8 on a GPU, else 1."""
    if wanted is not None and wanted < 1:
        raise ArgumentError(f"workers must be a whole number >= 1, got {wanted}")
    return wanted or (_WORKERS_ON_GPU if device.type == "cuda" else 1)


def run_all(
    tasks: Sequence[Callable[[], _Result]],
    workers: int,
    device: torch.device,
    *,
    longest_first: Callable[[int], float] = lambda _: 0,
) -> list[_Result]:
    """What the tasks give, in their order; `longest_first` says how long each one (by its position) is.

    After Ctrl-C or a failed run those that have begun end, and no other begins.
    """

    def do(task: Callable[[], _Result]) -> _Result:
        # Runs on a GPU do not wait for each other: each has a stream of its own.
        stream = torch.cuda.stream(stream_of_thread("run")) if device.type == "cuda" else contextlib.nullcontext()
        with stream:
            return task()

    if workers == 1:
        return [do(task) for task in tasks]
    with ThreadPoolExecutor(workers) as pool:
        # The longest begin first, lest the last to begin be one of them.
        order = sorted(range(len(tasks)), key=lambda at: -longest_first(at))
        begun = {at: pool.submit(do, tasks[at]) for at in order}
        try:
            return [begun[at].result() for at in range(len(tasks))]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
