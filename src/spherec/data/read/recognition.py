"""Recognition of a file by its content: its format, and which of its columns are users, items, ratings and times.

A format is recognised only where no other reading of the file makes sense. Everything else is an error that says what
the first line looks like, and which options decide.
"""

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from spherec.data.events import level_of_caller
from spherec.data.read import database
from spherec.data.read.delimited import likeliest, list_tables
from spherec.data.read.formats import FORMATS, VALUE_NAMES, FilePlan, FormatName, Input, Reading, is_parquet
from spherec.data.read.json_lines import looks_like_json, read_objects
from spherec.data.read.parquet import first_cells
from spherec.data.read.streaming import first_lines
from spherec.errors import DataError, EmptyFileError, UnreadValuesWarning, check_choice, quote

_LOOKED_AT = 1000  # lines by which a list is recognised

# Usual names of columns, in lower case and without anything between words; an earlier group goes before a later one.
_USER_NAMES = (
    {"user", "userid", "uid", "useridx", "userindex", "userno", "useruuid", "userprocid"},
    {"reviewerid", "customerid", "visitorid", "memberid", "accountid", "personid", "listenerid", "readerid", "msno"},
    {"username", "customer", "reviewer", "listener", "member", "visitor", "reader", "users"},
    {"sessionid", "session"},
)
_ITEM_NAMES = (
    {"item", "itemid", "iid", "itemidx", "itemindex", "itemno", "itemprocid"},
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


def recognise_first(files: Sequence[Input], reading: Reading) -> FilePlan:
    """Return how to read files of one format: by the first that is not empty."""
    for number, file in enumerate(files, start=1):
        with suppress(EmptyFileError) if number < len(files) else nullcontext():
            plan = recognise(file, reading)
            break
    if plan.kinds and plan.event is None:
        remark = (
            f"{file}: {plan.kinds} all count as positives; say what each weighs with event=, weights= (--event-column, "
            "--event-weights)"
        )
        if reading.report is None:
            warnings.warn(remark, UnreadValuesWarning, stacklevel=level_of_caller())
        else:
            reading.report(remark)
    return plan


def recognise(path: Input, reading: Reading) -> FilePlan:
    """Return how to read a file, with the format and the columns that its content shows; report what was recognised."""
    check_choice("format", reading.format, ("auto", *FORMATS))
    if FORMATS.get(reading.format, FORMATS["delimited"]).layouts and isinstance(path, Path):
        reading.refuse_layout(f"format {reading.format!r}")
        return _choose_layout(path, reading)
    plan = FilePlan(**vars(reading))
    if isinstance(path, database.Database):
        found = _recognise_table(replace(plan, format="database"), "a table", path, database.first_cells(path))
    else:
        found = _recognise_file(path, plan)
    if found.read_as and reading.report is not None:
        reading.report(f"{path}: read as {found.read_as} ({found.described})")
    return found


def find_columns(names: Iterable[str], groups: Iterable[set[str]]) -> list[str]:
    """Return the columns whose names are among the first group that has any."""
    names = list(names)
    return next((hits for group in groups if (hits := [name for name in names if _plain(name) in group])), [])


def item_column(names: Iterable[str]) -> list[str]:
    """Return the columns that look like item ids."""
    return find_columns(names, _ITEM_NAMES)


def _recognise_file(path: Path, plan: FilePlan) -> FilePlan:
    """Return how to read a file whose format is "auto" or a kind of table."""
    is_auto = plan.format == "auto"
    if plan.format == "parquet" or (is_auto and is_parquet(path)):
        return _recognise_table(replace(plan, format="parquet"), "a Parquet table", path, first_cells(path, 100))
    lines = first_lines(path, encoding=plan.encoding)
    if plan.format == "json-lines" or (is_auto and looks_like_json(lines)):
        return _recognise_objects(path, lines, plan)
    found = None
    if is_auto and lines and plan.is_plain:
        found = _recognise_layout(lines, plan) or _recognise_list(path, lines, plan)
    return found or _recognise_delimited(path, plan)


# --- Formats of the field --------------------------------------------------------------------------------------------


def _choose_layout(path: Path, reading: Reading) -> FilePlan:
    """Return how to read a file whose format the caller named, by the layout that fits its first line best."""
    layouts = FORMATS[reading.format].layouts
    first = next(iter(first_lines(path)), "") if len(layouts) > 1 else ""

    def fit(layout: FilePlan) -> tuple[bool, bool]:
        is_like = re.fullmatch(layout.line, first) is not None
        return is_like, bool(layout.header) and len(first.split(layout.separator)) == len(layout.header or ())

    return max(layouts, key=fit).apply(reading)


def _take_for(name: FormatName, reading: Reading, layout: FilePlan | None = None) -> FilePlan:
    layout = layout or FORMATS[name].layouts[0]
    return replace(layout.apply(reading), format=name, read_as=layout.read_as, described=layout.described)


def _recognise_layout(lines: list[str], reading: Reading) -> FilePlan | None:
    """Recognise a file whose first line and nine of ten look like nothing else: a damaged one is the reader's error."""
    for name, file_format in FORMATS.items():
        for layout in file_format.layouts:
            sample = lines[:1] if layout.header is None else lines[:100]
            hits = [re.fullmatch(layout.line, line.strip(" ")) is not None for line in sample]
            if hits[0] and sum(hits) >= 0.9 * len(hits):
                return _take_for(name, reading, layout)
    return None


def _recognise_list(path: Path, lines: list[str], reading: Reading) -> FilePlan | None:
    """Recognise lines of whole numbers: `user item item …`, or `count item item …` where the file's name has "user".

    CiteULike's lists of tags or citations begin with counts, too.
    """
    rows = [line.split() for line in lines[:_LOOKED_AT]]
    if not all(word.isascii() and word.isdigit() for row in rows for word in row):
        return None
    widths, heads = {len(row) for row in rows}, [int(row[0]) for row in rows]
    counted = [head == len(row) - 1 for head, row in zip(heads, rows, strict=True)]
    is_repeated = len(set(heads)) < len(heads)
    is_ascending = all(a < b for a, b in pairwise(heads))
    if len(widths) > 1 and sum(counted) >= 0.9 * len(rows) and (is_repeated or not is_ascending):
        if "user" in path.name.lower():
            return _take_for("citeulike", reading)
    elif len(widths) > 1 and not is_repeated and not all(counted):
        return _take_for("adjacency", reading)
    elif widths == {2} and not all(counted):
        return replace(_take_for("adjacency", reading), read_as="pairs", described="user item, no header")
    raise _undecided(path, lines[0], len(rows[0]))


def _undecided(path: Path, line: str, n_fields: int) -> DataError:
    """Return an error that says how the first line looks, and which options say what the file is."""
    header = ",".join(("user", "item", "rating", "time", "…")[: max(n_fields, 2)])
    return DataError(
        f"{path}, line 1: {quote(line)} has no column names ({n_fields} fields), so it does not show what the file is; "
        f"name its columns in their order with header= (--header {header}), or its format with format= (--format), one "
        f"of {', '.join(FORMATS)}"
    )


# --- Tables ----------------------------------------------------------------------------------------------------------


def _recognise_objects(path: Path, lines: list[str], plan: FilePlan) -> FilePlan:
    """Recognise the keys of JSON lines."""
    objects = read_objects(lines)
    keys = dict.fromkeys(key for content in objects for key in content)
    cells = {key: [content.get(key) for content in objects] for key in keys}
    sample = {key: [str(one) if isinstance(one, str | int | float) else "" for one in cells[key]] for key in keys}
    return _recognise_table(replace(plan, format="json-lines"), "JSON lines", path, sample)


def _recognise_delimited(path: Path, plan: FilePlan) -> FilePlan:
    """Recognise the columns of delimited text by the names in its first record."""
    tables = list_tables(path, plan)
    likely, line = plan, tables[0].lines[0]
    for table in tables:
        names, first = table.names, table.first
        if len(names) != len(first) or len(names) < 2:
            continue
        if plan.header and find_columns(first, _USER_NAMES) and item_column(first):
            raise DataError(f"{path}, line 1: {quote(line)} holds names already; leave header= (--header) out")
        found = _fill_in(path, names, plan)
        likely = found if likely == plan else likely
        if {found.user, found.item} <= set(names):
            title = "RecBole .inter" if all(map(_RECBOLE_TYPE.search, names)) else "a table"
            return _recognise_table(replace(plan, format="delimited"), title, path, table.sample(100))
    names_nothing = plan.format == "auto" and not plan.header and not plan.separator
    has_defaults = plan.user == "user" and plan.item == "item"
    cells = likeliest(tables).first
    if names_nothing and has_defaults and "\ufffd" not in line and "\0" not in line and not _is_header(cells):
        raise _undecided(path, line, len(cells))
    return replace(likely, format="delimited")  # whose reader names what is missing


def _recognise_table(plan: FilePlan, title: str, path: Input, sample: Mapping[str, Sequence[str]]) -> FilePlan:
    """Fill in the columns of a table that the caller did not name, by the names and some cells of all columns."""
    asked, plan = plan, _fill_in(path, sample, plan)
    free = {name: cells for name, cells in sample.items() if name not in plan.roles.values()}
    for name in (name for name in free if _plain(name) in _KIND_NAMES and plan.event is None):
        different = list(dict.fromkeys(filter(None, free[name])))
        if len(different) > 1:
            plan = replace(plan, kinds=f"{', '.join(different[:_MOST_KINDS])} in column {name!r}")
    if plan.roles == asked.roles or not {plan.user, plan.item} <= sample.keys():
        return plan
    if plan.value is None and plan.weigher is None:
        values = next((name for name in free if _plain(name) in VALUE_NAMES), None)
        if values is not None and free[values] and all(re.fullmatch(_VALUE, cell) for cell in free[values]):
            plan = replace(plan, value=values)
    if plan.time is None:
        for name in (name for name, cells in free.items() if cells and _plain(name) in _TIME_NAMES):
            pattern = next((one for one in _TIMES if all(re.fullmatch(one, cell) for cell in free[name])), None)
            if pattern is not None:
                time_format = _TIMES[pattern] or plan.time_format
                plan = replace(plan, time=name, time_format=time_format, is_time_recognised=True)
                break
    shown = ((role, name if name == name.strip() else repr(name)) for role, name in plan.roles.items())
    described = ", ".join(f"{'rating' if role == 'value' else role}: {name}" for role, name in shown)
    return replace(plan, read_as=title, described=described)


def _fill_in(path: Input, names: Iterable[str], plan: FilePlan) -> FilePlan:
    """Return the plan with usual names of users and items where a table does not have the default ones."""
    user = _find_role(path, names, "user", plan.user, _USER_NAMES)
    item = _find_role(path, [name for name in names if name != user], "item", plan.item, _ITEM_NAMES)
    is_clear = user != item and not {user, item} & {plan.value, plan.time}
    return replace(plan, user=user, item=item) if is_clear else plan


def _find_role(path: Input, names: Iterable[str], role: str, wanted: str, groups: Iterable[set[str]]) -> str:
    if wanted in names or wanted != role:
        return wanted
    hits = find_columns(names, groups)
    if len(hits) > 1:
        both = " and ".join(map(repr, hits[:3]))
        raise DataError(
            f"{path}: columns {both} both look like the {role}; name the right one with {role}= (--{role}-column)"
        )
    return hits[0] if hits else wanted


def _is_header(cells: Sequence[str]) -> bool:
    """Return whether a first line holds names: no field is a number or lacks letters."""
    return all(re.search(r"[^\W\d]", cell) and not _NO_NAME.fullmatch(cell.strip()) for cell in cells if cell.strip())


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", _RECBOLE_TYPE.sub("", name.strip())).lower()
