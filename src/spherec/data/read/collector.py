"""Columns of files into numbered events, some rows at a time: each id becomes a 32-bit number at once."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from spherec.data.events import order_numbers
from spherec.data.ids import as_id_array, invert
from spherec.data.read.formats import FORMATS, reader_of
from spherec.data.read.options import Reading
from spherec.errors import DataError, EmptyFileError

_ABSENT = "NA"  # no id among numbers, as R writes it, but one among texts
_ENOUGH_NUMBERS = 10
_ISO_DATE = r"^\d{4}-\d{2}-\d{2}"
_NO_ID, _REPEAT = "rows that have no user or item", "rows that repeat the names of the columns"


@dataclass(frozen=True)
class Rows:
    """Some rows of a file, as its reader yields them."""

    frame: pl.DataFrame
    "Columns called user, item, and perhaps value and time."
    locate: Callable[[int, str], tuple[str, object]]
    'Returns the place of a row of the frame, such as "line 7", and the cell of a role. Slow: for errors only.'
    names: Sequence[str] = ()
    "All columns of the table."
    without_items: tuple[int, str] = (0, "")
    "Number of lines or rows that have no items, and what they are."
    catalogue: NDArray[Any] | None = None
    "Ids of all items, if those that nobody has stay."


class Piece(NamedTuple):
    """Numbered events."""

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    values: NDArray[np.float64] | None
    times: NDArray[np.float64] | None


class Catalogue(NamedTuple):
    """The ids of all users or items."""

    ids: NDArray[Any]
    "(n,) in their order."
    place: NDArray[np.int32]
    "(n,) place in `ids` of each number of a `Piece`."
    absent: int
    "Number that stands for no id, or -1."


class BadCellError(Exception):
    """A cell cannot be used; the collector makes a `DataError` of it that says where."""

    def __init__(self, row: int, role: str, problem: str, *, droppable: bool = False) -> None:
        self.row = row
        self.role = role
        self.problem = problem
        self.droppable = droppable

    def describe(self, place: str, column: str, cell: object) -> str:
        """Return the message: where, which column, what is there, and what to do."""
        shown = repr(cell) if len(repr(cell)) <= 60 else f"{repr(cell)[:60]}…"
        remedy = "; correct the row"
        if self.role == "value" and isinstance(cell, str) and "," in cell:
            remedy = "; write numbers like 4.5 and 1000, without commas"
        if self.droppable:
            remedy += ", or leave such rows out with missing='drop' (--missing drop)"
        return f"{place}: column {column!r} is {shown}, {self.problem}{remedy}"


class Collector:
    """Reads files, passes on their events with numbers for ids, and knows the ids in the end."""

    def __init__(self, append: Callable[[Piece], None]) -> None:
        self._append = append
        self._users, self._items = _Ids("user"), _Ids("item")
        self._roles: set[str] | None = None  # columns of all pieces
        self._seen = self._kept = 0  # rows of the file that is being read
        self.sizes: list[int] = []
        "Number of events of each file."
        self.left_out: Counter[str] = Counter()
        "Rows or lines that gave no events."
        self.unread_value: str | None = None
        "A column that seems to have ratings or counts, but is not read."
        self.lacks_times = False
        "A column of times that was recognised has other cells, too."
        self.keeps_items = False
        "Items that nobody has stay."

    def read(self, files: Sequence[Path], readings: Sequence[Reading]) -> None:
        """Read all files, and report what they leave out. Of several files those without events are skipped."""
        report = readings[0].report or (lambda _: None)
        empty: list[EmptyFileError] = []
        for file, reading in zip(files, readings, strict=True):
            before, self._seen = self.left_out.copy(), 0
            try:
                self._read_file(file, reading)
            except EmptyFileError as error:
                empty.append(error)
                if len(empty) == len(files):
                    raise
                report(f"{file}: skipped, because it has no events")
            self.sizes.append(self._kept)
            self._kept = 0
            if left_out := self.left_out - before:
                report(f"{file}: read without {describe_left_out(left_out)}")
            if self._is_full(reading):
                break
        self.sizes += [0] * (len(files) - len(self.sizes))
        if self.lacks_times:
            report(
                f"{files[0]}: column {readings[0].columns.time!r} is not read, because not all of its cells are times"
            )

    def finish(self, path: str, reading: Reading) -> tuple[Catalogue, Catalogue]:
        """Return all users and all items; `path` names the files, and `reading` is that of the first."""
        users, items = (
            column.sort(orders_numbers=FORMATS[reading.format].orders_numbers) for column in (self._users, self._items)
        )
        for role, found in (("user", users), ("item", items)):
            if found.absent >= 0 and reading.missing == "error":
                raise DataError(
                    f"{path}: column {reading.columns.names[role]!r} is {_ABSENT} in some rows, and a number in all "
                    "others; leave these rows out with missing='drop' (--missing drop)"
                )
        return users, items

    def drop(self, rows: int, path: str, report: Callable[[str], None] | None) -> None:
        """Count and report rows that turned out to have no id."""
        if rows and rows == sum(self.sizes):
            raise DataError(f"{path}: all {rows:,} rows lack user or item; name the right columns")
        found = Counter({_NO_ID: rows})
        self.left_out += found
        if rows and report is not None:
            report(f"{path}: read without {describe_left_out(found)}")

    def _read_file(self, file: Path, reading: Reading) -> None:
        for rows in reader_of(reading.format)(file, reading):
            self.unread_value = self.unread_value or reading.columns.unread_value(rows.names)
            self.left_out += Counter({rows.without_items[1]: rows.without_items[0]})
            if rows.catalogue is not None:
                self._items.number(pl.Series(rows.catalogue))
                self.keeps_items = True
            try:
                self._add(rows.frame, reading)
            except BadCellError as bad:
                place, cell = rows.locate(bad.row, bad.role)
                column = reading.columns.names[bad.role]
                raise DataError(bad.describe(f"{file}, {place}", column, cell)) from None
            if self._is_full(reading):
                break
        if not self._seen:
            raise EmptyFileError(f"{file} has no rows; give a file with events")
        if not self._kept:
            raise DataError(f"{file}: all {self._seen:,} rows lack user or item; name the right columns")

    def _is_full(self, reading: Reading) -> bool:
        return reading.limit is not None and sum(self.sizes) + self._kept >= reading.limit

    def _up_to_limit(self, frame: pl.DataFrame, reading: Reading) -> pl.DataFrame:
        return frame if reading.limit is None else frame.head(reading.limit - sum(self.sizes) - self._kept)

    def _add(self, frame: pl.DataFrame, reading: Reading) -> None:
        """Add the rows of a frame; a `BadCellError` names the first that cannot be used."""
        frame = frame.with_row_index("row")
        if reading.missing == "error":
            frame = self._up_to_limit(frame, reading)
        self._seen += frame.height
        frame = self._without_names(frame, reading)
        height = frame.height
        for role in ("user", "item"):
            frame = frame.with_columns(_to_ids(frame, role))
            missing = frame[role].is_null()
            if reading.missing == "drop":
                frame = frame.filter(~missing)
            else:
                _refuse(frame, missing, role, f"which is no {role}", droppable=True)
        self.left_out += Counter({_NO_ID: height - frame.height})
        frame = self._up_to_limit(frame, reading)
        self._kept += frame.height
        if not frame.height:
            return
        numbers = frame.select(self._users.encode(frame["user"]), self._items.encode(frame["item"]))  # both at once
        values = _numbers(frame, "value") if "value" in frame.columns else None
        times = self._times(frame, reading) if "time" in frame.columns else None
        self._refuse_other_columns({"value", "time"} & set(frame.columns))
        self._append(Piece(self._users.number(numbers["user"]), self._items.number(numbers["item"]), values, times))

    def _refuse_other_columns(self, roles: set[str]) -> None:
        self._roles = roles if self._roles is None else self._roles
        if different := roles ^ self._roles:
            some = " and ".join(f"{role}s" for role in sorted(different))
            raise DataError(f"only some of the files have {some}; give files with the same columns")

    def _times(self, frame: pl.DataFrame, reading: Reading) -> NDArray[np.float64]:
        try:
            if not self.lacks_times:
                return _seconds(frame, reading.columns.time_format)
        except BadCellError:
            if not reading.is_time_recognised:
                raise
            self.lacks_times = True
        return np.full(frame.height, np.nan)

    def _without_names(self, frame: pl.DataFrame, reading: Reading) -> pl.DataFrame:
        """Drop or refuse rows that hold the names of the columns: the headers of tables that were joined into one."""
        if frame.schema["user"] != pl.String or frame.schema["item"] != pl.String:
            return frame
        names = reading.columns
        repeats = ((frame["user"] == names.user) & (frame["item"] == names.item)).fill_null(False)
        if not repeats.any():
            return frame
        if reading.missing == "error":
            _refuse(frame, repeats, "user", "the name of the column, as if several tables were joined", droppable=True)
        self.left_out += Counter({_REPEAT: int(repeats.sum())})
        return frame.filter(~repeats)


class _Ids:
    """A column of ids, which are numbered as they come: texts by polars, whole numbers in a sorted array."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._categories = pl.Categories.random()
        self._holder = pl.Series(dtype=pl.Categorical(self._categories))  # polars forgets strings that nothing holds
        self._integers = np.zeros(0, np.int64)  # (n,) distinct ones, sorted
        self._numbers = np.zeros(0, np.int32)  # (n,) of each
        self._are_texts: bool | None = None

    def encode(self, ids: pl.Series) -> pl.Expr:
        """Return the expression that makes numbers of texts; a column of whole numbers stays as it is."""
        are_texts = ids.dtype == pl.String
        if self._are_texts not in (None, are_texts):
            raise DataError(f"{self._role} ids are numbers in some files and texts in others; make them the same")
        self._are_texts = are_texts
        column = pl.col(ids.name)
        return column.cast(pl.Categorical(self._categories)).to_physical() if are_texts else column

    def number(self, ids: pl.Series) -> NDArray[np.int32]:
        """Return the numbers (e,) of a column after `encode`."""
        if self._are_texts:
            return ids.to_numpy().view(np.int32)
        distinct, places = np.unique(as_id_array(ids.to_numpy(), self._role), return_inverse=True)
        if distinct.dtype != self._integers.dtype:
            if np.any(distinct[:1] < 0) or np.any(self._integers[:1] < 0):
                raise DataError(f"{self._role} ids go from below 0 to above 2**63; make them texts with str(…)")
            distinct, self._integers = distinct.astype(np.uint64), self._integers.astype(np.uint64)
        at = np.searchsorted(self._integers, distinct)
        is_new = ~np.isin(distinct, self._integers)
        fresh = np.arange(len(self._numbers), len(self._numbers) + np.count_nonzero(is_new), dtype=np.int32)
        self._integers = np.insert(self._integers, at[is_new], distinct[is_new])
        self._numbers = np.insert(self._numbers, at[is_new], fresh)
        return self._numbers[np.searchsorted(self._integers, distinct)][places]

    def sort(self, *, orders_numbers: bool) -> Catalogue:
        """Return all ids; `orders_numbers`: texts of numbers come in the order of numbers."""
        if not self._are_texts:
            return Catalogue(self._integers, invert(self._numbers).astype(np.int32), -1)
        texts = self._categories.to_series()
        order = texts.arg_sort().to_numpy()
        place, ids = invert(order).astype(np.int32), texts.to_numpy()[order].astype(object)
        absent = np.flatnonzero((texts == _ABSENT).to_numpy())
        others = texts.filter(texts != _ABSENT)
        is_absent = len(absent) and len(others) >= _ENOUGH_NUMBERS and others.str.contains(r"^\d+$").all()
        if orders_numbers:
            place, ids = order_numbers(place, ids)
        return Catalogue(ids, place, int(absent[0]) if is_absent else -1)


