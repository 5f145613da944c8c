"""Recognition of a file by its content: its format, and which of its columns are users, items, ratings and times.

A format is recognised only where no other reading of the file makes sense. Everything else is an error that says what
the first line looks like, and which options decide.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from spherec.data.read.adjacency import WORD_COUNT, describe_word_count
from spherec.data.read.delimited import SEPARATORS, Table, list_tables
from spherec.data.read.formats import FORMATS, Layout, detect_format
from spherec.data.read.options import VALUE_NAMES, Columns, FormatName, Reading
from spherec.data.read.parquet import column_names, first_rows
from spherec.data.read.scipy_matrix import is_scipy_matrix
from spherec.data.read.streaming import first_lines
from spherec.errors import DataError, EmptyFileError

Recognition = tuple[Reading, str]
"""A way to read a file (`read_as` is empty where the caller had named its columns), and a line of it in words."""

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
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z| UTC|[+-]\d{2}:?\d{2})?)?"
_VALUE = rf"(?i:{_NUMBER}|true|false)"
_TIMES = {_NUMBER: None, _ISO_DATE: None, r"\d{2} \d{1,2}, \d{4}": "%m %d, %Y"}  # and their formats; the last: Amazon's
_RECBOLE_TYPE = re.compile(r":(?:token|float)(?:_seq)?$")
_NO_NAME = re.compile(rf"{_ISO_DATE}|[0-9a-f-]{{16,}}")  # nor is an id in hexadecimal digits


def recognise_file(path: Path, reading: Reading) -> Recognition:
    """Return how to read a file whose format is "auto" or a kind of table."""
    is_auto = reading.format == "auto"
    name = detect_format(path) if is_auto else reading.format
    if name == "parquet":
        return _recognise_table(reading, name, "a Parquet table", path, column_names(path), first_rows(path, 100))
    if is_auto and is_scipy_matrix(path):
        return _take_for("scipy", reading)
    lines = first_lines(path, encoding=reading.encoding)
    if name == "json-lines" or (is_auto and lines and re.match(r'\s*\{\s*"', lines[0])):
        return _recognise_objects(path, lines, reading)
    has_layout = reading.columns != Columns() or reading.header or reading.separator
    if (
        is_auto
        and lines
        and not has_layout
        and (found := _recognise_layout(lines, reading) or _recognise_list(path, lines, reading))
    ):
        return found
    return _recognise_delimited(path, reading)


def choose_layout(path: Path, reading: Reading) -> Reading:
    """Return how to read a file whose format the caller named, by that of its layouts which its first line has."""
    layouts = FORMATS[reading.format].layouts
    if len(layouts) == 1:
        return layouts[0].apply(reading)
    lines = first_lines(path)
    if not lines:
        raise EmptyFileError(f"{path} holds no text; give a file with events")
    first = lines[0]
    likely = [layout for layout in layouts if re.fullmatch(layout.line, first)]
    likely += [layout for layout in layouts if layout.fits(first)]
    if not likely:
        known = " or ".join(layout.described for layout in layouts)
        raise DataError(f"{path}, line 1: {first[:_SHOWN]!r} is not {reading.format} ({known}); name its columns")
    return likely[0].apply(reading)


def describe_undecided(path: Path, line: str) -> str:
    """Return one sentence: how the first line looks, and which options say what the file is."""
    separator = _likely_separator(line)
    n_fields = len(line.split(separator))
    shown = f"{line[:_SHOWN]!r}{'…' if len(line) > _SHOWN else ''}"
    fields = f"{n_fields} fields separated by {_SEPARATOR_NAMES[separator]}" if n_fields > 1 else "a single field"
    header = ",".join(("user", "item", "rating", "time", "…")[: max(n_fields, 2)])
    return (
        f"{path}, line 1: {shown} has {fields} and no column names, so it does not show what the file is; name "
        f"its columns in their order with header= (--header {header}), or its format with format= (--format), one of "
        f"{', '.join(FORMATS)}"
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


def read_objects(lines: Sequence[str]) -> list[dict[str, object]]:
    """Return the objects of the first lines of JSON, up to one that is none."""
    objects: list[dict[str, object]] = []
    for line in lines[:100]:
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            break  # the reader names the line
        if not isinstance(content, dict):
            break
        objects.append(content)
    return objects


# --- Formats of the field --------------------------------------------------------------------------------------------


def _take_for(name: FormatName, reading: Reading, layout: Layout | None = None) -> Recognition:
    layout = layout or FORMATS[name].layouts[0]
    return replace(layout.apply(reading), format=name, read_as=layout.title), layout.described


def _recognise_layout(lines: list[str], reading: Reading) -> Recognition | None:
    """Recognise a file whose first line and nine of ten look like nothing else: a damaged one is the reader's error."""
    for name, file_format in FORMATS.items():
        for layout in file_format.layouts:
            sample = lines[:1] if layout.header is None else lines[:100]
            hits = [re.fullmatch(layout.line, line.strip(" ")) is not None for line in sample]
            if hits[0] and sum(hits) >= 0.9 * len(hits):
                return _take_for(name, reading, layout)
    return None


