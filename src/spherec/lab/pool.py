"""Several runs at once on a GPU that one alone cannot fill, and the progress that observers are sent."""

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch

from spherec.device import stream_of_thread
from spherec.errors import ArgumentError

_WORKERS_ON_GPU = 8
_Outcome = TypeVar("_Outcome")


@dataclass(frozen=True)
class Stage:
    """Progress of a run."""

    model: str
    fold: int
    doing: str
    "choosing (settings and epochs), training, testing, or done"
    epoch: int = 0
    epochs: int = 0


Watch = Callable[[Stage], None]
"""Called with each new stage of a run."""


def workers_for(wanted: int | None, device: torch.device) -> int:
    """Return the number of runs at once: by default 8 on a GPU, else 1."""
    if wanted is not None and wanted < 1:
        raise ArgumentError(f"workers must be a whole number >= 1, got {wanted}")
    return wanted or (_WORKERS_ON_GPU if device.type == "cuda" else 1)


def run_all(
    tasks: Sequence[Callable[[], _Outcome]],
    workers: int,
    device: torch.device,
    *,
    longest_first: Callable[[int], float] = lambda _: 0,
) -> list[_Outcome]:
    """Run tasks and return their outcomes in order; `longest_first` estimates the length of each by its position.

    After Ctrl-C or a failed run, runs in progress are finished and no other begins.
    """

    def do(task: Callable[[], _Outcome]) -> _Outcome:
        # Runs on a GPU do not wait for each other: each has a stream of its own.
        stream = torch.cuda.stream(stream_of_thread("run")) if device.type == "cuda" else contextlib.nullcontext()
        with stream:
            return task()

    if workers == 1:
        return [do(task) for task in tasks]
    with ThreadPoolExecutor(workers) as pool:
        # The longest begin first, so that none of them is left for the end.
        order = sorted(range(len(tasks)), key=lambda at: -longest_first(at))
        begun = {at: pool.submit(do, tasks[at]) for at in order}
        try:
            return [begun[at].result() for at in range(len(tasks))]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
