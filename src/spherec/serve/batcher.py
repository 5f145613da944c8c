"""Rank concurrent requests together: one thread takes what waits, and reads the table of items once for all of it."""

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.errors import SpherecError
from spherec.recommender.trained_model import Query
from spherec.serve.metrics import Metrics
from spherec.serve.served_model import ServedModel

_BATCH = 64  # most lists ranked together


class BusyError(SpherecError, RuntimeError):
    """The queue is full, or the server is stopping."""


class Wanted(NamedTuple):
    """One list that is wanted, and the version of the model that answers."""

    served: ServedModel
    query: Query


class RankedList(NamedTuple):
    """The items (≤ k,) of a list, best first, and their scores: 1 − d²/2, and λ times the reach of an item."""

    items: NDArray[np.int64]
    scores: NDArray[np.float32]


def rank_together(wanted: Sequence[Wanted]) -> list[RankedList]:
    """Rank lists of any kind; each is the same, bit for bit, as if it had been the only one."""
    lists: dict[int, RankedList] = {}
    for served in {id(one.served): one.served for one in wanted}.values():
        places = [place for place, one in enumerate(wanted) if one.served is served]
        ranking = served.model.rank([wanted[place].query for place in places])
        ends = (ranking.items >= 0).sum(1).tolist()  # those listed come first
        for row, (place, end) in enumerate(zip(places, ends, strict=True)):
            lists[place] = RankedList(ranking.items[row, :end], ranking.scores[row, :end])
    return [lists[place] for place in range(len(wanted))]


@dataclass(eq=False)
class _Job:
    """The lists of one request, and where its answer is awaited."""

    wanted: Sequence[Wanted]
    future: "asyncio.Future[list[RankedList]]"


class Batcher:
    """A bounded queue of lists that are wanted, and the thread that ranks them.

    Args:
        threads: Threads that torch computes with.
        queue: Lists that may wait.
        metrics: Counts of what waits and of what is ranked together.
        batch: Most lists ranked together.
    """

    def __init__(self, threads: int, queue: int, metrics: Metrics, *, batch: int = _BATCH) -> None:
        self._threads, self._queue, self._metrics = threads, queue, metrics
        self._batch = batch
        self._jobs: deque[_Job] = deque()
        self._waiting = 0  # lists
        self._changed = threading.Condition()
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, name="ranking", daemon=True)

    def start(self) -> None:
        """Start the thread; answers go to the event loop that runs now."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of lists that wait."""
        return self._waiting

    def rank(self, wanted: Sequence[Wanted]) -> "asyncio.Future[list[RankedList]]":
        """Queue the lists of one request, and return where they will be; a `BusyError` if there is no room."""
        assert self._loop is not None
        future: asyncio.Future[list[RankedList]] = self._loop.create_future()
        with self._changed:
            if self._is_closed:
                raise BusyError("the server is stopping; ask again in a second")
            if self._waiting + len(wanted) > self._queue:
                raise BusyError(f"{self._waiting} lists are waiting, which is all there is room for; ask again later")
            self._jobs.append(_Job(wanted, future))
            self._waiting += len(wanted)
            self._metrics.waiting.set(self._waiting)
            self._changed.notify()
        return future

    def close(self) -> None:
        """Rank all that waits, take no more, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        torch.set_num_threads(self._threads)
        while jobs := self._take():
            self._metrics.batches.observe(sum(len(job.wanted) for job in jobs))
            self._answer(jobs)

    def _take(self) -> list[_Job]:
        """Return the jobs that wait, at most a batch; wait for the first one. None are left when it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._is_closed)
            jobs: list[_Job] = []
            size = 0
            while self._jobs and (not jobs or size + len(self._jobs[0].wanted) <= self._batch):
                jobs.append(self._jobs.popleft())
                size += len(jobs[-1].wanted)
            self._waiting -= size
            self._metrics.waiting.set(self._waiting)
            return jobs

    def _answer(self, jobs: Sequence[_Job]) -> None:
        assert self._loop is not None
        try:
            lists = iter(rank_together([one for job in jobs for one in job.wanted]))
        except Exception as error:
            if len(jobs) == 1:
                self._loop.call_soon_threadsafe(_deliver, jobs, error)
            else:  # the others must not suffer from one of them
                for job in jobs:
                    self._answer([job])
            return
        self._loop.call_soon_threadsafe(_deliver, jobs, [[next(lists) for _ in job.wanted] for job in jobs])


def _deliver(jobs: Sequence[_Job], parts: Sequence[list[RankedList]] | Exception) -> None:
    """Hand each job its lists, or the only one its error."""
    for place, job in enumerate(jobs):
        if job.future.done():  # its client may have gone
            continue
        if isinstance(parts, Exception):
            job.future.set_exception(parts)
        else:
            job.future.set_result(parts[place])