def _recognise_list(path: Path, lines: list[str], reading: Reading) -> Recognition | None:
    """Recognise lines of whole numbers: `user item item …` or `count item item …`."""
    rows = [line.split() for line in lines[:_LOOKED_AT]]
    if any(WORD_COUNT.fullmatch(word) for word in rows[0][1:]):
        raise DataError(describe_word_count(path, 1, rows[0][1]))
    if not all(word.isascii() and word.isdigit() for row in rows for word in row):
        return None
    widths, heads = {len(row) for row in rows}, [int(row[0]) for row in rows]
    counted = [head == len(row) - 1 for head, row in zip(heads, rows, strict=True)]
    is_repeated = len(set(heads)) < len(heads)
    is_ascending = all(a < b for a, b in pairwise(heads))
    if len(widths) > 1 and sum(counted) >= 0.9 * len(rows) and (is_repeated or not is_ascending):
        return _recognise_counted(path, reading)
    if len(widths) > 1 and not is_repeated and not all(counted):
        return _take_for("adjacency", reading)
    if widths == {2} and not all(counted):
        return replace(_take_for("adjacency", reading)[0], read_as="pairs"), "user item, no header"
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
    found, described = _take_for("citeulike", reading)
    return found, f"{described}; a line {line} a user, numbered from 0"


# --- Tables ----------------------------------------------------------------------------------------------------------


def _recognise_objects(path: Path, lines: list[str], reading: Reading) -> Recognition:
    """Recognise the keys of JSON lines."""
    objects = read_objects(lines)
    keys = list({key: None for content in objects for key in content})
    is_plain = reading.format == "auto" and reading.columns == Columns()
    if is_plain and {"reviewerID", "asin", "overall", "unixReviewTime"} <= set(keys):
        return _take_for("amazon-reviews", reading)
    cells = [[content.get(key) for key in keys] for content in objects]
    rows = [[str(cell) if isinstance(cell, str | int | float) else "" for cell in row] for row in cells]
    return _recognise_table(reading, "json-lines", "JSON lines", path, keys, rows)


def _recognise_delimited(path: Path, reading: Reading) -> Recognition:
    """Recognise the columns of delimited text by the names in its first record."""
    tables = list_tables(path, reading)
    half_known = reading.columns
    for table in tables:
        names, first = table.names, table.first
        if len(names) != len(first) or len(names) < 2:
            continue
        if reading.header is not None and (first == names or (find_columns(first, _USER_NAMES) and item_column(first))):
            raise DataError(
                f"{path}, line 1: {table.lines[0][:_SHOWN]!r} has names of columns already, and under header= "
                "(--header) it would be an event; leave header out, and name the columns with user= and item= "
                "(--user-column, --item-column)"
            )
        half_known = _resolve_half(path, names, half_known)
        if _resolve(path, names, reading.columns) is not None:
            title = "RecBole .inter" if all(map(_RECBOLE_TYPE.search, names)) else "a table"
            return _recognise_table(reading, "delimited", title, path, names, table.sample(100))
    is_plain = reading.format == "auto" and not reading.header and not reading.separator
    has_defaults = reading.columns.user == "user" and reading.columns.item == "item"
    line = tables[0].lines[0]
    if is_plain and has_defaults and "\ufffd" not in line and "\0" not in line and not _is_header(tables):
        raise DataError(describe_undecided(path, line))
    return replace(reading, format="delimited", columns=half_known), ""  # whose reader names what is missing


def _recognise_table(
    reading: Reading, format: FormatName, title: str, path: Path, names: Sequence[str], rows: Sequence[Sequence[str]]
) -> Recognition:
    """Fill in the columns of a table that the caller did not name."""
    columns = _resolve(path, names, reading.columns)

    def cells(name: str) -> list[str]:
        position = list(names).index(name)
        return [row[position] for row in rows if position < len(row)]

    taken = (columns or reading.columns).names.values()
    free = {_plain(name): name for name in reversed(names) if name not in taken}
    kinds = ""
    for name in (free[plain] for plain in free.keys() & _KIND_NAMES):
        different = list(dict.fromkeys(filter(None, cells(name))))
        if len(different) > 1:
            kinds = f"{', '.join(different[:_MOST_KINDS])} in column {name!r}"
    reading = replace(reading, format=format, kinds=kinds)
    if columns is None or columns == reading.columns:
        return reading, ""
    if columns.value is None and rows:
        values = [name for name in names if name in free.values() and _plain(name) in VALUE_NAMES]
        if values and all(re.fullmatch(_VALUE, cell) for cell in cells(values[0])):
            columns = replace(columns, value=values[0])
    if columns.time is None and rows:
        for name in (name for name in names if name in free.values() and _plain(name) in _TIME_NAMES):
            pattern = next((one for one in _TIMES if all(re.fullmatch(one, cell) for cell in cells(name))), None)
            if pattern is not None and cells(name):
                columns = replace(columns, time=name, time_format=_TIMES[pattern] or columns.time_format)
                reading = replace(reading, is_time_recognised=True)
                break
    shown = ((role, name if name == name.strip() else repr(name)) for role, name in columns.names.items())
    described = ", ".join(f"{'rating' if role == 'value' else role}: {name}" for role, name in shown)
    return replace(reading, columns=columns, read_as=title), described


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


def _is_header(tables: Sequence[Table]) -> bool:
    """Return whether a first line holds names: under its likeliest separator, no field is a number or lacks letters."""
    likely = _likely_separator(tables[0].lines[0])
    cells = next(table for table in tables if table.separator == likely).first
    return all(re.search(r"[^\W\d]", cell) and not _NO_NAME.fullmatch(cell.strip()) for cell in cells if cell.strip())


def _likely_separator(line: str) -> str:
    """Return a tab where there is one, or the most frequent separator; spaces are often inside fields."""
    return max(
        SEPARATORS, key=lambda one: (one == "\t" and one in line, line.count(one) * (one != " "), line.count(one))
    )


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", _RECBOLE_TYPE.sub("", name.strip())).lower()
