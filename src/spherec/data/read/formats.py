"""Settings of reading, the files that a path stands for, and the known formats. Importing this brings no polars.

A new format is a function `(path, reading) -> Iterator[Rows]` in a file of this folder, and an entry in `FORMATS`.
"""

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from spherec.data.container import kind_of
from spherec.data.cuts import Cut
from spherec.data.event_weights import EventWeights
from spherec.data.events import Duplicates
from spherec.data.input_files import find_kind, refuse_unreadable
from spherec.data.read.database import Database, is_url
from spherec.errors import ArgumentError, DataError, describe_missing_column, quote, require_polars

if TYPE_CHECKING:
    import polars as pl

Paths = str | PathLike[str] | Iterable[str | PathLike[str]]
"""A file, a folder, a pattern such as `part-*.csv`, or several of these."""

Input = Path | Database
"""What a reader reads."""

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

_EVERYTHING = Cut()
_LAYOUT = ("user", "item", "value", "time", "time_format", "header", "separator", "quotes")
"""The settings that a known layout has of its own."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Settings of reading: the only list of them.

    Args:
        user: The column with the external ids of users. Ids in text files are strings: "007" is not 7. Where a table
            has no column of this default name, usual names (userId, reviewerID, …) are recognised.
        item: The column with the external ids of items; likewise (movieId, asin, …).
        value: A column with ratings or counts, used by `cut`. What passes the cut is an interaction. If the table
            seems to have such a column, but it is not named here, an `UnreadValuesWarning` is issued. If a format has
            ratings and `cut` has no `min_value`, an `UncutValuesWarning` says that low ratings count, too.
        time: A column with numbers or dates, for splits by time.
        time_format: The pattern of dates that are not ISO, for strptime: "%m %d, %Y".
        name: A column with the names of items; where an item has several, the last one counts.
        format: "auto" goes by the file's content; the first of `steps` says what it was taken for. The formats of the
            field ("book-crossing", "movielens", "echonest", …; see `spherec data prepare --help`) know their own
            columns.
        header: The names of all columns, for delimited text that has none in its first line.
        separator: The separator of columns; tab, comma, semicolon, |, :: and space are recognised by default.
        quotes: Whether double quotes enclose fields. By default they do, unless the file is tab-separated and its
            header has none; False takes them for ordinary characters.
        encoding: The encoding of a text file.
        missing: "error" refuses rows without user or item; "drop" leaves them out and counts them in `steps`.
        duplicates: How repeated pairs are merged: "last" (default for ratings) or "sum" (default without values:
            repeats are counted). Without a choice, a `DuplicatePairsWarning` names their number.
        cut: Which events count, e.g. `Cut(min_value=4, min_per_user=20)`; by default all.
        weigh: Keep the ratings or counts, and weigh pairs by them in training. By default only if the file is prepared
            with weights; False leaves those out.
        event: A column with the kind of each event, such as view or purchase; needs `weights`.
        weights: The weight of each kind that counts, e.g. {"view": 1, "cart": 3, "purchase": 10}. A pair weighs the sum
            of its events, in training too unless `weigh` is False. Other kinds are left out and counted. A pair below 0
            is a dislike: it is no positive, and the item is never recommended to that user.
        cancels: Kinds that take back the latest earlier event of another kind, e.g. {"refund": "purchase"}.
        query: The query whose answer is read, where the path is the address of a database without `?table=NAME`.
        half_life: The age at which an event weighs half, counted from the newest event: "90d", "12h", or a number in
            the unit of the times. Without `event`, each event weighs 1 before that.
        max_weight: The largest weight of a pair.
        limit: Number of rows after which to stop.
        progress: Called with the bytes read so far and in all.
        report: Called with remarks: what a file was taken for, lines that are left out.
    """

    user: str = "user"
    item: str = "item"
    value: str | None = None
    time: str | None = None
    time_format: str | None = None
    name: str | None = None
    format: FormatName = "auto"
    header: Sequence[str] | None = None
    separator: str | None = None
    quotes: bool | None = None
    encoding: str = "utf-8"
    missing: Missing = "error"
    duplicates: Duplicates | None = None
    cut: Cut = _EVERYTHING
    weigh: bool | None = None
    event: str | None = None
    weights: Mapping[str, float] | None = None
    cancels: Mapping[str, str] | None = None
    half_life: str | float | None = None
    max_weight: float | None = None
    query: str | None = None
    limit: int | None = None
    progress: ReadProgress | None = None
    report: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        names = list(self.roles.values())
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise ArgumentError(f"each role needs the name of a column of its own, got {self.roles}")

    @property
    def roles(self) -> dict[str, str]:
        """The named columns by role."""
        roles = {"user": self.user, "item": self.item, "value": self.value, "time": self.time}
        roles |= {"name": self.name, "event": self.event}
        return {role: name for role, name in roles.items() if name is not None}

    @property
    def weigher(self) -> EventWeights | None:
        """Weights of events by kind and age; None where they are merged by `duplicates`."""
        return EventWeights.of(vars(self))

    @property
    def is_plain(self) -> bool:
        """True if no column is named, and no layout of text."""
        return all(getattr(self, name) == getattr(Reading, name) for name in _LAYOUT if name != "quotes")

    def refuse_layout(self, what: str, *others: str) -> None:
        """Raise an `ArgumentError` if columns, their layout or `others` were named where that would be ignored."""
        names = (*_LAYOUT, "encoding", *others)
        given = {name: value for name in names if (value := getattr(self, name)) != getattr(Reading, name)}
        if given:
            shown = ", ".join(f"{name}={quote(value)}" for name, value in given.items())
            raise ArgumentError(f"{what} knows its own columns; leave out {shown}")


