"""The formats that `read` knows, and the public files among them. Importing this brings no polars.

A new format is an entry in `FORMATS`. One that is not delimited text also has a file in this folder, with a function
`read_rows(path, reading) -> Iterator[Rows]`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from spherec.data.events import Duplicates
from spherec.data.input_files import refuse_unreadable
from spherec.data.read.options import Columns, FormatName, Reading
from spherec.errors import require_polars

if TYPE_CHECKING:
    from spherec.data.read.collector import Rows  # brings polars


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
    "adjacency": FileFormat("adjacency", "sum", (_LIGHTGCN,), orders_numbers=True),
    "citeulike": FileFormat("citeulike", "sum", (_CITEULIKE,), orders_numbers=True),
    "scipy": FileFormat("scipy_matrix", "sum", (_SCIPY,)),
}
"""All formats by name."""


def reader_of(name: FormatName) -> "Callable[[Path, Reading], Iterator[Rows]]":
    """Return the function that yields the rows of a file of a format."""
    module = import_module(f"spherec.data.read.{FORMATS[name].module}")
    return module.read_rows  # type: ignore[no-any-return]


def detect_format(path: Path) -> FormatName:
    """Return the format that the file's first bytes or its name show; Parquet often comes without a suffix."""
    refuse_unreadable(path)
    with path.open("rb") as file:
        begin = file.read(4)
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    for name, file_format in FORMATS.items():
        if file_format.magic and begin == file_format.magic:
            return name
    for name, file_format in FORMATS.items():
        if suffixes and suffixes[-1] in file_format.suffixes:
            return name
    return "delimited"


def refuse_without_polars() -> None:
    """Raise an error where polars is not installed, or cannot be used in this process."""
    require_polars("reading raw files, unlike prepared ones,")
