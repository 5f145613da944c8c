"""Options of reading, the files that a path stands for, and the known formats. Importing this brings no polars.

A new format is an entry in `FORMATS`. One that is not delimited text also has a function `read_rows(path, reading)` in
a file of this folder, which yields `Rows`.
"""

import glob
import os
import re
import zipfile
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from spherec.data.container import kind_of
from spherec.data.cuts import Cut
from spherec.data.events import Duplicates
from spherec.data.input_files import find_kind, refuse_unreadable
from spherec.errors import ArgumentError, DataError, quote, require_polars

if TYPE_CHECKING:
    import polars as pl

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
        names = list(self.names.values())
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise ArgumentError(f"each role needs the name of a column of its own, got {self.names}")

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
    described: str = ""
    "How such a file looks, or its columns, in words."
    escape: str = ""
    "Character before a double quote inside a quoted field, where that is not another double quote."
    is_time_recognised: bool = False
    "True if 'auto' found the column of times: one that cannot be read is then left out."
    kinds: str = ""
    "Kinds of events, which all count alike, in words."

    def __post_init__(self) -> None:
        if self.items is not None and self.cut.min_per_item:
            raise ArgumentError(f"min_per_item={self.cut.min_per_item} drops what items= adds; leave one out")

    def refuse_layout(self, what: str, *others: str) -> None:
        """Raise an `ArgumentError` if columns, their layout or `others` were named where that would be ignored."""
        names = ("header", "separator", "quotes", "encoding", *others)
        given = {name: value for name, value in vars(self.columns).items() if value != getattr(Columns(), name)}
        given |= {name: value for name in names if (value := getattr(self, name)) != getattr(Reading(), name)}
        if given:
            shown = ", ".join(f"{name}={quote(value)}" for name, value in given.items())
            raise ArgumentError(f"{what} knows its own columns; leave out {shown}")


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


def describe_files(files: Sequence[Path]) -> str:
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
    catalogue: NDArray[Any] | None = None
    "Ids of all items, if those that nobody has stay."


@dataclass(frozen=True)
class Layout:
    """Layout of the files of a publisher."""

    title: str
    described: str
    "A line of the file, in words."
    line: str = ""
    "Pattern that every line has, or the first if that has the header; without one, `recognition` knows the file."
    columns: Columns = field(default_factory=Columns)
    separator: str | None = None
    header: tuple[str, ...] | None = None
    "Names of all columns, of a file that has none; None if its first line has them."
    quotes: bool = False
    escape: str = ""
    encoding: str = "utf-8"
    kinds: str = ""
    "Kinds of events, which all count alike, in words."

    def apply(self, reading: Reading) -> Reading:
        """Return the options with this layout; an encoding that the caller named goes before its own."""
        names = ("columns", "separator", "header", "quotes", "escape", "kinds")
        encoding = self.encoding if reading.encoding == "utf-8" else reading.encoding
        return replace(reading, encoding=encoding, **{name: getattr(self, name) for name in names})

    def fits(self, line: str) -> bool:
        """Return whether the first line of a file has as many fields as this layout."""
        return bool(self.header and self.separator) and line.count(str(self.separator)) + 1 == len(self.header or ())


@dataclass(frozen=True)
class FileFormat:
    """A file format."""

    module: str = "delimited"
    "File of this folder that reads it."
    duplicates: Duplicates | None = None
    "Rule for repeated pairs: play counts and repeats are summed, of ratings the last is kept. None: by the values."
    layouts: tuple[Layout, ...] = ()
    "Layouts of public files; none for tables, whose columns the caller names."
    suffixes: tuple[str, ...] = ()
    "Endings of file names by which 'auto' recognises the format."
    magic: bytes = b""
    "First bytes by which 'auto' recognises the format."
    orders_numbers: bool = False
    "True if ids that are whole numbers keep their order: 2 before 10."


def _text(duplicates: Duplicates | None, *layouts: Layout) -> FileFormat:
    return FileFormat("delimited", duplicates, layouts)


def _names(header: str) -> tuple[str, ...]:
    return tuple(header.split(","))


_RATED = Columns("user", "item", "rating", "time")
_SESSION = Columns("session", "item", time="time")
_AMAZON_USER, _AMAZON_ITEM = r"A[A-Z\d]{8,20}", r"(?:B[A-Z\d]{9}|\d{9}[\dX])"
_MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"
_DEGREES = r"-?\d+(?:\.\d+)?"

