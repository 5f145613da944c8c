"""The formats of the field by name, and `read`, which takes any of them."""

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from typing import assert_never

from spherec.data.cuts import Cut
from spherec.data.events import Duplicates, Events, level_of_caller
from spherec.data.files import is_archive
from spherec.data.interactions import Interactions
from spherec.data.readers.adjacency import read_adjacency
from spherec.data.readers.blocks import first_record, refuse_unreadable
from spherec.data.readers.delimited import Dialect, read_delimited
from spherec.data.readers.json_lines import read_json_lines
from spherec.data.readers.parquet import read_parquet
from spherec.data.reading import Columns, Format, Missing, Progress, Reading
from spherec.errors import ArgumentError, DataError, UnreadValuesWarning

BOOK_CROSSING = Dialect(separator=";", quotes=True, encoding="latin-1", escape=b"\\")
_ECHONEST = Dialect(header=("user", "song", "plays"), separator="\t", quotes=False)
_AMAZON_RATINGS = Dialect(header=("user", "item", "rating", "timestamp"), separator=",", quotes=False)
_MOVIELENS_HEADER = ("userId", "movieId", "rating", "timestamp")
_SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "json-lines",
    ".ndjson": "json-lines",
    ".json": "json-lines",
}


def read(
    path: str | PathLike[str],
    *,
    user: str = "user",
    item: str = "item",
    value: str | None = None,
    time: str | None = None,
    time_format: str | None = None,
    format: Format = "auto",
    header: Sequence[str] | None = None,
    separator: str | None = None,
    quotes: bool | None = None,
    encoding: str = "utf-8",
    missing: Missing = "error",
    duplicates: Duplicates | None = None,
    cut: Cut | None = None,
    progress: Progress | None = None,
) -> Interactions:
    """Interactions from a file: a table with a column of users and one of items, or a known format.

    Args:
        path: CSV, TSV or JSON lines, plain or gzipped; Parquet; or a file that `Interactions.save` wrote.
        user: The column with the external ids of users. Ids in text files are strings: "007" is not 7.
        item: The column with the external ids of items.
        value: A column with ratings or counts, looked at by `cut`. What passes the cut is an interaction. If the
            table seems to have such a column, but it is not named here, a warning says so.
        time: A column with numbers or dates, for splits by time.
        time_format: How dates are written where they are not ISO, as for strptime: "%m %d, %Y".
        format: "auto" goes by the file's name and content. The formats of the field ("book-crossing", "echonest",
            "amazon-ratings", "amazon-reviews", "movielens", "adjacency", "citeulike") know their own columns.
        header: The names of all columns, for delimited text that has none in its first line.
        separator: Between columns; found by itself if it is a tab or one of , ; | ::
        quotes: Whether double quotes enclose fields. They do unless the file is tab-separated and its header has
            none; False takes them for ordinary characters.
        encoding: Of a text file; UTF-8 where nothing is said.
        missing: "error" refuses rows without user or item; "drop" leaves them out, and counts them in `steps`.
        duplicates: How pairs that come more than once are merged: "last" (default for ratings), "sum" (default
            without values: repeats are counted) or "error". Without a choice, a warning says how many there were.
        cut: Which events count, e.g. `Cut(min_value=4, min_per_user=20)`. Everything, where nothing is said.
        progress: Called with the bytes read so far and in all.

    Raises:
        DataError: The file cannot be used; the message names the line or column, the value and the remedy.
    """
    reading = Reading(
        format=format,
        columns=Columns(user, item, value, time, time_format),
        header=tuple(header) if header else None,
        separator=separator,
        quotes=quotes,
        encoding=encoding,
        missing=missing,
        progress=progress,
    )

    def warn(column: str) -> None:
        warnings.warn(
            f"{path}: column {column!r} is not read, and every row counts as a positive; keep only the high ones with "
            f"e.g. value={column!r}, cut=Cut(min_value=4), or say that all are meant with value={column!r} alone",
            UnreadValuesWarning,
            stacklevel=level_of_caller(),
        )

    return read_interactions(path, reading, duplicates=duplicates, cut=cut or Cut(), tell_unread=warn)


def read_interactions(
    path: str | PathLike[str],
    reading: Reading,
    *,
    duplicates: Duplicates | None,
    cut: Cut,
    tell_unread: Callable[[str], None],
    tell_merged: Callable[[int], None] = lambda _: None,
) -> Interactions:
    """Read, merge and cut a file; one that is prepared is loaded and cut.

    `tell_unread` is called with the column of ratings or counts that a table has, if neither it nor a least value was
    asked for. `tell_merged` is called with the number of repeated pairs, if there are any and neither the caller nor
    the format says how to merge them.
    """
    if reading.format == "auto" and is_archive(path):
        _refuse_column_options(reading, f"{path} is prepared and", duplicates)
        data = Interactions.load(path)
        return data if cut == Cut() else data.cut(cut)
    events = read_events(path, reading)
    rule, rows, has_values = duplicates or natural_duplicates(reading.format), len(events), events.values is not None
    try:
        events = events.merge(rule)
        if rule is None and len(events) < rows:
            tell_merged(rows - len(events))
        events = cut(events)
    except DataError as error:
        counted = cut.min_value is not None and not has_values
        hint = " (no value column was named, so events were counted)" if counted else ""
        raise DataError(f"{path}: {error}{hint}") from None
    if events.unread_value is not None and cut.min_value is None:
        tell_unread(events.unread_value)
    return Interactions.from_events(events)


