"""Events of visitors: stored together, and counted for the next list of their user and for the click-through."""

import asyncio
import mmap
import os
import time
from collections.abc import Collection, Hashable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from spherec.data.event_store import Event, EventStore
from spherec.data.read.delimited import NULLS
from spherec.errors import DataError, quote
from spherec.serve.batcher import BusyError
from spherec.serve.metrics import SHARED_FOLDER, Metrics

_PLACES = 1 << 20  # items that were shown last
_MOST_WAITING = 10_000  # events


class EventLog:
    """Stores events, those of all requests that wait in one transaction, and finds those of users.

    Args:
        store: Where events are kept.
        kinds: Kinds that count for lists; None for all.
        metrics: Counts of lists, and of events on items that were shown.
    """

    def __init__(self, store: EventStore, kinds: Collection[str] | None, metrics: Metrics) -> None:
        self._store, self._kinds, self._metrics = store, kinds, metrics
        self._waiting: list[tuple[Sequence[Event], Future[None]]] = []
        self._lock = Lock()  # of what waits
        self._writer, self._reader = ThreadPoolExecutor(1, "events"), ThreadPoolExecutor(1, "events")
        self._shown = _open_shown()

    async def add(self, events: Sequence[Event]) -> None:
        """Store events of one request. They are safe when this returns."""
        stored: Future[None] = Future()
        with self._lock:
            if sum(len(others) for others, _ in self._waiting) > _MOST_WAITING:
                raise BusyError("too many events are waiting to be stored; send them again later")
            self._waiting.append((events, stored))
        self._writer.submit(self._write)
        await asyncio.wrap_future(stored)
        places = {place for one in events for place in _find_places(one.user, [one.item])}
        clicks = [slot for slot, mark in places if self._shown[slot] == mark]
        self._shown[clicks] = 0  # a second event on the item is not counted
        self._metrics.events.inc(len(events))
        self._metrics.clicks.inc(len(clicks))

    async def find(self, users: Iterable[Hashable], since: float) -> dict[str, list[str]]:
        """Return the items of users, by events that count and that a model saved at a time cannot know."""
        wanted = [text for text in map(str, users) if _is_storable(text)]
        if not wanted:
            return {}
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._reader, self._store.find, wanted, since)
        except DataError as error:
            raise BusyError(str(error)) from None
        return {
            user: [one.item for one in events if self._kinds is None or one.kind in self._kinds]
            for user, events in found.items()
        }

    def note_list(self, user: Hashable, items: Iterable[Hashable]) -> None:
        """Remember that a user was shown these items."""
        self._metrics.lists.inc()
        for slot, mark in _find_places(str(user), map(str, items)):
            self._shown[slot] = mark

    def close(self) -> None:
        """Store what waits, and end the threads."""
        self._writer.shutdown()
        self._reader.shutdown()
        self._store.close()

    def _write(self) -> None:
        with self._lock:
            taken, self._waiting = self._waiting, []
        if not taken:
            return  # an earlier call took all
        answers = [stored for _, stored in taken if stored.set_running_or_notify_cancel()]
        try:
            self._store.add([event for events, _ in taken for event in events])
        except Exception as error:
            busy = BusyError(str(error)) if isinstance(error, DataError) else error
            for stored in answers:
                stored.set_exception(busy)
        else:
            for stored in answers:
                stored.set_result(None)


def make_event(user: Hashable, item: Hashable, kind: str | None, moment: float | None) -> Event:
    """Return an event, now unless a time is given; a `DataError` for texts that databases refuse."""
    texts = str(user), str(item), kind or ""
    if strange := [text for text in texts if not _is_storable(text)]:
        raise DataError(f"{quote(strange[0])} cannot be stored: databases have no NUL and no half characters")
    if missing := [text for text in texts[:2] if text in NULLS]:
        raise DataError(f"{quote(missing[0])} is no id: in files it stands for a missing one; leave the event out")
    return Event(*texts[:2], kind, time.time() if moment is None else moment)


def _is_storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _find_places(user: str, items: Iterable[str]) -> Iterable[tuple[int, int]]:
    """Return for each item a place among those shown last, and the mark that stands there."""
    for item in items:
        digest = blake2b(f"{user}\0{item}".encode("utf-8", "surrogatepass"), digest_size=12).digest()
        yield int.from_bytes(digest[:4]) % _PLACES, int.from_bytes(digest[4:]) | 1


def _open_shown() -> NDArray[np.uint64]:
    """Return marks (P,) of the items that were shown last, which all workers share."""
    if SHARED_FOLDER not in os.environ:
        return np.zeros(_PLACES, dtype=np.uint64)
    with Path(os.environ[SHARED_FOLDER], "shown").open("a+b") as file:
        file.truncate(8 * _PLACES)
        return np.frombuffer(mmap.mmap(file.fileno(), 8 * _PLACES), dtype=np.uint64)
