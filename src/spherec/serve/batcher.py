"""Rank concurrent requests together: one thread takes what waits, and reads the table of items once for all of it."""

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from threading import Lock
from typing import NamedTuple

import torch

from spherec.errors import SpherecError
from spherec.recommender.trained_model import Query
from spherec.serve.metrics import Metrics
from spherec.serve.served_model import RankedList, ServedModel

_BATCH = 64  # most lists ranked together


class BusyError(SpherecError, RuntimeError):
    """There is no room for a request now, or the server is stopping."""


class _Job(NamedTuple):
    """The lists that a request wants of one version of the model, and where it awaits them."""

    served: ServedModel
    queries: Sequence[Query]
    answer: "Future[list[RankedList]]"


class Batcher:
    """A bounded queue of lists that are wanted, and the thread that ranks them.

    Args:
        threads: Threads that torch computes with.
        queue: Lists that may wait.
        metrics: Counts of what waits and of what is ranked together.
        batch: Most lists ranked together.
    """

    def __init__(self, threads: int, queue: int, metrics: Metrics, *, batch: int = _BATCH) -> None:
        self._queue, self._metrics, self._batch = queue, metrics, batch
        self._jobs: deque[_Job] = deque()
        self._waiting = 0  # lists
        self._lock = Lock()  # of the two above
        self._thread = ThreadPoolExecutor(1, "ranking", torch.set_num_threads, (threads,))

    def rank(self, served: ServedModel, queries: Sequence[Query]) -> "asyncio.Future[list[RankedList]]":
        """Queue the lists of one request, and return where they will be; a `BusyError` if there is no room."""
        job = _Job(served, queries, Future())
        with self._lock:
            if self._waiting + len(queries) > self._queue:
                raise BusyError(f"{self._waiting} lists are waiting, which is all there is room for; ask again later")
            self._thread.submit(self._work)
            self._jobs.append(job)
            self._count(len(queries))
        return asyncio.wrap_future(job.answer)

    def close(self) -> None:
        """Rank all that waits, take no more, and end the thread."""
        self._thread.shutdown()

    def _work(self) -> None:
        """Rank what waits, at most a batch; nothing if earlier calls took all of it."""
        jobs: list[_Job] = []
        size = 0
        with self._lock:
            while self._jobs and (not jobs or size + len(self._jobs[0].queries) <= self._batch):
                jobs.append(self._jobs.popleft())
                size += len(jobs[-1].queries)
            self._count(-size)
        if jobs:
            self._metrics.batches.observe(size)
        jobs = [job for job in jobs if job.answer.set_running_or_notify_cancel()]  # the clients of others have gone
        for served in {id(job.served): job.served for job in jobs}.values():
            _answer(served, [job for job in jobs if job.served is served])

    def _count(self, lists: int) -> None:
        self._waiting += lists
        self._metrics.waiting.set(self._waiting)


def _answer(served: ServedModel, jobs: Sequence[_Job]) -> None:
    """Rank the lists of all jobs together; if that fails, the lists of each job alone."""
    try:
        lists = iter(served.rank([query for job in jobs for query in job.queries]))
    except Exception as error:
        if len(jobs) == 1:
            jobs[0].answer.set_exception(error)
        else:
            for job in jobs:
                _answer(served, [job])
        return
    for job in jobs:
        job.answer.set_result(list(islice(lists, len(job.queries))))
