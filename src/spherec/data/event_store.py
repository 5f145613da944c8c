"""Events that a server stores and an update learns from: the table `events` in a file of SQLite or in PostgreSQL.

    id    number, ascending
    user, item    ids as text
    kind    text, such as "purchase", or NULL
    time    seconds since 1970
    read    time at which an update that learned from the event had begun, in seconds since 1970, or NULL

A model that was saved after that time knows the event; an older one, put back in its place, does not.
"""

import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from spherec.errors import ArgumentError, DataError, MissingPackageError, quote

_POSTGRES = ("postgresql://", "postgres://")
_SQLITE = "sqlite:///"
_WAIT = 10  # seconds for another process that writes, and for a connection
_AT_ONCE = 10_000  # ids in one statement
_TABLE = """CREATE TABLE IF NOT EXISTS events (
    id {number}, "user" TEXT NOT NULL, item TEXT NOT NULL, kind TEXT, "time" DOUBLE PRECISION NOT NULL,
    read DOUBLE PRECISION)"""
_INDEX = 'CREATE INDEX IF NOT EXISTS events_of_user ON events ("user", read)'


class Event(NamedTuple):
    """Something that a user did with an item."""

    user: str
    item: str
    kind: str | None
    time: float


class EventStore:
    """The table of events in a database. Every thread has a connection of its own, made anew when it breaks.

    Args:
        place: A file of SQLite (a path or sqlite:///PATH), made if it is missing, or postgresql://….
    """

    def __init__(self, place: str | PathLike[str]) -> None:
        self._place = str(place).removeprefix(_SQLITE)
        self._is_postgres = self._place.startswith(_POSTGRES)
        if "://" in self._place and not self._is_postgres:
            raise ArgumentError("a store of events is a file of SQLite, or postgresql://…; name one of these")
        self._mine, self._connections = threading.local(), list[Any]()
        number = "BIGINT GENERATED ALWAYS AS IDENTITY" if self._is_postgres else "INTEGER"
        with self._transaction() as run:
            if self._is_postgres:
                run("SELECT pg_advisory_xact_lock(7463)")  # processes that begin at once would both make the table
            run(_TABLE.format(number=f"{number} PRIMARY KEY"))
            run(_INDEX)
        self.close()  # this thread may never use it

    @staticmethod
    def is_here(place: str) -> bool:
        """Return whether this is a file of SQLite, or the address of a database that names no table to be read."""
        if place.startswith((*_POSTGRES, _SQLITE)):
            return "table=" not in place
        with suppress(OSError), Path(place).open("rb") as file:
            return file.read(15) == b"SQLite format 3"
        return False

    def add(self, events: Sequence[Event]) -> None:
        """Store events; when this returns, they outlast the process and the power."""
        with self._transaction() as run:
            for event in events:
                run('INSERT INTO events ("user", item, kind, "time") VALUES (?, ?, ?, ?)', *event)

    def find(self, users: Sequence[str], since: float) -> dict[str, list[Event]]:
        """Return the events of users, in their order, that a model saved at a time cannot know."""
        marks = ", ".join("?" * len(users))
        text = f'SELECT "user", item, kind, "time" FROM events WHERE "user" IN ({marks})'  # noqa: S608
        found: dict[str, list[Event]] = defaultdict(list)
        with self._errors():
            for row in self._run(f"{text} AND (read IS NULL OR read > ?) ORDER BY id", *users, since):
                found[row[0]].append(Event(*row))
        return found

    @contextmanager
    def read_new(self) -> Iterator[list[Event]]:
        """Return the events that no update has read, by time; they are marked when the block ends without an error.

        Save the model in the block: whoever ends before it is marked reads the same events again.
        """
        begin = time.time()
        with self._errors():
            rows = list(self._run('SELECT id, "user", item, kind, "time" FROM events WHERE read IS NULL'))
        rows.sort(key=lambda row: (row[4], row[0]))
        yield [Event(*row[1:]) for row in rows]
        ids = [row[0] for row in rows]
        with self._transaction() as run:
            for first in range(0, len(ids), _AT_ONCE):
                some = ids[first : first + _AT_ONCE]
                run(f"UPDATE events SET read = ? WHERE id IN ({', '.join('?' * len(some))})", begin, *some)  # noqa: S608

    def close(self) -> None:
        """Close the connections of all threads. They are made anew when they are needed."""
        self._mine = threading.local()
        while self._connections:
            self._connections.pop().close()

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Run statements that count together, or not at all."""
        with self._errors():
            self._run("BEGIN" if self._is_postgres else "BEGIN IMMEDIATE")
            yield self._run
            self._run("COMMIT")

    def _run(self, text: str, *values: object) -> Any:
        connection = getattr(self._mine, "connection", None)
        if connection is None:
            connection = self._mine.connection = self._connect()
            self._connections.append(connection)
        return connection.execute(text.replace("?", "%s") if self._is_postgres else text, values)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise a `DataError` for those of the database, and connect anew after any error. No password is shown."""
        try:
            yield
        except BaseException as error:
            connection, self._mine.connection = getattr(self._mine, "connection", None), None
            if connection is not None:
                self._connections.remove(connection)
                connection.close()
            if not isinstance(error, sqlite3.Error) and not type(error).__module__.startswith("psycopg"):
                raise
            where = "PostgreSQL" if self._is_postgres else self._place
            cause = type(error).__name__ if self._is_postgres and connection is None else error
            raise DataError(f"the store of events in {where} does not answer: {quote(str(cause))[1:-1]}") from None

    def _connect(self) -> Any:
        if not self._is_postgres:
            connection = sqlite3.connect(self._place, timeout=_WAIT, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            return connection
        try:
            import psycopg  # an extra
        except ModuleNotFoundError:
            raise MissingPackageError("PostgreSQL needs psycopg; install it with: pip install '.[database]'") from None
        return psycopg.connect(self._place, autocommit=True, connect_timeout=_WAIT)
