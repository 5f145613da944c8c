"""What can be said about a raw file before it is opened. Free of polars, so that every part may import it."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, get_args

from spherec.errors import ArgumentError

Format = Literal[
    "auto",
    "delimited",
    "json-lines",
    "parquet",
    "book-crossing",
    "echonest",
    "amazon-ratings",
    "amazon-reviews",
    "movielens",
    "adjacency",
    "citeulike",
]
"""What a file is: a table with named columns (the first four), or a format of the field whose columns are known."""

Missing = Literal["error", "drop"]
"""What to do with rows that have no user or no item: refuse the file, or leave them out and count them."""

Progress = Callable[[int, int], None]
"""Called with how much of a file is done, and how much there is."""

_VALUES = {
    *("rating", "ratings", "score", "stars", "overall", "value", "weight", "count", "plays", "listens"),
    *("userrating", "bookrating", "movierating", "starrating", "reviewrating", "reviewscore", "userscore"),
    *("playcount", "listencount"),
}
"""What columns of ratings or counts are called, in small letters and without anything between words."""


@dataclass(frozen=True)
class Columns:
    """What the columns of a table are called."""

    user: str = "user"
    item: str = "item"
    value: str | None = None
    "Rating or count."
    time: str | None = None
    "When it happened: a number, or a date."
    time_format: str | None = None
    "How dates are written, as for strptime: '%m %d, %Y'. ISO dates need none."

    def __post_init__(self) -> None:
        if len(set(self.names.values())) < len(self.names):
            raise ArgumentError(f"each role needs a column of its own, got {self.names}")

    @property
    def names(self) -> dict[str, str]:
        """The named columns by role."""
        roles = {"user": self.user, "item": self.item, "value": self.value, "time": self.time}
        return {role: name for role, name in roles.items() if name is not None}

    def unread_value(self, present: Iterable[str]) -> str | None:
        """The first of a table's columns that by its name holds ratings or counts; None where a value is read."""
        if self.value is not None:
            return None
        others = (name for name in present if name not in self.names.values())
        return next((name for name in others if re.sub(r"[\W_]", "", name).lower() in _VALUES), None)


@dataclass(frozen=True)
class Reading:
    """How a raw file is read."""

    format: Format = "auto"
    columns: Columns = field(default_factory=Columns)
    "Of a table; the formats of the field know their own."
    header: tuple[str, ...] | None = None
    "The names of all columns, for delimited text that has none in its first line."
    separator: str | None = None
    "Between the columns of delimited text; found by itself if it is a tab or one of , ; | ::"
    quotes: bool | None = None
    "Whether double quotes enclose fields. None: yes, except in tab-separated text whose header has none."
    encoding: str = "utf-8"
    "Of a text file."
    missing: Missing = "error"
    limit: int | None = None
    "Stop after this many rows."
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ArgumentError(f"limit must be at least 1 row, got {self.limit}")
        if self.separator and set(self.separator) & set('"\r\n'):
            raise ArgumentError(f"separator must not have quotes or line ends in it, got {self.separator!r}")
        for name, value, allowed in (("format", self.format, Format), ("missing", self.missing, Missing)):
            if value not in get_args(allowed):
                raise ArgumentError(f"{name} must be one of {', '.join(get_args(allowed))}, got {value!r}")