# fmt: off
_BOOK_CROSSING = Layout(
    "Book-Crossing BX-Book-Ratings.csv", '"user";"isbn";"rating", latin-1', r'"?User-ID"?;"?ISBN"?;"?Book-Rating"?',
    Columns("User-ID", "ISBN", "Book-Rating"), ";", quotes=True, escape="\\", encoding="latin-1",
)
_ECHONEST = Layout(
    "EchoNest train_triplets.txt", "user, song, plays; tabs, no header", r"[0-9a-f]{40}\tSO[A-Z0-9]{16}\t\d+",
    Columns("user", "song", "plays"), "\t", _names("user,song,plays"),
)
_AMAZON_2014 = Layout(
    "Amazon ratings of 2014", "user,item,rating,time, no header",
    rf"{_AMAZON_USER},{_AMAZON_ITEM},\d(?:\.\d)?,\d+", _RATED, ",", _names("user,item,rating,time"),
)
_AMAZON_2018 = Layout(
    "Amazon ratings of 2018", "item,user,rating,time, no header",
    rf"{_AMAZON_ITEM},{_AMAZON_USER},\d(?:\.\d)?,\d+", _RATED, ",", _names("item,user,rating,time"),
)
_AMAZON_REVIEWS = Layout(
    "Amazon reviews", "JSON lines with reviewerID, asin, overall",
    columns=Columns("reviewerID", "asin", "overall", "unixReviewTime"),
)
_MOVIELENS = (
    Layout(
        "MovieLens ratings.csv", "userId,movieId,rating,timestamp", "userId,movieId,rating,timestamp",
        Columns("userId", "movieId", "rating", "timestamp"), ",",
    ),
    Layout(
        "MovieLens ratings.dat", "user::item::rating::time, no header", r"\d+::\d+::\d+(?:\.\d+)?::\d+",
        _RATED, "::", _names("user,item,rating,time"),
    ),
    Layout(
        "MovieLens u.data", "user, item, rating, time; tabs, no header",
        r"\d+\t\d+\t(?:[0-4](?:\.\d)?|5(?:\.0)?)\t\d{8,10}", _RATED, "\t", _names("user,item,rating,time"),
    ),
)
_NETFLIX = Layout(
    "Netflix Prize", "a movie and a colon, then lines of user,rating,date", r"\d+:|\d+,[1-5],\d{4}-\d\d-\d\d",
    Columns(value="rating", time="date"), header=(),
)
_LASTFM = Layout(
    "Last.fm 360K", "user, artist id, artist, plays; tabs, no header; item: artist, because not all have an id",
    r"[0-9a-f]{40}\t(?:[0-9a-f-]{36})?\t[^\t]+\t ?\d+",
    Columns("user", "artist", "plays"), "\t", _names("user,artist_id,artist,plays"),
)
_CLICKS = Layout(
    "YooChoose clicks", "session,time,item,category, no header; user: session", rf"\d+,{_MOMENT},\d+,(?:S|\d+)",
    _SESSION, ",", _names("session,time,item,category"),
)
_BUYS = Layout(
    "YooChoose buys", "session,time,item,price,quantity, no header; user: session", rf"\d+,{_MOMENT},\d+,\d+,\d+",
    _SESSION, ",", _names("session,time,item,price,quantity"),
)
_CHECK_INS = Layout(
    "check-ins of SNAP", "user, time, latitude, longitude, place; tabs, no header",
    rf"\d+\t{_MOMENT}\t{_DEGREES}\t{_DEGREES}\t\w+",
    Columns("user", "place", time="time"), "\t", _names("user,time,latitude,longitude,place"),
)
_STEAM = Layout(
    "Steam 200k", "user,game,behaviour,hours,0, no header",
    r'\d+,(?:"[^"]*"|[^",]*),(?:purchase|play),\d+(?:\.\d+)?,0',
    Columns("user", "game"), ",", _names("user,game,behaviour,hours,zero"), quotes=True,
    kinds="purchase and play in column 'behaviour'",
)
_LIGHTGCN = Layout("LightGCN train.txt", "user item item …, no header")
_CITEULIKE = Layout("CiteULike users.dat", "count item item …")
_SCIPY = Layout("scipy sparse matrix", "a row is a user, a column an item")
# fmt: on

FORMATS: dict[FormatName, FileFormat] = {
    "delimited": FileFormat(),
    "json-lines": FileFormat("json_lines", suffixes=(".jsonl", ".ndjson", ".json")),
    "parquet": FileFormat("parquet", suffixes=(".parquet", ".pq"), magic=b"PAR1"),
    "book-crossing": _text("last", _BOOK_CROSSING),
    "echonest": _text("sum", _ECHONEST),
    "amazon-ratings": _text("last", _AMAZON_2014, _AMAZON_2018),
    "amazon-reviews": FileFormat("json_lines", "last", (_AMAZON_REVIEWS,)),
    "movielens": _text("last", *_MOVIELENS),
    "netflix": FileFormat("netflix", "last", (_NETFLIX,)),
    "lastfm-360k": _text(None, _LASTFM),
    "yoochoose": _text(None, _CLICKS, _BUYS),
    "snap-checkins": _text(None, _CHECK_INS),
    "steam-200k": _text(None, _STEAM),
    "adjacency": FileFormat("lists", "sum", (_LIGHTGCN,), orders_numbers=True),
    "citeulike": FileFormat("lists", "sum", (_CITEULIKE,), orders_numbers=True),
    "scipy": FileFormat("scipy_matrix", "sum", (_SCIPY,)),
}
"""All formats by name."""


def reader_of(name: FormatName) -> Callable[..., Iterator[Rows]]:
    """Return the function that yields the rows of a file of a format."""
    module = import_module(f"spherec.data.read.{FORMATS[name].module}")
    return module.read_rows  # type: ignore[no-any-return]


def detect_format(path: Path) -> FormatName:
    """Return the format that the file's first bytes or its name show; Parquet often comes without a suffix."""
    refuse_unreadable(path)
    with path.open("rb") as file:
        begin = file.read(4)
    if begin == b"PK\x03\x04" and is_scipy_matrix(path):
        return "scipy"
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    by_magic = [name for name, known in FORMATS.items() if known.magic and begin == known.magic]
    by_name = [name for name, known in FORMATS.items() if suffixes and suffixes[-1] in known.suffixes]
    return [*by_magic, *by_name, "delimited"][0]


def is_scipy_matrix(path: str | PathLike[str]) -> bool:
    """Return whether the path is a sparse matrix that `scipy.sparse.save_npz` wrote."""
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        return {"format.npy", "shape.npy", "data.npy"} <= set(archive.namelist())
    return False


def refuse_without_polars() -> None:
    """Raise an error where polars is not installed, or cannot be used in this process."""
    require_polars("reading raw files, unlike prepared ones,")
