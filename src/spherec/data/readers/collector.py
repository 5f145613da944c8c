"""Frames of raw columns, one after the other, into `Events`: strings become numbers at once, so memory stays small."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from spherec.data.events import Events
from spherec.data.ids import factorize, inverse
from spherec.data.reading import Reading
from spherec.errors import DataError

_ISO_DATE = r"^\d{4}-\d{2}-\d{2}"


class BadCellError(Exception):
    """A cell that cannot be used; the reader, which knows where rows come from, makes a `DataError` of it."""

    def __init__(self, row: int, role: str, problem: str, *, droppable: bool = False) -> None:
        self.row = row
        self.role = role
        self.problem = problem
        self.droppable = droppable

    def sentence(self, place: str, column: str, cell: object) -> str:
        """The message: where, which column, what is there, and what to do."""
        shown = repr(cell) if len(repr(cell)) <= 60 else f"{repr(cell)[:60]}…"
        remedy = "; correct the row"
        if self.droppable:
            remedy += ", or leave such rows out with missing='drop' (--missing drop)"
        return f"{place}: column {column!r} is {shown}, {self.problem}{remedy}"


class Collector:
    """Takes frames with the columns user, item and perhaps value and time, and makes `Events` of them all."""

    def __init__(self, reading: Reading) -> None:
        self.present: Iterable[str] = ()  # all columns of the table
        self._reading = reading
        self._users, self._items = _IdColumn(), _IdColumn()
        self._values: list[NDArray[np.float64]] = []
        self._times: list[NDArray[np.float64]] = []
        self._rows = 0  # seen
        self._kept = 0  # of them

    @property
    def is_full(self) -> bool:
        """Whether the rows that were asked for are here."""
        return self._reading.limit is not None and self._kept >= self._reading.limit

    def _up_to_limit(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame if self._reading.limit is None else frame.head(self._reading.limit - self._kept)

    def add(self, frame: pl.DataFrame) -> None:
        """Take the rows of a frame; a `BadCellError` names the first that cannot be used."""
        frame = frame.with_row_index("row")
        if self._reading.missing == "error":
            frame = self._up_to_limit(frame)
        self._rows += frame.height
        for role in ("user", "item"):
            _refuse_nested(frame, role)
            if frame.schema[role] in (pl.Categorical, pl.Enum):
                frame = frame.with_columns(pl.col(role).cast(pl.String))
            missing = _is_missing(frame[role])
            if self._reading.missing == "drop":
                frame = frame.filter(~missing)
            elif missing.any():
                raise BadCellError(frame["row"][missing.arg_max() or 0], role, f"which is no {role}", droppable=True)
        frame = self._up_to_limit(frame)
        self._kept += frame.height
        if not frame.height:
            return
        if "value" in frame.columns:
            self._values.append(_numbers(frame, "value"))
        if "time" in frame.columns:
            self._times.append(_seconds(frame, self._reading.columns.time_format))
        coded = frame.select(self._users.coded(frame["user"]), self._items.coded(frame["item"]))  # both at once
        self._users.add(coded["user"])
        self._items.add(coded["item"])

    def finish(self, path: Path) -> Events:
        """All rows so far; `path` is where they came from."""
        if not self._rows:
            raise DataError(f"{path} has no rows; give a file with events")
        users, user_ids = self._users.finish()
        items, item_ids = self._items.finish()
        dropped = self._rows - self._kept
        if not len(users):
            raise DataError(f"{path}: all {dropped:,} rows lack user or item; name the right columns")
        events = Events(
            users,
            items,
            user_ids,
            item_ids,
            values=np.concatenate(self._values) if self._values else None,
            times=np.concatenate(self._times) if self._times else None,
            unread_value=self._reading.columns.unread_value(self.present),
        )
        return events.with_step(f"read, without {dropped:,} rows that have no user or item" if dropped else "read")


class _IdColumn:
    """A column of ids that arrives in pieces; strings are kept once each and otherwise as 32-bit codes."""

    def __init__(self) -> None:
        self._categories = pl.Categories.random()
        self._holder = pl.Series(dtype=pl.Categorical(self._categories))  # polars forgets strings that nothing holds
        self._pieces: list[NDArray[Any]] = []
        self._is_text = False

    def coded(self, ids: pl.Series) -> pl.Expr:
        """What makes numbers of the strings in such a column; any other column stays as it is."""
        self._is_text = ids.dtype == pl.String
        column = pl.col(ids.name)
        return column.cast(pl.Categorical(self._categories)).to_physical() if self._is_text else column

    def add(self, ids: pl.Series) -> None:
        if ids.dtype.is_integer() and ids.dtype not in (pl.Int128, pl.UInt128):
            self._pieces.append(ids.to_numpy())
        else:
            self._pieces.append(np.fromiter(ids.to_list(), dtype=object, count=len(ids)))

    def finish(self) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Each row's index (E,) into the distinct ids (n,), which are sorted."""
        codes = np.concatenate(self._pieces) if self._pieces else np.zeros(0, dtype=np.int32)
        self._pieces = []
        if not self._is_text:
            return factorize(codes, "id")
        ids = self._categories.to_series()
        order = ids.arg_sort().to_numpy()
        return inverse(order).astype(np.int32)[codes], ids.to_numpy()[order].astype(object)


def _is_missing(ids: pl.Series) -> pl.Series:
    missing = ids.is_null()
    if ids.dtype == pl.String:
        missing |= (ids == "").fill_null(True)
    elif ids.dtype.is_float():
        missing |= ids.is_nan().fill_null(True)
    return missing


def _refuse(frame: pl.DataFrame, bad: pl.Series, role: str, problem: str) -> None:
    if bad.any():
        raise BadCellError(frame["row"][bad.arg_max() or 0], role, problem)


def _refuse_nested(frame: pl.DataFrame, role: str) -> None:
    if frame.height and frame.schema[role].is_nested():
        raise BadCellError(frame["row"][0], role, "which is neither a text nor a number")


def _numbers(frame: pl.DataFrame, role: str) -> NDArray[np.float64]:
    _refuse_nested(frame, role)
    try:
        numbers = frame[role].cast(pl.Float64, strict=False)  # null: missing, or not a number
    except pl.exceptions.PolarsError:
        raise BadCellError(frame["row"][0], role, "which is not a number") from None
    _refuse(frame, ~numbers.is_finite().fill_null(False), role, "which is not a number")
    return numbers.to_numpy()


def _seconds(frame: pl.DataFrame, time_format: str | None) -> NDArray[np.float64]:
    """Numbers as they are; dates as seconds since 1970, in UTC where they name no zone."""
    column = frame["time"]
    if column.dtype == pl.String:
        if time_format is None and _is_number(column[0]):
            return _numbers(frame, "time")
        problem = "which is no number and no ISO date (say how with time_format)"
        if time_format is None:  # polars would also guess whether 03/04 is in March or in April
            _refuse(frame, ~column.str.contains(_ISO_DATE).fill_null(False), "time", problem)
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
