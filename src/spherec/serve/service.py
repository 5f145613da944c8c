"""The current model of the server: loaded, replaced when its file is replaced, and extended by new items."""

import asyncio
import logging
import os
import signal
import threading
from types import FrameType
from typing import Any

from spherec.artifact import Artifact
from spherec.data.event_store import EventStore
from spherec.data.ids import spell_like
from spherec.data.output_files import lock_output
from spherec.data.read.delimited import NULLS
from spherec.errors import ArgumentError, LockedOutputError, SpherecError, quote
from spherec.recommender import CML
from spherec.serve.batcher import Batcher, BusyError
from spherec.serve.event_log import EventLog
from spherec.serve.metrics import Metrics, forget_dead_workers
from spherec.serve.options import ServeOptions
from spherec.serve.schema import AddAnswer, AddBody
from spherec.serve.served_model import ServedModel, Stamp, stamp_files

_LOG = logging.getLogger("spherec.serve")
_LONGEST_TURN = 10.0  # seconds to wait for another process that replaces the model file


class Service:
    """Keeps the current model, and replaces it when its file is replaced.

    A request reads the current model once. So its answer comes from one version, whatever happens meanwhile.
    """

    def __init__(self, options: ServeOptions, served: ServedModel) -> None:
        self.options = options
        self.metrics = Metrics()
        threads = options.threads or max((os.cpu_count() or 1) // options.workers - 1, 1)
        self.batcher = Batcher(threads, options.queue, self.metrics)
        store = None if options.events is None else EventStore(options.events)
        self.events = None if store is None else EventLog(store, options.event_kinds, self.metrics)
        self.is_stopping = False
        self._stamp: Stamp = ()
        self._put(served)
        self._adding, self._loading = asyncio.Lock(), asyncio.Lock()
        self._watcher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to answer; at SIGTERM go on for a moment, and say that the end is near."""
        forget_dead_workers()
        if self.options.watch_seconds > 0:
            self._watcher = asyncio.create_task(self._watch())
        if threading.current_thread() is threading.main_thread():
            self._drain_at(signal.SIGTERM)

    async def stop(self) -> None:
        """Answer what waits, and end."""
        if self._watcher is not None:
            self._watcher.cancel()
        await asyncio.to_thread(self.batcher.close)
        if self.events is not None:
            await asyncio.to_thread(self.events.close)

    def check_ready(self) -> None:
        """Raise a `BusyError` if the server is stopping."""
        if self.is_stopping:
            raise BusyError("the server is stopping")

    async def pick_up(self) -> None:
        """Put a new version in place if the files were replaced.

        What is wrong with it goes to the log, once for each change of the files, and the old version stays.
        """
        async with self._loading:
            stamp = stamp_files(self.options)
            if stamp == self._stamp:
                return
            self._stamp = stamp
            try:
                served = await asyncio.to_thread(ServedModel.load, self.options)
            except Exception as error:  # the next file may be good
                self.metrics.failures.inc()
                cause = str(error) if isinstance(error, SpherecError) else f"{type(error).__name__}: {error}"
                _LOG.error("the new model cannot be used; the old one stays", extra={"fields": {"cause": cause}})
                return
            self.metrics.model.labels(self.served.checksum).set(0)
            self._put(served)
            self.metrics.swaps.inc()
            _LOG.info("new model in place", extra={"fields": {"model": served.checksum}})

    async def add(self, body: AddBody) -> AddAnswer:
        """Add items by their features, replace the model file, and answer from it."""
        try:
            async with self._adding:
                answer = await asyncio.to_thread(self._add, body)
        except LockedOutputError:
            raise BusyError("another process is replacing the model file; ask again in a second") from None
        await self.pick_up()
        return answer

    def _add(self, body: AddBody) -> AddAnswer:
        with lock_output(self.options.model, wait=_LONGEST_TURN):
            model = CML.load(self.options.model, device="cpu")  # another process may have added some
            fitted = model.artifact.features
            if fitted is None or any(source.item is None for source in fitted.sources):
                raise ArgumentError(
                    "the model was trained without features, or with a matrix of them, and cannot place new items "
                    "here; train it with a table of features, or use model.add_items"
                )
            ids = spell_like([item.id for item in body.items], model.data.item_ids.array)
            if missing := [one for one in ids if one in NULLS]:
                raise ArgumentError(f"{quote(missing[0])} is no id: in files it stands for a missing one; take another")
            rows = [item.features for item in body.items]
            columns = {name: [row.get(name) for row in rows] for name in fitted.sizes}  # what no row has is missing
            features = fitted.transform(*({**columns, str(source.item): ids} for source in fitted.sources))
            names = {one: item.name for one, item in zip(ids, body.items, strict=True) if item.name}
            model.add_items(features, names=names)
            model.save(self.options.model)
        checksum = str(Artifact.load(self.options.model, mmap=True).checksum)
        return {"model": checksum, "added": len(ids), "ignored": dict(features.left_out)}

    def _put(self, served: ServedModel) -> None:
        """Answer from a version from now on."""
        self.served, self._stamp = served, served.stamp
        self.metrics.model.labels(served.checksum).set(1)

    async def _watch(self) -> None:
        """Put a new model in place whenever the files change."""
        while True:
            await asyncio.sleep(self.options.watch_seconds)
            await self.pick_up()

    def _drain_at(self, number: signal.Signals) -> None:
        """Pass the signal on to uvicorn only after a while, in which connections are closed after their next answer."""
        stop: Any = signal.getsignal(number)

        def drain(received: int, frame: FrameType | None) -> None:
            seconds = 0.0 if self.is_stopping else self.options.drain_seconds
            self.is_stopping = True
            threading.Timer(seconds, stop, (received, frame)).start()

        signal.signal(number, drain)
