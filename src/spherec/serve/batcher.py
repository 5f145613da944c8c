"""Rank concurrent requests together: one thread takes what waits, and reads the table of items once for all of it."""

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.errors import SpherecError
from spherec.ranking import Ranking
from spherec.ranking.ranker import Indices
from spherec.recommender.state import Query
from spherec.serve.metrics import Metrics
from spherec.serve.served_model import ServedModel

_BATCH = 64  # most lists ranked together
_WINDOW = 0.002  # seconds to wait for the next request, where many come


class BusyError(SpherecError, RuntimeError):
    """The queue is full, or the server is stopping."""


@dataclass(frozen=True, eq=False)
class Wanted:
    """One list that is wanted."""

    served: ServedModel
    "The version of the model that answers."
    query: Query
    "Around whom or what the list is; its length includes `offset`."
    offset: int = 0
    "Items to skip at its top."
    reasons: int = 0
    "Number of the user's own items that are listed as reasons for each item."
    own: Indices | None = None
    "(n,) the items that the user has, among which reasons are."


@dataclass(frozen=True)
class RankedList:
    """The answer to a query."""

    items: NDArray[np.int64]
    "(≤ k,) item indices, best first."
    scores: NDArray[np.float32]
    "(≤ k,) 1 − d²/2, and λ times the reach of an item."
    reasons: "list[RankedList] | None" = None
    "Nearest items that the user has, for each listed item; None unless they were asked for."


def rank_together(wanted: Sequence[Wanted]) -> list[RankedList]:
    """Rank lists of any kind; each is the same, bit for bit, as if it had been the only one."""
    lists: dict[int, RankedList] = {}
    for served in {id(one.served): one.served for one in wanted}.values():
        places = [place for place, one in enumerate(wanted) if one.served is served]
        ranking = served.model.rank([wanted[place].query for place in places])
        lists |= {place: _cut(ranking, row, wanted[place].offset) for row, place in enumerate(places)}
        asked = [place for place in places if wanted[place].reasons and wanted[place].own is not None]
        reasons = iter(_find_reasons(served, [(wanted[place], lists[place].items) for place in asked]))
        for place in asked:
            found = lists[place]
            lists[place] = RankedList(found.items, found.scores, [next(reasons) for _ in found.items])
    return [lists[place] for place in range(len(wanted))]


def _find_reasons(served: ServedModel, lists: Sequence[tuple[Wanted, NDArray[np.int64]]]) -> list[RankedList]:
    """Return, for each item of each list, the nearest of the user's own; an item is no reason for itself."""
    queries = [Query(item=item, only=one.own, k=one.reasons) for one, items in lists for item in items.tolist()]
    ranking = served.model.rank(queries)
    return [_cut(ranking, row, 0) for row in range(len(queries))]


def _cut(ranking: Ranking, row: int, offset: int) -> RankedList:
    """Return a list of a ranking, from a place on."""
    end = int((ranking.items[row] >= 0).sum())  # those listed come first
    return RankedList(ranking.items[row, offset:end], ranking.scores[row, offset:end])


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
        window: Seconds to wait for the next list, where many come.
    """

    def __init__(
        self, threads: int, queue: int, metrics: Metrics, *, batch: int = _BATCH, window: float = _WINDOW
    ) -> None:
        self._threads, self._queue, self._metrics = threads, queue, metrics
        self._batch, self._window = batch, window
        self._jobs: deque[_Job] = deque()
        self._waiting = 0  # lists
        self._wanted = 1  # lists for which the thread is woken
        self._windows = 0  # that have begun
        self._ended = 0  # number of the window that ended last
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
            if self._waiting >= self._wanted:
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
        before = 1
        while jobs := self._take(before):
            before = sum(len(job.wanted) for job in jobs)
            self._metrics.batches.observe(before)
            self._answer(jobs)

    def _take(self, before: int) -> list[_Job]:
        """Return the jobs that wait, at most a batch.

        Clients whose lists were ranked `before` ask again. So while more lists come, it waits for half of all,
        which are ranked while the others are answered over HTTP.
        """
        with self._changed:
            while not self._jobs and not self._is_closed:
                self._changed.wait()
            self._wanted = min((self._waiting + before) // 2, self._batch)
            seen = 0
            while seen < self._waiting < self._wanted and not self._is_closed:
                seen = self._waiting
                self._wait_for_more()
            self._wanted = 1
            jobs: list[_Job] = []
            size = 0
            while self._jobs and (not jobs or size + len(self._jobs[0].wanted) <= self._batch):
                jobs.append(self._jobs.popleft())
                size += len(jobs[-1].wanted)
            self._waiting -= size
            self._metrics.waiting.set(self._waiting)
            return jobs

    def _wait_for_more(self) -> None:
        """Wait until as many lists are there as are wanted, or until a window has ended.

        The window begins when the event loop has done all that it has to do at this moment: no request can come before.
        """
        assert self._loop is not None
        self._windows += 1
        number = self._windows
        self._loop.call_soon_threadsafe(self._loop.call_later, self._window, self._end_window, number)
        self._changed.wait_for(lambda: self._ended == number or self._waiting >= self._wanted or self._is_closed)

    def _end_window(self, number: int) -> None:
        with self._changed:
            self._ended = number
            self._changed.notify()

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
