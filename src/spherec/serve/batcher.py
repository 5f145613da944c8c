"""Rank concurrent requests together: one thread takes what waits, and reads the table of items once for all of it."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.errors import SpherecError
from spherec.ranking import ExactRanker, Ranking
from spherec.ranking.ranker import LeftOut, to_nearness
from spherec.serve.served_model import ServedModel

_NOTHING = np.zeros(0, dtype=np.int64)


class BusyError(SpherecError, RuntimeError):
    """The queue is full, or the server is stopping."""


@dataclass(frozen=True, eq=False)
class Query:
    """One list that is wanted: a place in the space, and which items may be listed around it."""

    served: ServedModel
    "The version of the model that answers."
    vector: NDArray[np.float32] | None
    "(D,) the place; None for a new user, who is placed by `own`."
    k: int
    "Length of the list."
    offset: int = 0
    "Items to skip at its top."
    own: NDArray[np.int64] = field(default_factory=lambda: _NOTHING)
    "(n,) items that the user has, ascending: reasons, and the place of a new user."
    left_out: NDArray[np.int64] = field(default_factory=lambda: _NOTHING)
    "(r,) items that are not listed, no item twice."
    only: NDArray[np.int64] | None = None
    "(o,) the only items that may be listed, ascending; None for all."
    mainstream: float | None = None
    "λ; None for that of the model."
    reasons: int = 0
    "Number of the user's own items that are listed as reasons for each item."


@dataclass(frozen=True)
class RankedList:
    """The answer to a query."""

    items: NDArray[np.int64]
    "(≤ k,) item indices, best first."
    scores: NDArray[np.float32]
    "(≤ k,) 1 − d²/2, and λ times the reach of an item."
    reasons: Ranking | None = None
    "Nearest items that the user has, for each listed item; None unless they were asked for."


def rank_together(queries: Sequence[Query]) -> list[RankedList]:
    """Rank queries of any kind; each list is the same, bit for bit, as if its query had been the only one."""
    lists: list[RankedList | None] = [None] * len(queries)
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, query in enumerate(queries):
        groups.setdefault(_group_of(query), []).append(place)
    for places in groups.values():
        ranked = _rank_group([queries[place] for place in places])
        for place, one in zip(places, ranked, strict=True):
            lists[place] = one
    return [one for one in lists if one is not None]


def _group_of(query: Query) -> tuple[object, ...]:
    """Return what queries must have in common to be ranked by one call."""
    only = None if query.only is None else query.only.tobytes()
    is_exact = isinstance(query.served.model.ranker, ExactRanker)
    return id(query.served), only, None if is_exact else query.k + query.offset  # an index looks further for more


def _rank_group(queries: Sequence[Query]) -> list[RankedList]:
    served = queries[0].served
    vectors = served.model.vectors
    places = np.stack([served.model.place(one.own) if one.vector is None else one.vector for one in queries])  # (B, D)
    counts = np.array([len(one.left_out) for one in queries], dtype=np.int64)
    left_out = LeftOut(counts, np.concatenate([_NOTHING, *(one.left_out for one in queries)]))
    default = vectors.mainstream
    dial = np.array([default if one.mainstream is None else one.mainstream for one in queries], dtype=np.float32)
    longest = min(max(one.k + one.offset for one in queries), vectors.n_items)
    ranking = served.model.ranker.top_of(places, longest, without=left_out, only=queries[0].only, mainstream=dial)
    scores = to_nearness(ranking.scores, places, vectors.constraint)  # (B, K)
    lists = []
    for row, query in enumerate(queries):
        wanted = slice(query.offset, query.offset + query.k)
        items = ranking.items[row, wanted]
        items = items[items >= 0]  # those listed come first
        reasons = _find_reasons(served, query, items) if query.reasons else None
        lists.append(RankedList(items, scores[row, wanted][: len(items)], reasons))
    return lists


def _find_reasons(served: ServedModel, query: Query, items: NDArray[np.int64]) -> Ranking:
    """Return, for each listed item (n,), the nearest of the user's own; an item is no reason for itself."""
    vectors = served.model.vectors.items(torch.from_numpy(items)).numpy()  # (n, D)
    k = max(min(query.reasons, len(query.own)), 1)
    ranking = served.exact.top_of(vectors, k, without=list(items[:, None]), only=query.own, mainstream=0.0)
    return Ranking(ranking.items, to_nearness(ranking.scores, vectors, served.model.vectors.constraint))


@dataclass(eq=False)
class _Job:
    """The queries of one request, and where their answer is awaited."""

    queries: Sequence[Query]
    future: "asyncio.Future[list[RankedList]]"


class Batcher:
    """A bounded queue of queries, and the thread that ranks them.

    Args:
        threads: Threads that torch computes with.
        batch: Most lists ranked together.
        window: Seconds to wait for the next list, where many come.
        queue: Lists that may wait.
    """

    def __init__(self, threads: int, *, batch: int = 64, window: float = 0.002, queue: int = 512) -> None:
        self._threads = threads
        self._batch, self._window, self._queue = batch, window, queue
        self._jobs: deque[_Job] = deque()
        self._waiting = 0  # lists in `_jobs`
        self._wanted = 1  # lists that must wait before ranking begins
        self._windows = self._ended = 0  # numbers of the window that was begun last, and of the one that ended last
        self._changed = threading.Condition()
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, name="ranking", daemon=True)
        self._count_batch: Callable[[int], None] = lambda _: None

    def start(self, count_batch: Callable[[int], None]) -> None:
        """Start the thread; answers go to the event loop that runs now. `count_batch` is called with each size."""
        self._loop = asyncio.get_running_loop()
        self._count_batch = count_batch
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of lists that wait."""
        return self._waiting

    def rank(self, queries: Sequence[Query]) -> "asyncio.Future[list[RankedList]]":
        """Queue the queries of one request, and return where their lists will be; a `BusyError` if there is no room."""
        assert self._loop is not None
        future: asyncio.Future[list[RankedList]] = self._loop.create_future()
        with self._changed:
            if self._is_closed:
                raise BusyError("the server is stopping; ask again in a second")
            if self._waiting + len(queries) > self._queue:
                raise BusyError(f"{self._waiting} lists are waiting, which is all there is room for; ask again later")
            self._jobs.append(_Job(queries, future))
            self._waiting += len(queries)
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
            before = sum(len(job.queries) for job in jobs)
            self._count_batch(before)
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
            while self._jobs and (not jobs or size + len(self._jobs[0].queries) <= self._batch):
                jobs.append(self._jobs.popleft())
                size += len(jobs[-1].queries)
            self._waiting -= size
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
            lists = rank_together([query for job in jobs for query in job.queries])
        except Exception as error:
            if len(jobs) == 1:
                self._loop.call_soon_threadsafe(_fail, jobs[0].future, error)
            else:  # the others must not suffer from one of them
                for job in jobs:
                    self._answer([job])
            return
        ends = np.cumsum([len(job.queries) for job in jobs]).tolist()
        parts = [lists[end - len(job.queries) : end] for job, end in zip(jobs, ends, strict=True)]
        self._loop.call_soon_threadsafe(_deliver, jobs, parts)


def _deliver(jobs: Sequence[_Job], parts: Sequence[list[RankedList]]) -> None:
    for job, lists in zip(jobs, parts, strict=True):
        if not job.future.done():  # its client may have gone
            job.future.set_result(lists)


def _fail(future: "asyncio.Future[list[RankedList]]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