@dataclass(frozen=True, kw_only=True)
class FilePlan(Reading):
    """The settings for one file, with what its content shows; or the layout of the files of a publisher."""

    read_as: str = ""
    "Name of what the file was taken for, where 'auto' found out."
    described: str = ""
    "Such a file, or its columns, in words."
    line: str = ""
    "Pattern that every line has, or the first if that has the header; without one, `recognition` knows the file."
    escape: str = ""
    "Character before a double quote inside a quoted field, where that is not another double quote."
    is_time_recognised: bool = False
    "True if 'auto' found the column of times: one that cannot be read is then left out."
    kinds: str = ""
    "Kinds of events, which all count alike, in words."
    columns: Mapping[str, str] | None = None
    "Names of the columns to read by role, where they are not those of events."
    options: str = "columns are named by --user-column, --item-column, …"
    "Options of the command line that name columns, for errors."

    @property
    def roles(self) -> dict[str, str]:
        """The names of the columns to read by role."""
        return super().roles if self.columns is None else dict(self.columns)

    def refuse_missing(self, path: Path, names: list[str], hint: str = "") -> None:
        """Raise a `DataError` unless a table with these columns has all that are to be read."""
        if absent := [name for name in self.roles.values() if name not in names]:
            raise DataError(f"{path}: {describe_missing_column(absent[0], names)} ({self.options}{hint})")

    def apply(self, reading: Reading) -> "FilePlan":
        """Return the settings with this layout; an encoding that the caller named goes before its own."""
        own = {name: getattr(self, name) for name in (*_LAYOUT, "escape", "kinds")}
        own["encoding"] = self.encoding if reading.encoding == "utf-8" else reading.encoding
        return FilePlan(**{**vars(reading), **own})


def find_value(names: Iterable[str], others: Iterable[str] = ()) -> str | None:
    """Return the first of a table's columns, except `others`, whose name suggests ratings or counts."""
    free = (name for name in names if name not in others)
    return next((name for name in free if re.sub(r"[\W_]", "", name).lower() in VALUE_NAMES), None)


