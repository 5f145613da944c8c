"""Settings of the server: which files it answers from, where it listens, and how much a request may ask for."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spherec.data.input_files import read_text_file
from spherec.errors import ArgumentError, check_number

_SHORTEST_KEY = 16  # characters
_PICTURES = re.compile(r"[^=]+=[a-z0-9.-]+(:\d+)?(,[a-z0-9.-]+(:\d+)?)*")  # hosts alone come into the policy


@dataclass(frozen=True)
class ServeOptions:
    """Settings of the server."""

    model: Path
    "Model file. A new file in its place is picked up without a lost request."
    index: Path | list[Path] | None = None
    "Index of the items, to answer through, or the indexes of all their parts."
    items: Path | None = None
    "Table of the items, whose columns are filters."
    pictures: str | None = None
    "Column of https addresses of pictures, and the hosts that the page may show them from: COLUMN=HOST,HOST."
    host: str = "127.0.0.1"
    "Address to listen on."
    port: int = 8000
    "Port to listen on; 0 takes a free one."
    workers: int = 1
    "Processes that answer; they share the tables of the model."
    threads: int | None = None
    "Threads that rank, in each process. Default: one less than the cores of a process, which HTTP needs."
    api_key_file: Path | None = None
    "File of the keys that are let in, one a line; every one is as good as another. Default: everybody is let in."
    queue: int = 512
    "Lists that may wait; beyond that, requests are answered with 503."
    max_k: int = 1000
    "Largest k + offset."
    max_lists: int = 100
    "Most lists in one request."
    max_items: int = 20_000
    "Most items in one answer, reasons included."
    max_body: int = 1 << 20
    "Largest body of a request, in bytes."
    drain_seconds: float = 1.0
    "Seconds after SIGTERM in which connections are still taken, each for one answer."
    watch_seconds: float = 1.0
    "Seconds between two looks at the model file; 0 never looks again."
    events: str | None = None
    "Store of events: a file of SQLite, or postgresql://…. Default: none are taken."
    event_kinds: Sequence[str] | None = None
    "Kinds of events that count for the next list. Default: all."
    writable: bool = False
    "Let `POST /items` add items and replace the model file."
    log_requests: bool = True
    "Write a line for each request."

    def __post_init__(self) -> None:
        check_number("port", self.port, 0, 65535)
        for name in ("workers", "threads", "queue", "max_k", "max_lists", "max_items", "max_body"):
            if (value := getattr(self, name)) is not None:
                check_number(name, value, 1, 1 << 30)
        if self.pictures is not None and (self.items is None or not _PICTURES.fullmatch(self.pictures)):
            raise ArgumentError(f"pictures must be COLUMN=HOST,HOST… of a column of items, got {self.pictures!r}")
        if self.max_lists > self.queue:
            raise ArgumentError(
                f"max_lists must be at most queue, {self.queue}, got {self.max_lists}: such a request could never wait"
            )

    def read_keys(self) -> tuple[str, ...]:
        """Return the keys in the file; none if there is no file."""
        if self.api_key_file is None:
            return ()
        lines = (line.strip() for line in read_text_file(self.api_key_file).splitlines())
        keys = tuple(line for line in lines if line and not line.startswith("#"))
        if not keys or not all(re.fullmatch(f"[!-~]{{{_SHORTEST_KEY},}}", key) for key in keys):
            raise ArgumentError(
                f"{self.api_key_file} has no key, or one of fewer than {_SHORTEST_KEY} characters, or other than ASCII "
                "without spaces; write one a line, e.g. from `openssl rand -hex 32`"
            )
        return keys