def read_events(path: str | PathLike[str], reading: Reading) -> Events:
    """The raw events of a file, neither merged nor cut."""
    path = Path(path)
    match reading.format:
        case "auto":
            return read_events(path, replace(reading, format=format_of(path)))
        case "delimited":
            dialect = Dialect(reading.header, reading.separator, reading.quotes, reading.encoding)
            return read_delimited(path, dialect, reading)
        case "json-lines":
            return read_json_lines(path, reading)
        case "parquet":
            return read_parquet(path, reading)
        case "book-crossing":
            return read_delimited(path, BOOK_CROSSING, _known(reading, Columns("User-ID", "ISBN", "Book-Rating")))
        case "echonest":
            return read_delimited(path, _ECHONEST, _known(reading, Columns("user", "song", "plays")))
        case "amazon-ratings":
            _refuse_items_first(path)
            columns = Columns("user", "item", "rating", "timestamp")
            return read_delimited(path, _AMAZON_RATINGS, _known(reading, columns))
        case "amazon-reviews":
            columns = Columns("reviewerID", "asin", "overall", "unixReviewTime")
            return read_json_lines(path, _known(reading, columns))
        case "movielens":
            return read_delimited(path, _movielens(path), _known(reading, Columns(*_MOVIELENS_HEADER)))
        case "adjacency":
            return read_adjacency(path, _known(reading, Columns()))
        case "citeulike":
            return read_adjacency(path, _known(reading, Columns()), counted=True)
        case _ as never:
            assert_never(never)


def _refuse_column_options(reading: Reading, what: str, duplicates: Duplicates | None = None) -> None:
    """Raise an `ArgumentError` if columns, or how they are written, were named where that would be ignored."""
    plain = Reading(reading.format, missing=reading.missing, limit=reading.limit, progress=reading.progress)
    given = {
        field.name: getattr(reading, field.name)
        for field in fields(reading)
        if getattr(reading, field.name) != getattr(plain, field.name)
    }
    given |= {"duplicates": duplicates} if duplicates else {}
    if given:
        told = ", ".join(f"{name}={value!r}" for name, value in given.items())
        raise ArgumentError(f"{what} knows its own columns; leave out {told}")


def _known(reading: Reading, columns: Columns) -> Reading:
    """The reading of a format that knows its own columns."""
    _refuse_column_options(reading, f"format {reading.format!r}")
    return replace(reading, columns=columns)


def natural_duplicates(format: Format) -> Duplicates | None:
    """How a known format's repeated pairs are merged: plays and repeats are added up, of ratings the last is kept."""
    match format:
        case "echonest" | "adjacency" | "citeulike":
            return "sum"
        case "book-crossing" | "amazon-ratings" | "amazon-reviews" | "movielens":
            return "last"
        case _:
            return None


def format_of(path: Path) -> Format:
    """The format that the file's name tells, or its first bytes: Parquet often comes without a suffix."""
    refuse_unreadable(path)
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            return "parquet"
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    return _SUFFIXES.get(suffixes[-1] if suffixes else "", "delimited")


def _movielens(path: Path) -> Dialect:
    """ratings.csv has a header; ratings.dat is separated by ::, u.data by tabs, without one."""
    first = first_record(path).text.decode().rstrip("\r\n")
    if first.startswith("userId"):
        return Dialect(separator=",", quotes=False)
    for separator in ("::", "\t"):
        if first.count(separator) == 3:
            return Dialect(header=_MOVIELENS_HEADER, separator=separator, quotes=False)
    raise DataError(f"{path}, line 1: {first[:60]!r} is not MovieLens (user::item::rating::time); name its columns")


def _refuse_items_first(path: Path) -> None:
    """Amazon's ratings of 2014 are user, item, …; those of 2018 are item, user, … and would be read transposed."""
    first, second, *_ = [*first_record(path).text.decode().split(","), "", ""]
    if re.fullmatch(r"[B\d][A-Z\d]{9}", first) and re.fullmatch(r"A[A-Z\d]{8,20}", second):
        raise DataError(
            f"{path}, line 1: {first!r} is an item and {second!r} a user, as in Amazon's files of 2018; read it with "
            "format='delimited', header=['item', 'user', 'rating', 'timestamp'] and value='rating'"
        )
