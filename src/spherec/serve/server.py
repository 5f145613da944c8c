"""Run the server: uvicorn with one process or several, and structured logs."""

import asyncio
import ipaddress
import json
import logging
import os
import resource
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from spherec.artifact import Artifact
from spherec.data.event_store import EventStore
from spherec.errors import ArgumentError, SpherecError
from spherec.serve.app import create_app
from spherec.serve.metrics import SHARED_FOLDER
from spherec.serve.options import ServeOptions
from spherec.serve.served_model import ServedModel

_MOST_FILES = 1 << 16  # open files that count
_KEEP_ALIVE = 10  # seconds that a connection stays open between two requests
_LONGEST_STOP = 30  # seconds for the last answers after connections are no longer taken
_LONGEST_PAUSE = 30  # seconds after which a worker that gives no sign of life is started anew
_LAST_WORDS = 0.2  # seconds for the first request of a connection that came last


def serve(options: ServeOptions, *, announce: Callable[[str], None] = lambda _: None) -> None:
    """Answer requests until SIGTERM or Ctrl-C.

    Args:
        options: Files, address and limits.
        announce: Called with the address when the server begins to listen.
    """
    options.read_keys()
    served = None if options.workers > 1 else ServedModel.load(options)
    if options.events is not None:
        EventStore(options.events)  # makes the table before several workers do
    if served is None:
        Artifact.load(options.model, mmap=True)  # what is wrong with the file is said here, once
    with _listen(options) as listener, _ignore(signal.SIGTERM, signal.SIGINT):
        host, port = listener.getsockname()[:2]
        is_local = ipaddress.ip_address(host).is_loopback
        config = configure(partial(_make_app, options, served, is_local), workers=options.workers)
        listener.listen(config.backlog)  # requests wait until the model is loaded
        announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        if served is not None:
            uvicorn.Server(config).run([listener])
            return
        supervisor = Supervisor(config, [listener])
        with tempfile.TemporaryDirectory(prefix="spherec-serve-") as folder:
            os.environ[SHARED_FOLDER] = folder
            supervisor.run()
            del os.environ[SHARED_FOLDER]
        if any(process.exitcode == uvicorn.config.STARTUP_FAILURE for process in supervisor.processes):
            raise SpherecError("a process of the server cannot start; the log above has the cause")


def _make_app(options: ServeOptions, served: ServedModel | None, is_local: bool) -> FastAPI:
    """Return the app. What is wrong with its files ends a worker for good, or it would be started again and again."""
    try:
        return create_app(options, served, is_local=is_local)
    except SpherecError as error:
        logging.getLogger("spherec.serve").error("cannot start", extra={"fields": {"cause": str(error)}})
        sys.exit(uvicorn.config.STARTUP_FAILURE)


def configure(make_app: Callable[[], Any], workers: int = 1) -> uvicorn.Config:
    """Return the settings of uvicorn.

    Half of the files that the process may open are for connections; beyond these, requests are answered with 503. A
    short queue of connections keeps those that come at once below the limit, too.
    """
    files = min(max(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 0) or _MOST_FILES, _MOST_FILES)
    return uvicorn.Config(
        make_app,
        factory=True,
        http=PoliteProtocol,
        loop=f"{__name__}:PoliteLoop",
        ws="none",
        workers=workers,
        access_log=False,
        log_config=_LOGS,
        backlog=min(files // 8, 1024),
        limit_concurrency=files // 2,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_LONGEST_STOP,
        timeout_worker_healthcheck=_LONGEST_PAUSE,
    )


class Supervisor(Multiprocess):
    """The parent of several workers."""

    def terminate_all(self) -> None:
        """Tell the workers to end; connections that nobody would take are refused from then on."""
        super().terminate_all()
        for listener in self.sockets:
            listener.close()


class PoliteLoop(asyncio.SelectorEventLoop):
    """The event loop of asyncio, which answers also those who wait for their connection to be taken when it ends.

    Not uvloop, which takes new connections one by one, and lets them wait where many requests come.
    """

    async def create_server(self, protocol_factory: Any, *options: Any, **others: Any) -> asyncio.Server:
        """Listen, and take what waits before listening ends."""
        server = await super().create_server(protocol_factory, *options, **others)
        listener, close = others["sock"], server.close

        def take_and_close() -> None:
            with suppress(OSError):  # none is left
                while True:
                    connection, _ = listener.accept()
                    self._last.append(self.create_task(self.connect_accepted_socket(protocol_factory, connection)))
            close()

        self._last: list[asyncio.Task[Any]] = []
        server.close = take_and_close  # type: ignore[method-assign]
        return server


class PoliteProtocol(H11Protocol):
    """HTTP as uvicorn speaks it, which reads the body of a request also where the client offers another protocol."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close a connection at once where those that say nothing have used up the room."""
        super().connection_made(transport)
        if len(self.connections) > self.config.limit_concurrency + self.config.backlog:  # type: ignore[operator]
            transport.close()

    def shutdown(self) -> None:
        """Finish the answer in progress; wait for the request of a client that has just connected."""
        if self.cycle is None:
            self.loop.call_later(_LAST_WORDS, super().shutdown)  # type: ignore[unreachable]
        else:
            super().shutdown()


def _listen(options: ServeOptions) -> socket.socket:
    """Return a socket that is bound to the address."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        return socket.create_server((options.host, options.port), family=family)
    except OSError as error:
        raise ArgumentError(
            f"cannot listen on {options.host}:{options.port}: {error.strerror or error}; take another --host or --port"
        ) from None


@contextmanager
def _ignore(*signals: signal.Signals) -> Iterator[None]:
    """Let the process live when uvicorn, having ended in good order, sends it the signal once more."""
    handlers = [signal.signal(number, lambda *_: None) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, handlers, strict=True):
            signal.signal(number, handler)


class JsonLines(logging.Formatter):
    """Writes a record of the log as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


_LOGS: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": JsonLines}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "loggers": {
        name: {"handlers": ["stderr"], "level": level, "propagate": False}
        for name, level in (("spherec.serve", "INFO"), ("uvicorn", "ERROR"), ("asyncio", "ERROR"))
    },
}
