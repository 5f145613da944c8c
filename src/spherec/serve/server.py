"""Run the server: one process or several, structured logs, and an end that leaves no request without an answer."""

import asyncio
import ipaddress
import json
import logging
import multiprocessing
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import time
import uuid
from asyncio import TimerHandle
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

from spherec.artifact import Artifact
from spherec.errors import ArgumentError, MissingPackageError, SpherecError
from spherec.serve.app import create_app
from spherec.serve.guard import LOG, JsonLines
from spherec.serve.metrics import Metrics
from spherec.serve.options import INSTALL, ServeOptions
from spherec.serve.served_model import ServedModel

try:
    import uvicorn
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError as error:
    raise MissingPackageError(INSTALL) from error

_OFFER = re.compile(rb"(?i)\r\nupgrade(?=[ \t]*:)")
_LONGEST_HEAD = 1 << 16  # bytes of the headers of a request
_BACKLOG = 2048  # connections that the system holds until they are taken
_LONGEST_STOP = 30  # seconds for the last answers after connections are no longer taken
_SWITCH = 0.00005  # seconds after which a thread lets another one run: ranking asks for its turn after every product
_LAST_WORDS = 0.2  # seconds for the requests of connections that came last
_PAUSE = 0.1  # seconds between two looks at the processes
_LONGEST_START = 30  # seconds; a process that ends earlier has failed to start
_MOST_FAILURES = 4  # starts in a row, after which none is tried again
_PAUSE_AFTER_FAILURE = 0.5  # seconds, for each of them


def serve(options: ServeOptions, *, announce: Callable[[str], None] = lambda _: None) -> None:
    """Answer requests until SIGTERM or Ctrl-C.

    Args:
        options: Files, address and limits.
        announce: Called with the address when the server begins to listen.
    """
    options.read_keys()
    if options.workers > 1:
        Artifact.load(options.model, mmap=True)  # what is wrong with the file is said here, once
    with _listen(options) as listener:
        host, port = listener.getsockname()[:2]
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        if options.workers == 1:
            served = ServedModel.load(options)
            announce(address)
            _answer(options, listener, served, None)
        else:
            listener.listen(_BACKLOG)  # requests wait until a process has loaded the model
            announce(address)
            with tempfile.TemporaryDirectory(prefix="spherec-serve-") as folder:
                _supervise(options, listener, Path(folder))


def _listen(options: ServeOptions) -> socket.socket:
    """Return a socket that is bound to the address."""
    listener: socket.socket | None = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise ArgumentError(
            f"cannot listen on {options.host}:{options.port}: {error.strerror or error}; take another --host or --port"
        ) from None
    listener.set_inheritable(True)
    return listener


def _answer(options: ServeOptions, listener: socket.socket, served: ServedModel | None, folder: Path | None) -> None:
    """Answer requests in this process."""
    _log_as_json()
    sys.setswitchinterval(_SWITCH)
    stopping = threading.Event()
    is_local = ipaddress.ip_address(listener.getsockname()[0]).is_loopback
    app = create_app(options, served, metrics=Metrics(folder), stopping=stopping.is_set, is_local=is_local)
    config = uvicorn.Config(
        app,
        http=ImpatientProtocol,
        loop="asyncio",  # uvloop takes new connections one by one, and lets them wait where many requests come
        ws="none",
        access_log=False,
        log_config=None,
        backlog=_BACKLOG,
        server_header=False,
        timeout_keep_alive=max(int(options.body_seconds), 1),
        timeout_graceful_shutdown=_LONGEST_STOP,
    )
    DrainingServer(config, stopping, options.drain_seconds).run([listener])


