"""Events from a database: a table or the answer to a query, through the drivers of ADBC. Importing this brings none."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from spherec.data.input_files import refuse_unreadable
from spherec.errors import ArgumentError, DataError, MissingPackageError, shorten

if TYPE_CHECKING:
    import polars as pl

    from spherec.data.read.formats import FilePlan, Rows

_URL = re.compile(r"(sqlite|postgresql|postgres)://.*", re.DOTALL)
_SECRETS = re.compile(r"(?<=://)([^:/?@]*):.*@|(?<=password=)[^&\s]*", re.DOTALL)


@dataclass(frozen=True)
class Database:
    """A table, or a query in brackets, and the address of its database, which errors show without its password."""

    url: str = field(repr=False)
    source: str

    @classmethod
    def parse(cls, url: str, query: str | None) -> "Database":
        """Return what `sqlite:///shop.db?table=events` says, or an address without a table and a query."""
        address, _, options = url.partition("?")
        others = [(name, value) for name, value in parse_qsl(options, keep_blank_values=True) if name != "table"]
        tables = [value for name, value in parse_qsl(options) if name == "table"]
        if len(tables) + (query is not None) != 1:
            raise ArgumentError(f"{hide_password(url)}: name ?table=NAME, or a query= (--query), and not both")
        source = f"({query.strip().rstrip(';')})" if query else ".".join(map(_quoted, tables[0].split(".")))
        return cls(address + (f"?{urlencode(others)}" if others else ""), source)

    def __str__(self) -> str:
        return hide_password(self.url)

    def ask(self, columns: str, limit: int | None) -> "pl.DataFrame":
        """Return some columns, at most so many rows."""
        import polars as pl

        scheme, name = self.url.split("://", 1)
        if scheme == "sqlite":
            path = unquote(name.removeprefix("/"))
            refuse_unreadable(path)  # SQLite would make a new one
        try:
            driver = import_module(f"adbc_driver_{'sqlite' if scheme == 'sqlite' else 'postgresql'}.dbapi")
        except ImportError:
            raise MissingPackageError(
                "a database needs its driver; install it with: pip install '.[database]'"
            ) from None
        # the query is the user's own, and so are the rights
        question = f"SELECT {columns} FROM {self.source} AS events" + ("" if limit is None else f" LIMIT {limit}")  # noqa: S608
        try:
            where = f"file:{quote(str(Path(path).absolute()))}?mode=ro" if scheme == "sqlite" else self.url
            with driver.connect(where) as connection, connection.cursor() as cursor:
                cursor.execute(question)
                return pl.DataFrame(cursor.fetch_arrow())
        except (driver.Error, pl.exceptions.PolarsError) as error:
            secret = urlsplit(self.url).password or ""
            reason = " ".join(str(error).split())
            for hidden in filter(None, (secret, unquote(secret))):
                reason = reason.replace(hidden, "…")
            reason = shorten(hide_password(reason))
            raise DataError(f"{self}: {reason}; check the address, the table or query, and who may read it") from None


def is_url(path: object) -> bool:
    """Return whether this is the address of a database."""
    return isinstance(path, str) and _URL.fullmatch(path) is not None


def hide_password(text: str) -> str:
    """Return the text without passwords of addresses in it."""
    return _SECRETS.sub(lambda found: f"{found[1]}@" if found[1] is not None else "…", text)


def read_rows(database: Database, plan: "FilePlan") -> "Iterator[Rows]":
    """Yield all rows at once. Columns of types of the database alone, such as UUIDs, become texts."""
    import polars as pl

    from spherec.data.read.formats import Rows

    kinds = database.ask("*", 1).schema
    plan.refuse_missing(Path(str(database)), kinds.names())
    asked = []
    for role, name in plan.roles.items():
        kind = kinds[name]
        is_plain = kind.is_numeric() or kind.is_temporal() or kind in (pl.String, pl.Boolean)
        asked.append(f"{_quoted(name) if is_plain else f'CAST({_quoted(name)} AS TEXT)'} AS {_quoted(role)}")
    frame = database.ask(", ".join(asked), plan.limit)
    if plan.progress is not None:
        plan.progress(1, 1)
    if frame.height:
        yield Rows(frame, lambda row, role: (f"row {row}", frame[role][row]), kinds.names())


def first_cells(database: Database) -> dict[str, list[str]]:
    """Return the first cells of each column as texts."""
    columns = database.ask("*", 100).to_dict(as_series=False)
    return {
        name: ["" if cell is None or isinstance(cell, bytes) else str(cell) for cell in cells]
        for name, cells in columns.items()
    }


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