def describe_left_out(left_out: Counter[str]) -> str:
    """Return the rows and lines that gave no events, in words."""
    return " and ".join(f"{number:,} {description}" for description, number in left_out.items() if number)


def _to_ids(frame: pl.DataFrame, role: str) -> pl.Series:
    """Return a column of ids as texts or whole numbers of 64 bits, null where there is none."""
    column, kind = frame[role], frame.schema[role]
    if kind.is_(pl.String) or isinstance(kind, pl.Categorical | pl.Enum):
        texts = column.cast(pl.String)
        return texts.set(texts == "", None) if (texts == "").any() else texts
    problem = "which is neither a text nor a whole number of 64 bits; write such ids as texts, with str(…)"
    if isinstance(kind, pl.List | pl.Array):
        problem = "a list, each entry of which needs a row of its own"
    if kind.is_(pl.Null) or kind.is_(pl.UInt64) or (kind.is_integer() and not kind.is_(pl.Int128)):
        return column
    if not kind.is_numeric():
        _refuse(frame, column.is_not_null(), role, problem)
        return column
    column = column.fill_nan(None) if kind.is_float() else column
    whole = column.cast(pl.Int64, strict=False)
    bad = whole.is_null() | (whole != column)
    if kind.is_float():
        bad |= whole.abs() >= (1 << 24 if kind.is_(pl.Float32) else 1 << 53)  # others were rounded
    _refuse(frame, bad & column.is_not_null(), role, problem)
    return whole