def list_inputs(paths: Paths, query: str | None) -> list[Path] | list[Database]:
    """Return the files that paths stand for, or the database, of which `query` asks for events."""
    several = list(paths) if isinstance(paths, Iterable) and not isinstance(paths, str) else [paths]
    databases = [Database.parse(str(path), query) for path in several if is_url(path)]
    if databases and len(several) > 1:
        raise ArgumentError(f"a database is read alone, got {len(several)} paths; name one")
    if query is not None and not databases:
        raise ArgumentError("query= (--query) needs the address of a database, such as sqlite:///shop.db")
    return databases or list_files(several)


def list_files(paths: Paths) -> list[Path]:
    """Return the files that paths stand for.

    A folder stands for the files in it, and a pattern with * ? [ for those that match, both by name, with numbers in
    their order: part-2 before part-10. Hidden files, those that begin with an underscore (markers of other programs)
    and folders inside a folder are left out. A list keeps its order. A path that exists is never a pattern. The folder
    of a partitioned data set stands for itself.
    """
    several = paths if isinstance(paths, Iterable) and not isinstance(paths, str) else [paths]
    files = [file for path in several for file in _expand(path)]
    if len(set(map(os.path.realpath, files))) < max(len(files), 1):
        raise ArgumentError(f"name at least one file, and each once, got {quote(list(map(str, files)))}")
    return files


def describe_files(files: Sequence[Input]) -> str:
    """Return the name of the file, or the first of several and their number, for messages."""
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1:,} more"


def _expand(path: str | PathLike[str]) -> list[Path]:
    kind = find_kind(path)
    if kind == "nothing" and glob.has_magic(os.fspath(path)):
        found = [Path(name) for name in glob.glob(os.fspath(path), recursive=True)]
    elif kind == "folder" and kind_of(path) is None:
        found = [file for file in Path(path).iterdir() if not file.name.startswith((".", "_"))]
    else:
        return [Path(path)]
    files = [file for file in found if file.is_file()]
    if not files:
        raise DataError(f"no file is in {path} or matches it; check the path, or name a pattern such as 'folder/*/*'")
    return sorted(files, key=_by_number)


def _by_number(file: Path) -> list[tuple[int, int, str]]:
    """Return a key that sorts part-2 before part-10."""
    words = re.split(r"(\d+)", str(file))
    return [(1, int(word), word) if word.isdecimal() else (0, 0, word) for word in words]


# --- Formats ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Some rows of a file, as its reader yields them."""

    frame: "pl.DataFrame"
    "Columns called user, item, and perhaps value and time."
    locate: Callable[[int, str], tuple[str, object]]
    'Returns the place of a row of the frame, such as "line 7", and the cell of a role. Slow: for errors only.'
    names: Sequence[str] = ()
    "All columns of the table."
    without_items: tuple[int, str] = (0, "")
    "Number of lines or rows that have no items, and what they are."


@dataclass(frozen=True)
class FileFormat:
    """A file format."""

    duplicates: Duplicates | None = None
    "Rule for repeated pairs: play counts and repeats are summed, of ratings the last is kept. None: by the values."
    layouts: tuple[FilePlan, ...] = ()
    "Layouts of public files; none for tables, whose columns the caller names."
    reader: str = "delimited.read_rows"
    "File of this folder, and its function that yields the rows."
    orders_numbers: bool = False
    "True if ids that are whole numbers keep their order: 2 before 10."


def _text(read_as: str, line: str, header: str, *, note: str = "", quotes: bool = False, **settings: Any) -> FilePlan:
    """Return the layout of text without a header; `header` has the names of its columns between its separators."""
    separator = next(one for one in ("\t", "::", ",") if one in header)
    described = f"{header.replace(separator, ', ')}; tabs" if separator == "\t" else header
    settings |= {"header": tuple(header.split(separator)), "separator": separator, "quotes": quotes}
    return FilePlan(read_as=read_as, described=f"{described}, no header{note}", line=line, **settings)


_AMAZON_USER, _AMAZON_ITEM = r"A[A-Z\d]{8,20}", r"(?:B[A-Z\d]{9}|\d{9}[\dX])"
_MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"
_DEGREES = r"-?\d+(?:\.\d+)?"
_RATED: dict[str, Any] = {"value": "rating", "time": "time"}

