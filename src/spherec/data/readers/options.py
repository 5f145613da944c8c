"""Options of reading a raw file: its format, the names of its columns, and how its text is laid out."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from spherec.errors import ArgumentError

FormatName = Literal[
    "auto",
    "delimited",
    "json-lines",
    "parquet",
    "book-crossing",
    "echonest",
    "amazon-ratings",
    "amazon-reviews",
    "movielens",
    "netflix",
    "adjacency",
    "citeulike",
    "scipy",
]
"""A key of `FORMATS`, or "auto": the format that a file's content shows."""

Missing = Literal["error", "drop"]
"""Treatment of rows without user or item: refuse the file, or drop and count them."""

ReadProgress = Callable[[int, int], None]
"""Called with the amount of a file that is read, and the whole amount."""

VALUE_NAMES = {
    *("rating", "ratings", "score", "stars", "overall", "value", "weight", "count", "plays", "listens"),
    *("userrating", "bookrating", "movierating", "starrating", "reviewrating", "reviewscore", "userscore"),
    *("playcount", "listencount", "watchratio", "liked", "islike", "isliked", "votedup"),
    *("recommended", "isrecommended"),
}
"""Usual names of columns with ratings or counts, in lower case and without anything between words."""


@dataclass(frozen=True)
class Columns:
    """Names of a table's columns."""

    user: str = "user"
    item: str = "item"
    value: str | None = None
    "Rating or count."
    time: str | None = None
    "Time of the event: a number or a date."
    time_format: str | None = None
    "Pattern of dates for strptime, e.g. '%m %d, %Y'. ISO dates need none."

    def __post_init__(self) -> None:
        for role, name in self.names.items():
            if not isinstance(name, str):
                raise ArgumentError(f"{role} must be the name of a column, got a value of type {type(name).__name__}")
        if len(set(self.names.values())) < len(self.names):
            raise ArgumentError(f"each role needs a column of its own, got {self.names}")

    @property
    def names(self) -> dict[str, str]:
        """The named columns by role."""
        roles = {"user": self.user, "item": self.item, "value": self.value, "time": self.time}
        return {role: name for role, name in roles.items() if name is not None}

    def unread_value(self, present: Iterable[str]) -> str | None:
        """Return the first of a table's columns whose name suggests ratings or counts; None where a value is read."""
        if self.value is not None:
            return None
        others = (name for name in present if name not in self.names.values())
        return next((name for name in others if re.sub(r"[\W_]", "", name).lower() in VALUE_NAMES), None)


@dataclass(frozen=True)
class Reading:
    """Options for reading a raw file."""

    format: FormatName = "auto"
    columns: Columns = field(default_factory=Columns)
    "Columns of a table; formats of the field know their own."
    header: tuple[str, ...] | None = None
    "Names of all columns, for delimited text that has none in its first line."
    separator: str | None = None
    "Separator of delimited text. None: the one of tab , ; | :: that finds the wanted columns in the first line."
    quotes: bool | None = None
    "Double quotes enclose fields. None: yes, except in tab-separated text whose header has none."
    encoding: str = "utf-8"
    "Encoding of a text file."
    escape: str = ""
    "Character before a double quote inside a quoted field, where that is not another double quote."
    missing: Missing = "error"
    limit: int | None = None
    "Number of rows after which to stop."
    progress: ReadProgress | None = None
    report: Callable[[str], None] | None = None
    "Called with remarks: what the file was taken for, lines that are left out."
    read_as: str = ""
    "Name of what the file was taken for, where 'auto' found out."
    is_time_recognised: bool = False
    "True if 'auto' found the column of times: one that cannot be read is then left out."
    kinds: str = ""
    "Kinds of events, which all count alike, in words."
    scratch: Path | None = None
    "Folder for rows of a file that may be larger than memory, which then comes in pieces. None: they stay in memory."
    max_unpacked: float | None = None
    "Largest unpacked size in GB. None: 200 times the file, or 4 MB (a matrix of scipy: 0.27 GB) if that is more."

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ArgumentError(f"limit must be at least 1 row, got {self.limit}")
        if self.max_unpacked is not None and not self.max_unpacked > 0:
            raise ArgumentError(f"max_unpacked must be above 0 GB, got {self.max_unpacked}")
        if self.separator and set(self.separator) & set('"\r\n'):
            raise ArgumentError(f"separator must not have quotes or line ends in it, got {self.separator!r}")
        for name, value, allowed in (("format", self.format, FormatName), ("missing", self.missing, Missing)):
            if not isinstance(value, str) or value not in get_args(allowed):
                raise ArgumentError(f"{name} must be one of {', '.join(get_args(allowed))}, got {value!r}")


def run_options(reading: Reading) -> dict[str, Any]:
    """Return the options that every format takes."""
    names = ("format", "missing", "limit", "progress", "report", "read_as", "scratch", "max_unpacked")
    return {name: getattr(reading, name) for name in names}
