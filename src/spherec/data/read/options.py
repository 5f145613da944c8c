"""Options of reading raw files: which files a path stands for, their format, columns, and the layout of their text."""

import glob
import os
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Literal, get_args

from spherec.data.container import kind_of
from spherec.data.cuts import Cut
from spherec.data.events import Duplicates
from spherec.data.input_files import find_kind
from spherec.errors import ArgumentError, DataError, quote

Paths = str | PathLike[str] | Iterable[str | PathLike[str]]
"""A file, a folder, a pattern such as `part-*.csv`, or several of these."""

FormatName = str
"""A key of `FORMATS`, or "auto": the format that a file's content shows."""

Missing = Literal["error", "drop"]
"""Treatment of rows without user or item: refuse the file, or drop and count them."""

ReadProgress = Callable[[int, int], None]
"""Called with the amount of a file that is read, and the whole amount."""

VALUE_NAMES = {
    *("rating", "ratings", "score", "stars", "overall", "value", "weight", "count", "plays", "listens"),
    *("userrating", "bookrating", "movierating", "starrating", "reviewrating", "reviewscore", "userscore"),
    *("playcount", "listencount", "watchratio", "liked", "islike", "isliked", "votedup"),
    *("recommended", "isrecommended", "label", "target", "click", "clicked", "isclick", "isclicked", "like", "vote"),
    *("purchased", "bought", "quantity", "qty", "playtime", "myscore", "preference"),
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
                raise ArgumentError(f"{role} must be the name of a column, got {quote(name)}")
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
    """Options for reading raw files: the only list of them."""

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
    missing: Missing = "error"
    duplicates: Duplicates | None = None
    "Rule for repeated pairs; by default as the format or the values suggest."
    cut: Cut = field(default_factory=Cut)
    "The events that count; by default all."
    items: str | PathLike[str] | Iterable[Hashable] | None = None
    "All items, as ids or as a file of them: those that nobody has are then kept, too."
    weigh: bool | None = None
    "Keep ratings or counts, to weigh pairs by them in training; by default only those of a prepared file."

    limit: int | None = None
    "Number of rows after which to stop."
    progress: ReadProgress | None = None
    report: Callable[[str], None] | None = None
    "Called with remarks: what a file was taken for, lines that are left out."

    # What recognition finds out:
    read_as: str = ""
    "Name of what the file was taken for, where 'auto' found out."
    escape: str = ""
    "Character before a double quote inside a quoted field, where that is not another double quote."
    is_time_recognised: bool = False
    "True if 'auto' found the column of times: one that cannot be read is then left out."
    kinds: str = ""
    "Kinds of events, which all count alike, in words."

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ArgumentError(f"limit must be at least 1 row, got {self.limit}")
        if self.separator and set(self.separator) & set('"\r\n'):
            raise ArgumentError(f"separator must not have quotes or line ends in it, got {self.separator!r}")
        if self.missing not in get_args(Missing):
            raise ArgumentError(f"missing must be 'error' or 'drop', got {quote(self.missing)}")
        if self.items is not None and self.cut.min_per_item:
            raise ArgumentError(
                f"items states items that nobody has, and min_per_item={self.cut.min_per_item} drops them; leave one "
                "of them out"
            )


def list_files(paths: Paths) -> list[Path]:
    """Return the files that paths stand for.

    A folder stands for the files in it, and a pattern with * ? [ for those that match, both by name, with numbers in
    their order: part-2 before part-10. Hidden files, those that begin with an underscore (markers of other programs)
    and folders inside a folder are left out. A list keeps its order. A path that exists is never a pattern. The folder
    of a partitioned data set stands for itself.
    """
    if isinstance(paths, str | PathLike):
        return _expand(paths)
    if not isinstance(paths, Iterable) or hasattr(paths, "decode"):  # bytes
        raise ArgumentError(f"a path must be text, a Path, or a list of them, got {quote(paths)}")
    files = [file for path in paths for file in _expand(path)]
    if not files:
        raise ArgumentError("the list of files is empty; name at least one")
    seen: set[str] = set()
    for file in files:
        if (real := os.path.realpath(file)) in seen:
            raise ArgumentError(f"{file} is given twice; name each file once")
        seen.add(real)
    return files


def describe_files(files: Sequence[Path]) -> str:
    """Return the name of the file, or the first of several and their number, for messages."""
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1:,} more"


def _expand(path: str | PathLike[str]) -> list[Path]:
    if _is_pattern(path):
        found = [file for name in glob.glob(os.fspath(path), recursive=True) if (file := Path(name)).is_file()]
        if not found:
            raise DataError(f"{path} does not exist, and no file matches it; check the path")
        return sorted(found, key=_by_number)
    if find_kind(path) != "folder" or kind_of(path) is not None:
        return [Path(path)]
    try:
        inside = [file for file in Path(path).iterdir() if not file.name.startswith((".", "_")) and file.is_file()]
    except OSError as error:
        raise DataError(f"cannot read the folder {path}: {error.strerror or error}; check the path") from None
    if not inside:
        raise DataError(f"{path} is a folder with no files in it; name the files, or a pattern such as '{path}/*/*'")
    return sorted(inside, key=_by_number)


def _is_pattern(path: str | PathLike[str]) -> bool:
    return find_kind(path) == "nothing" and glob.has_magic(os.fspath(path))


def _by_number(file: Path) -> list[tuple[int, int, str]]:
    """Return a key that sorts part-2 before part-10."""
    words = re.split(r"(\d+)", str(file))
    return [(1, int(word), word) if word.isdecimal() else (0, 0, word) for word in words]