# fmt: off
_BOOK_CROSSING = FilePlan(
    read_as="Book-Crossing BX-Book-Ratings.csv", described='"user";"isbn";"rating", latin-1',
    line=r'"?User-ID"?;"?ISBN"?;"?Book-Rating"?', user="User-ID", item="ISBN", value="Book-Rating",
    separator=";", quotes=True, escape="\\", encoding="latin-1",
)

FORMATS: dict[FormatName, FileFormat] = {
    "delimited": FileFormat(),
    "json-lines": FileFormat(reader="json_lines.read_rows"),
    "parquet": FileFormat(reader="parquet.read_rows"),
    "database": FileFormat(reader="database.read_rows"),
    "book-crossing": FileFormat("last", (_BOOK_CROSSING,)),
    "echonest": FileFormat("sum", (
        _text("EchoNest train_triplets.txt", r"[0-9a-f]{40}\tSO[A-Z0-9]{16}\t\d+", "user\tsong\tplays",
              item="song", value="plays"),
    )),
    "amazon-ratings": FileFormat("last", (
        _text("Amazon ratings of 2014", rf"{_AMAZON_USER},{_AMAZON_ITEM},\d(?:\.\d)?,\d+", "user,item,rating,time",
              **_RATED),
        _text("Amazon ratings of 2018", rf"{_AMAZON_ITEM},{_AMAZON_USER},\d(?:\.\d)?,\d+", "item,user,rating,time",
              **_RATED),
    )),
    "movielens": FileFormat("last", (
        _text("MovieLens ratings.dat", r"\d+::\d+::\d+(?:\.\d+)?::\d+", "user::item::rating::time", **_RATED),
        _text("MovieLens u.data", r"\d+\t\d+\t(?:[0-4](?:\.\d)?|5(?:\.0)?)\t\d{8,10}", "user\titem\trating\ttime",
              **_RATED),
    )),
    "lastfm-360k": FileFormat(None, (
        _text("Last.fm 360K", r"[0-9a-f]{40}\t(?:[0-9a-f-]{36})?\t[^\t]+\t ?\d+", "user\tartist_id\tartist\tplays",
              item="artist", value="plays", note="; item: artist, because not all have an id"),
    )),
    "snap-checkins": FileFormat(None, (
        _text("check-ins of SNAP", rf"\d+\t{_MOMENT}\t{_DEGREES}\t{_DEGREES}\t\w+",
              "user\ttime\tlatitude\tlongitude\tplace", item="place", time="time"),
    )),
    "steam-200k": FileFormat(None, (
        _text("Steam 200k", r'\d+,(?:"[^"]*"|[^",]*),(?:purchase|play),\d+(?:\.\d+)?,0',
              "user,game,behaviour,hours,zero", item="game", quotes=True,
              kinds="purchase and play in column 'behaviour'"),
    )),
    "adjacency": FileFormat("sum", (FilePlan(read_as="LightGCN train.txt", described="user item item …, no header"),),
                            "lists.read_rows", orders_numbers=True),
    "citeulike": FileFormat("sum", (FilePlan(read_as="CiteULike users.dat", described="count item item …"),),
                            "lists.read_rows", orders_numbers=True),
}
# fmt: on
"""All formats by name."""


def reader_of(name: FormatName) -> Callable[..., Iterator[Rows]]:
    """Return the function that yields the rows of a file of a format."""
    module, _, function = FORMATS[name].reader.partition(".")
    return getattr(import_module(f"spherec.data.read.{module}"), function)  # type: ignore[no-any-return]


def is_parquet(path: Path) -> bool:
    """Return whether a file begins as Parquet does, under any name."""
    refuse_unreadable(path)
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def refuse_without_polars() -> None:
    """Raise an error where polars is not installed, or cannot be used in this process."""
    require_polars("reading raw files, unlike prepared ones,")
