"""Recognition of a file by its content: its format, and which of its columns are users, items, ratings and times.

A format is recognised only where no other reading of the file makes sense. Everything else is an error that says what
the first line looks like, and which options decide.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import get_args

from spherec.data.archive import is_scipy_archive
from spherec.data.read.delimited import SEPARATORS, split_fields
from spherec.data.read.formats import FORMATS, detect_format
from spherec.data.read.options import VALUE_NAMES, Columns, FormatName, Reading, run_options
from spherec.data.read.parquet import column_names, first_rows
from spherec.data.read.streaming import first_lines
from spherec.errors import DataError

_SHOWN = 60  # characters of a line in an error
_LOOKED_AT = 1000  # lines by which a list is recognised
_USER_WORDS = {"user", "users"}  # in the name of a file of CiteULike
_OTHER_WORDS = {"tag", "tags", "item", "items", "citation", "citations", "mult"}
_SEPARATOR_NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "|", "::": "::", " ": "spaces"}

# Usual names of columns, in lower case and without anything between words; an earlier group goes before a later one.
_USER_NAMES = (
    {"user", "userid", "uid", "useridx", "userindex", "userno", "useruuid"},
    {"reviewerid", "customerid", "visitorid", "memberid", "accountid", "personid", "listenerid", "readerid", "msno"},
    {"username", "customer", "reviewer", "listener", "member", "visitor", "reader", "users"},
    {"sessionid", "session"},
)
_ITEM_NAMES = (
    {"item", "itemid", "iid", "itemidx", "itemindex", "itemno"},
    {"parentasin"},
    {
        *("movieid", "filmid", "artistid", "bookid", "asin", "productid", "trackid", "songid"),
        *("gameid", "appid", "businessid", "recipeid", "articleid", "videoid", "newsid", "contentid", "poiid"),
        *("locationid", "venueid", "placeid", "restaurantid", "listingid", "animeid", "beerid", "jokeid", "sku"),
        *("stockcode", "productcode", "offerid", "postid", "repoid", "courseid", "eventitemid", "adid", "showid"),
    },
    {"isbn"},
    {"movie", "film", "artist", "book", "product", "track", "song", "game", "recipe", "article", "video", "items"},
)
_TIME_NAMES = {
    *("timestamp", "time", "ts", "date", "datetime", "unixreviewtime", "reviewtime", "unixtime", "createdat"),
    *("eventtime", "ratedat", "playedat"),
}
_KIND_NAMES = {
    *("event", "eventtype", "eventname", "behavior", "behaviortype", "behaviour", "behaviourtype"),
    *("action", "actiontype", "interaction", "interactiontype", "feedback", "reaction"),
}
_MOST_KINDS = 4  # named in a remark
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_VALUE = re.compile(rf"{_NUMBER.pattern}|true|false", re.IGNORECASE)
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z| UTC|[+-]\d{2}:?\d{2})?)?")
_AMAZON_DATE, _AMAZON_DATE_FORMAT = re.compile(r"\d{2} \d{1,2}, \d{4}"), "%m %d, %Y"
_RECBOLE_TYPE = re.compile(r":(?:token|float)(?:_seq)?$")
_NO_NAME = re.compile(rf"{_ISO_DATE.pattern}|[0-9a-f-]{{16,}}")  # nor is an id in hexadecimal digits
WORD_COUNT = re.compile(r"\d+:\d+(?:\.\d+)?")
"""A word and its count, as in CiteULike's mult.dat and in LIBSVM's files."""


@dataclass(frozen=True)
class Recognition:
    """A file as its content shows it, and the options to read it by."""

    reading: Reading
    "Options with the format and the columns that were found; `read_as` is empty where the caller had named them."
    layout: str = ""
    "A line of the file, in words."


def recognise_file(path: Path, reading: Reading) -> Recognition:
    """Return how to read a file whose format is "auto" or a kind of table."""
    name = detect_format(path) if reading.format == "auto" else reading.format
    if name == "parquet":
        names = column_names(path)
        return _recognise_table(path, reading, name, "a Parquet table", names, first_rows(path, names, 100))
    if reading.format == "auto" and is_scipy_archive(path):
        return _take_for("scipy", reading, "scipy sparse matrix", "a row is a user, a column an item")
    lines = first_lines(path, encoding=reading.encoding)
    if not lines or "\0" in lines[0]:
        return Recognition(replace(reading, format=name))  # whose reader says what is wrong
    if name == "json-lines" or (reading.format == "auto" and re.match(r'\s*\{\s*"', lines[0])):
        return _recognise_objects(path, lines, reading)
    has_layout = reading.columns != Columns() or reading.header or reading.separator
    if reading.format == "auto" and not has_layout:
        for recogniser in (_recognise_line, _recognise_list):
            found = recogniser(path, lines, reading)
            if found is not None:
                return found
    return _recognise_delimited(path, lines, reading)


def describe_undecided(path: Path, line: str, number: int = 1) -> str:
    """Return one sentence: how the first line looks, and which options say what the file is."""
    separator = _likely_separator(line)
    n_fields = len(line.split(separator))
    shown = f"{line[:_SHOWN]!r}{'…' if len(line) > _SHOWN else ''}"
    fields = f"{n_fields} fields separated by {_SEPARATOR_NAMES[separator]}" if n_fields > 1 else "a single field"
    names = ("user", "item", "rating", "time")
    header = ",".join((*names[: max(n_fields, 2)], "…") if n_fields > len(names) else names[: max(n_fields, 2)])
    formats = ", ".join(name for name in get_args(FormatName) if name != "auto")
    return (
        f"{path}, line {number}: {shown} has {fields} and no column names, so it does not show what the file is; name "
        f"its columns in their order with header= (--header {header}), or its format with format= (--format), one of "
        f"{formats}"
    )


def find_columns(names: Sequence[str], groups: Iterable[set[str]]) -> list[str]:
    """Return the columns whose names are among the first group that has any."""
    for group in groups:
        if hits := [name for name in names if _plain(name) in group]:
            return hits
    return []


def item_column(names: Sequence[str]) -> list[str]:
    """Return the columns that look like item ids."""
    return find_columns(names, _ITEM_NAMES)


# --- Formats of the field --------------------------------------------------------------------------------------------


def _take_for(name: FormatName, reading: Reading, title: str, layout: str) -> Recognition:
    known = FORMATS[name].known or Reading()
    found = replace(known, **(run_options(reading) | {"format": name, "read_as": title}))
    return Recognition(found if reading.encoding == "utf-8" else replace(found, encoding=reading.encoding), layout)


@dataclass(frozen=True)
class _LinePattern:
    """A format whose lines look like nothing else."""

    title: str
    layout: str
    line: str
    "Pattern of every line, or of the first where `is_header`."
    format: FormatName = "delimited"
    is_header: bool = False
    table: Reading = field(default_factory=Reading)
    "Options to read it by, if it is a table without a header."


def _table(columns: Columns, separator: str, *header: str, quotes: bool = False, kinds: str = "") -> Reading:
    return Reading(columns=columns, separator=separator, header=header, quotes=quotes, kinds=kinds)


_AMAZON_USER, _AMAZON_ITEM = r"A[A-Z\d]{8,20}", r"(?:B[A-Z\d]{9}|\d{9}[\dX])"
_MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"
_DEGREES = r"-?\d+(?:\.\d+)?"
_LINES = (
    _LinePattern(
        "Book-Crossing BX-Book-Ratings.csv",
        '"user";"isbn";"rating", latin-1',
        r'"?User-ID"?;"?ISBN"?;"?Book-Rating"?',
        "book-crossing",
        is_header=True,
    ),
    _LinePattern(
        "MovieLens ratings.csv",
        "userId,movieId,rating,timestamp",
        "userId,movieId,rating,timestamp",
        "movielens",
        is_header=True,
    ),
    _LinePattern(
        "MovieLens ratings.dat", "user::item::rating::time, no header", r"\d+::\d+::\d+(?:\.\d+)?::\d+", "movielens"
    ),
    _LinePattern(
        "MovieLens u.data",
        "user, item, rating, time; tabs, no header",
        r"\d+\t\d+\t(?:[0-4](?:\.\d)?|5(?:\.0)?)\t\d{8,10}",
        "movielens",
    ),
    _LinePattern(
        "Netflix Prize",
        "a movie and a colon, then lines of user,rating,date",
        r"\d+:|\d+,[1-5],\d{4}-\d\d-\d\d",
        "netflix",
    ),
    _LinePattern(
        "EchoNest train_triplets.txt",
        "user, song, plays; tabs, no header",
        r"[0-9a-f]{40}\tSO[A-Z0-9]{16}\t\d+",
        "echonest",
    ),
    _LinePattern(
        "Last.fm 360K",
        "user, artist id, artist, plays; tabs, no header; item: artist, because not all have an id",
        r"[0-9a-f]{40}\t(?:[0-9a-f-]{36})?\t[^\t]+\t ?\d+",
        table=_table(Columns("user", "artist", "plays"), "\t", "user", "artist_id", "artist", "plays"),
    ),
    _LinePattern(
        "Amazon ratings of 2014",
        "user,item,rating,time, no header",
        rf"{_AMAZON_USER},{_AMAZON_ITEM},\d(?:\.\d)?,\d+",
        "amazon-ratings",
    ),
    _LinePattern(
        "Amazon ratings of 2018",
        "item,user,rating,time, no header",
        rf"{_AMAZON_ITEM},{_AMAZON_USER},\d(?:\.\d)?,\d+",
        table=_table(Columns("user", "item", "rating", "time"), ",", "item", "user", "rating", "time"),
    ),
    _LinePattern(
        "YooChoose clicks",
        "session,time,item,category, no header; user: session",
        rf"\d+,{_MOMENT},\d+,(?:S|\d+)",
        table=_table(Columns("session", "item", time="time"), ",", "session", "time", "item", "category"),
    ),
    _LinePattern(
        "YooChoose buys",
        "session,time,item,price,quantity, no header; user: session",
        rf"\d+,{_MOMENT},\d+,\d+,\d+",
        table=_table(Columns("session", "item", time="time"), ",", "session", "time", "item", "price", "quantity"),
    ),
    _LinePattern(
        "check-ins of SNAP",
        "user, time, latitude, longitude, place; tabs, no header",
        rf"\d+\t{_MOMENT}\t{_DEGREES}\t{_DEGREES}\t\w+",
        table=_table(Columns("user", "place", time="time"), "\t", "user", "time", "latitude", "longitude", "place"),
    ),
    _LinePattern(
        "Steam 200k",
        "user,game,behaviour,hours,0, no header",
        r'\d+,(?:"[^"]*"|[^",]*),(?:purchase|play),\d+(?:\.\d+)?,0',
        table=_table(
            Columns("user", "game"),
            ",",
            *("user", "game", "behaviour", "hours", "zero"),
            quotes=True,
            kinds="purchase and play in column 'behaviour'",
        ),
    ),
)


def _recognise_line(path: Path, lines: list[str], reading: Reading) -> Recognition | None:  # noqa: ARG001
    sample = lines[:100]
    for pattern in _LINES:
        looked_at = sample[:1] if pattern.is_header else sample
        if not _matches(pattern.line, looked_at):
            continue
        if pattern.format != "delimited":
            return _take_for(pattern.format, reading, pattern.title, pattern.layout)
        options = run_options(reading) | {"encoding": reading.encoding, "format": "delimited", "read_as": pattern.title}
        return Recognition(replace(pattern.table, **options), pattern.layout)
    return None


def _matches(pattern: str | re.Pattern[str], lines: list[str]) -> bool:
    """Return whether the first line and nine of ten have this form: a damaged one is an error of the reader."""
    hits = [re.fullmatch(pattern, line.strip(" ")) is not None for line in lines]
    return hits[0] and sum(hits) >= 0.9 * len(hits)


def _recognise_list(path: Path, lines: list[str], reading: Reading) -> Recognition | None:
    """Recognise lines of whole numbers: `user item item …` or `count item item …`."""
    rows = [line.split() for line in lines[:_LOOKED_AT]]
    if any(WORD_COUNT.fullmatch(word) for word in rows[0][1:]):
        raise DataError(describe_word_count(path, 1, rows[0][1]))
    words = [word for row in rows for word in row]
    if not all(word.isascii() and word.isdigit() for word in words):
        return None
    widths = {len(row) for row in rows}
    heads = [int(row[0]) for row in rows]
    counted = [head == len(row) - 1 for head, row in zip(heads, rows, strict=True)]
    is_repeated = len(set(heads)) < len(heads)
    is_ascending = all(a < b for a, b in pairwise(heads))
    pairs_only = widths == {2}
    if len(widths) > 1 and sum(counted) >= 0.9 * len(rows) and (is_repeated or not is_ascending):
        return _recognise_counted(path, reading)
    if len(widths) > 1 and not is_repeated and not all(counted):
        return _take_for("adjacency", reading, "LightGCN train.txt", "user item item …, no header")
    if pairs_only and not all(counted):
        return _take_for("adjacency", reading, "pairs", "user item, no header")
    raise DataError(describe_undecided(path, lines[0]))


def _recognise_counted(path: Path, reading: Reading) -> Recognition:
    """Recognise lists of items by user; lists of anything else look the same, and only the name of the file tells."""
    words = set(re.findall("[a-z]+", path.name.lower()))
    if not words & _USER_WORDS and (others := words & _OTHER_WORDS):
        raise DataError(
            f"{path}: its lines are COUNT ITEM ITEM …, as in CiteULike's users.dat, but {min(others)!r} in its name "
            "says that they are no users; give the file with the items of each user, or if this is it, say so with "
            "format='citeulike' (--format citeulike)"
        )
    line = "is" if words & _USER_WORDS else "is assumed to be"
    layout = f"count item item …; a line {line} a user, numbered from 0"
    return _take_for("citeulike", reading, "CiteULike users.dat", layout)


def describe_word_count(path: Path, line: int, word: str) -> str:
    """Return one sentence about a word and its count where an item should be."""
    return (
        f"{path}, line {line}: {word!r} is a word and its count (CiteULike's mult.dat, LIBSVM), not an item; "
        "give the file that has users and items, such as users.dat"
    )


# --- Tables ----------------------------------------------------------------------------------------------------------


def _recognise_objects(path: Path, lines: list[str], reading: Reading) -> Recognition:
    """Recognise the keys of JSON lines."""
    objects = []
    for line in lines[:100]:
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            break  # the reader names the line
        if not isinstance(content, dict):
            break
        objects.append(content)
    keys = list({key: None for content in objects for key in content})
    is_plain = reading.format == "auto" and reading.columns == Columns()
    if is_plain and {"reviewerID", "asin", "overall", "unixReviewTime"} <= set(keys):
        return _take_for("amazon-reviews", reading, "Amazon reviews", "JSON lines with reviewerID, asin, overall")
    rows = [[_text(content.get(key)) for key in keys] for content in objects]
    return _recognise_table(path, reading, "json-lines", "JSON lines", keys, rows)


def _recognise_delimited(path: Path, lines: list[str], reading: Reading) -> Recognition:
    """Recognise the columns of delimited text by the names in its first line."""
    first, is_auto = lines[0], reading.format == "auto"
    if first.count('"') % 2 and ("\t" not in first or first.startswith('"')):
        return Recognition(replace(reading, format="delimited"))  # a record of several lines
    half_known = reading.columns
    for separator in (reading.separator,) if reading.separator else SEPARATORS:
        fields = split_fields(first, separator, reading)
        names = list(reading.header or fields)
        if len(names) != len(fields) or len(names) < 2:
            continue
        if reading.header is not None and _has_names(fields, names):
            raise DataError(
                f"{path}, line 1: {first[:_SHOWN]!r} has names of columns already, and under header= (--header) it "
                "would be an event; leave header out, and name the columns with user= and item= (--user-column, "
                "--item-column)"
            )
        half_known = _resolve_half(path, names, half_known)
        if _resolve(path, names, reading.columns) is not None:
            title = "RecBole .inter" if all(map(_RECBOLE_TYPE.search, names)) else "a table"
            rows = [split_fields(line, separator, reading) for line in lines[0 if reading.header else 1 :][:100]]
            return _recognise_table(path, reading, "delimited", title, names, rows)
    has_defaults = reading.columns.user == "user" and reading.columns.item == "item"
    is_text = "\ufffd" not in first  # otherwise the reader names the byte that is none
    if (
        is_auto
        and is_text
        and has_defaults
        and not reading.header
        and not reading.separator
        and not _is_header(first, reading)
    ):
        raise DataError(describe_undecided(path, first))
    return Recognition(replace(reading, format="delimited", columns=half_known))  # whose reader names what is missing


def _recognise_table(
    path: Path, reading: Reading, format: FormatName, title: str, names: Sequence[str], rows: Sequence[Sequence[str]]
) -> Recognition:
    """Fill in the columns of a table that the caller did not name."""
    columns = _resolve(path, names, reading.columns)

    def column(name: str) -> list[str]:
        position = list(names).index(name)
        return [row[position] for row in rows if position < len(row)]

    taken = (columns or reading.columns).names.values()
    free = [name for name in names if name not in taken]
    kinds = ""
    for name in (name for name in free if _plain(name) in _KIND_NAMES):
        different = list(dict.fromkeys(filter(None, column(name))))
        if len(different) > 1:
            kinds = f"{', '.join(different[:_MOST_KINDS])} in column {name!r}"
    reading = replace(reading, format=format, kinds=kinds)
    if columns is None or columns == reading.columns:
        return Recognition(reading)
    if columns.value is None and rows:
        values = [name for name in free if _plain(name) in VALUE_NAMES]
        if values and all(_VALUE.fullmatch(cell) for cell in column(values[0])):
            columns = replace(columns, value=values[0])
    if columns.time is None and rows:
        for name in (name for name in free if _plain(name) in _TIME_NAMES):
            if (how := _time_format(column(name))) is not None:
                columns = replace(columns, time=name, time_format=how or columns.time_format)
                reading = replace(reading, is_time_recognised=True)
                break
    roles = {"value": "rating", **{role: role for role in ("user", "item", "time")}}
    layout = ", ".join(
        f"{roles[role]}: {name if name == name.strip() else repr(name)}" for role, name in columns.names.items()
    )
    return Recognition(replace(reading, columns=columns, read_as=title), layout)


def _resolve(path: Path, names: Sequence[str], columns: Columns) -> Columns | None:
    """Return the columns of users and items that a table has: those named, or usual ones for the default names."""
    user, item = _one_column(path, names, columns.user, "user", _USER_NAMES), None
    if user is not None:
        item = _one_column(path, [name for name in names if name != user], columns.item, "item", _ITEM_NAMES)
    if user is None or item is None or {user, item} & {columns.value, columns.time}:
        return None
    return replace(columns, user=user, item=item)


def _resolve_half(path: Path, names: Sequence[str], columns: Columns) -> Columns:
    """Return the columns with whichever of user and item a table has, so that an error names the other one."""
    user = _one_column(path, names, columns.user, "user", _USER_NAMES) or columns.user
    item = _one_column(path, names, columns.item, "item", _ITEM_NAMES) or columns.item
    return columns if user == item else replace(columns, user=user, item=item)


def _one_column(path: Path, names: Sequence[str], wanted: str, role: str, groups: Iterable[set[str]]) -> str | None:
    if wanted in names or wanted != role:
        return wanted if wanted in names else None
    hits = find_columns(names, groups)
    if len(hits) > 1:
        both = " and ".join(map(repr, hits[:3]))
        raise DataError(
            f"{path}: columns {both} both look like the {role}; name the right one with {role}= (--{role}-column)"
        )
    return hits[0] if hits else None


def _has_names(fields: Sequence[str], header: Sequence[str]) -> bool:
    """Return whether a first line repeats the names that the caller gave, or has usual names of a user and an item."""
    return list(fields) == list(header) or bool(find_columns(fields, _USER_NAMES) and item_column(fields))


def _is_header(line: str, reading: Reading) -> bool:
    """Return whether a first line holds names: under its likeliest separator, no field is a number or lacks letters."""
    fields = [cell.strip() for cell in split_fields(line, _likely_separator(line), reading)]
    return all(re.search(r"[^\W\d]", cell) and not _NO_NAME.fullmatch(cell) for cell in fields if cell)


def _likely_separator(line: str) -> str:
    """Return a tab where there is one, or the most frequent separator; spaces are often inside fields."""
    return max(
        SEPARATORS, key=lambda one: (one == "\t" and one in line, line.count(one) * (one != " "), line.count(one))
    )


def _time_format(cells: list[str]) -> str | None:
    """Return "" for numbers and ISO dates, a pattern for the dates of Amazon, and None for anything else."""
    patterns = {_NUMBER: "", _ISO_DATE: "", _AMAZON_DATE: _AMAZON_DATE_FORMAT}
    for pattern, how in patterns.items():
        if cells and all(pattern.fullmatch(cell) for cell in cells):
            return how
    return None


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", _RECBOLE_TYPE.sub("", name.strip())).lower()


def _text(cell: object) -> str:
    return str(cell) if isinstance(cell, str | int | float) else ""