def _log_as_json() -> None:
    """Write the logs of this process to standard error, a line of JSON each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name, level in ((LOG.name, logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


class DrainingServer(uvicorn.Server):
    """A server that goes on answering for a moment after SIGTERM, and closes each connection after its next answer.

    So clients that keep connections open leave before anything is closed on them.
    """

    def __init__(self, config: uvicorn.Config, stopping: threading.Event, seconds: float) -> None:
        super().__init__(config)
        self._stopping, self._seconds = stopping, seconds

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Drain at the first SIGTERM; stop at the next signal, and at Ctrl-C; at one more leave answers unsent."""
        if self.should_exit:
            self.force_exit = True
        elif self._stopping.is_set() or sig != signal.SIGTERM:
            self._stopping.set()
            self.should_exit = True
        else:
            self._stopping.set()
            threading.Timer(self._seconds, self._stop).start()

    def _stop(self) -> None:
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take the connections that wait, listen no longer, answer what has come, and close."""
        loop = asyncio.get_running_loop()
        waiting: list[socket.socket] = []
        for listener in sockets or ():
            with suppress(BlockingIOError):
                while True:
                    waiting.append(listener.accept()[0])
        for server in self.servers:
            server.close()
        for connection in waiting:
            await loop.connect_accepted_socket(self._make_protocol, connection)
        await asyncio.sleep(_LAST_WORDS)
        await super().shutdown(sockets)

    def _make_protocol(self) -> asyncio.Protocol:
        state = self.lifespan.state
        return ImpatientProtocol(config=self.config, server_state=self.server_state, app_state=state)


class ImpatientProtocol(HttpToolsProtocol):
    """HTTP that closes a connection whose client has begun a request, and does not get to the end of its headers.

    Clients that offer another protocol (Java's, for one, offer HTTP/2) are answered in HTTP/1.1.
    """

    _deadline: TimerHandle | None = None
    _head = 0  # bytes of headers that have come

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        if self._is_between():
            head, blank, rest = data.partition(b"\r\n\r\n")
            data = _OFFER.sub(b"\r\nignored", head) + blank + rest  # the parser would skip the body of such a request
        super().data_received(data)
        if self._is_between() and not self.transport.is_closing():
            self._head += len(data)
            if self._deadline is None:
                self._wait()
            if self._head > _LONGEST_HEAD:
                self._close("431 Request Header Fields Too Large", f"headers must have at most {_LONGEST_HEAD:,} bytes")

    def _is_between(self) -> bool:
        """Tell whether no request is being answered, or its headers are not complete."""
        return self.cycle is None or self.cycle.response_complete

    def on_headers_complete(self) -> None:
        """Begin to answer."""
        self._head = 0
        self._wait_no_longer()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._wait_no_longer()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(self.timeout_keep_alive, self._give_up)

    def _wait_no_longer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self._close("408 Request Timeout", "the request took too long to come; send it faster")

    def _unsupported_upgrade_warning(self) -> None:
        """Write nothing to the log: a client that asks for another protocol is answered in this one."""

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Answer to bytes that are no HTTP."""
        self._close("400 Bad Request", "this is no HTTP request")

    def _close(self, status: str, sentence: str) -> None:
        """Answer without the app, which has not seen a request."""
        body = json.dumps({"error": sentence, "request_id": uuid.uuid4().hex})
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(f"{head}connection: close\r\n\r\n{body}".encode())
        self.transport.close()


def _supervise(options: ServeOptions, listener: socket.socket, folder: Path) -> None:
    """Run the processes: start those that end by themselves anew, and pass signals on.

    After several failed starts in a row, each after a longer pause, it gives up.
    """
    context = multiprocessing.get_context("spawn")
    told: list[int] = []

    def start() -> BaseProcess:
        process: BaseProcess = context.Process(target=_answer, args=(options, listener, None, folder))
        process.start()
        return process

    signals = (signal.SIGTERM, signal.SIGINT)
    handlers = [signal.signal(number, lambda received, _: told.append(received)) for number in signals]
    processes = [start() for _ in range(options.workers)]
    began = time.monotonic()
    starts = [began] * options.workers
    failures = 0  # in a row
    _log_as_json()
    try:
        while not told:
            time.sleep(_PAUSE)
            for place, process in enumerate(processes):
                if process.is_alive() or told:
                    continue
                failures = failures + 1 if time.monotonic() - starts[place] < _LONGEST_START else 0
                cannot_begin = starts[place] == began and process.exitcode == uvicorn.config.STARTUP_FAILURE
                if cannot_begin or failures > _MOST_FAILURES:
                    raise SpherecError("a process of the server cannot start; the log above has the cause")
                LOG.error("a process ended and is started anew", extra={"fields": {"exit_code": process.exitcode}})
                time.sleep(failures * _PAUSE_AFTER_FAILURE)
                processes[place], starts[place] = start(), time.monotonic()
        listener.close()  # the last process that has it open answers those who wait there
        while any(process.is_alive() for process in processes):
            while told:
                _pass_on(processes, told.pop(0))
            time.sleep(_PAUSE)
    finally:
        _pass_on(processes, signal.SIGTERM)
        for process in processes:
            process.join()
        for number, handler in zip(signals, handlers, strict=True):
            signal.signal(number, handler)


def _pass_on(processes: list[BaseProcess], number: int) -> None:
    for process in processes:
        if process.is_alive() and process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)