def _refuse(frame: pl.DataFrame, bad: pl.Series, role: str, problem: str, *, droppable: bool = False) -> None:
    if bad.any():
        raise BadCellError(frame["row"][bad.arg_max() or 0], role, problem, droppable=droppable)


def _numbers(frame: pl.DataFrame, role: str) -> NDArray[np.float64]:
    column = frame[role]
    if column.dtype.is_nested():
        raise BadCellError(frame["row"][0], role, "which is not a number")
    if column.dtype == pl.String and str(column[0]).lower() in ("true", "false"):
        column = column.str.to_lowercase().replace({"true": "1", "false": "0"})
    try:
        numbers = column.cast(pl.Float64, strict=False)  # null: missing, or not a number
    except pl.exceptions.PolarsError:
        raise BadCellError(frame["row"][0], role, "which is not a number") from None
    _refuse(frame, ~numbers.is_finite().fill_null(False), role, "which is not a number")
    return numbers.to_numpy()


def _seconds(frame: pl.DataFrame, time_format: str | None) -> NDArray[np.float64]:
    """Return numbers as they are, and dates as seconds since 1970, in UTC where they name no zone."""
    column = frame["time"]
    if column.dtype == pl.String:
        if time_format is None and _is_number(column[0]):
            return _numbers(frame, "time")
        problem = "which is neither a number nor an ISO date (name its format with time_format=, --time-format)"
        if re.match(_ISO_DATE, column[0] or ""):
            problem = "which is no ISO date, as other rows have"
        if time_format is None:  # polars would also guess whether 03/04 is in March or in April
            _refuse(frame, ~column.str.contains(_ISO_DATE).fill_null(False), "time", problem)
            column = column.str.replace(" UTC$", "Z")
        try:
            column = column.str.to_datetime(time_format, strict=False, time_unit="us")
        except pl.exceptions.PolarsError:
            raise BadCellError(frame["row"][0], "time", problem) from None
    if column.dtype in (pl.Date, pl.Datetime):
        _refuse(frame, column.is_null(), "time", "which is no date that is ISO or as time_format says (--time-format)")
        return column.dt.epoch("us").to_numpy() / 1e6
    if column.dtype.is_temporal():
        raise BadCellError(frame["row"][0], "time", "which is no moment in time")
    return _numbers(frame, "time")


def _is_number(text: str | None) -> bool:
    try:
        float(text or "")
    except ValueError:
        return False
    return True
