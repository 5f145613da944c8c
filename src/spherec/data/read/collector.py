"""Columns of files into numbered events, some rows at a time: each id becomes a 32-bit number at once."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from spherec.data.event_weights import EventWeights, describe_kinds
from spherec.data.events import Duplicates, check_lowest_weight, level_of_caller
from spherec.data.ids import as_id_array, invert
from spherec.data.read.formats import FORMATS, FilePlan, Input, Reading, describe_files, find_value, reader_of
from spherec.data.read.recognition import recognise_first
from spherec.errors import DataError, EmptyFileError, UncutValuesWarning, UnreadValuesWarning, shorten

_ISO_DATE = r"^\d{4}-\d{2}-\d{2}"
_WHOLE_DATE = "%Y-%m-%d %H:%M:%S%.f%z"
_YES_NO = {"true": "1", "false": "0"}
_NO_ID = "rows that have no user or item"
_DROP = ", or leave such rows out with missing='drop' (--missing drop)"
_NOT_A_NUMBER = "which is not a number"


class Piece(NamedTuple):
    """Numbered events."""

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    values: NDArray[np.float64] | None
    times: NDArray[np.float64] | None
    kinds: NDArray[np.int16] | None


class Catalogue(NamedTuple):
    """The ids of all users or items."""

    ids: NDArray[Any]
    "(n,) in their order."
    place: NDArray[np.int32]
    "(n,) place in `ids` of each number of a `Piece`."


class BadCellError(Exception):
    """A cell cannot be used: its row, its role, the problem, and a remedy. `Collector` says where that is."""


class Collector:
    """Reads files, passes on their events with numbers for ids, and knows the ids in the end."""

    def __init__(self, files: Sequence[Input], reading: Reading, append: Callable[[Piece], None]) -> None:
        self.files, self._asked, self._append = files, reading, append
        self.weigher = reading.weigher
        plan = recognise_first(files, reading)
        self._plan = plan if self.weigher is None else replace(plan, value=None)
        self._kinds_left_out: Counter[str] = Counter()
        self._users, self._items = _Ids("user"), _Ids("item")
        self._kinds: dict[str, bool] = {}  # whether the first time of a file is a number, and its first value true
        self._seen = 0  # rows of all files
        self._left_out: Counter[str] = Counter()  # rows or lines that gave no events
        self._names: dict[int, str] = {}  # by number of the item
        self._unread_value: str | None = None  # a column that seems to have ratings or counts, but is not read
        self.lacks_times = False
        "A column of times that was recognised has other cells, too."

    def read(self) -> tuple[Catalogue, Catalogue]:
        """Read all files, report what they leave out, and return all users and items.

        Of several files those without events are skipped.
        """
        n_empty = 0
        report = self._asked.report or (lambda _: None)
        for file in self.files:
            before = self._left_out.copy()
            try:
                self._read_file(file, self._plan)
            except EmptyFileError:
                n_empty += 1
                if n_empty == len(self.files):
                    raise
                report(f"{file}: skipped, because it has no events")
            if left_out := _in_words(self._left_out - before):
                report(f"{file}: read without {left_out}")
        if kinds := self._kinds_left_out:
            report(f"{describe_files(self.files)}: read without {describe_kinds(kinds)}, because these have no weight")
        if self.lacks_times:
            report(f"{self.files[0]}: column {self._plan.time!r} is not read, because not all of its cells are times")
        if self.weigher is not None and self._users.is_empty:
            raise DataError(
                f"{describe_files(self.files)}: no event is of kind {', '.join(self.weigher.names)}; column "
                f"{self._plan.event!r} has {describe_kinds(self._kinds_left_out)}; name some of these"
            )
        orders_numbers = FORMATS[self._plan.format].orders_numbers
        return self._users.sort(orders_numbers=orders_numbers), self._items.sort(orders_numbers=orders_numbers)

    @property
    def step(self) -> str:
        """The name of the first step: what the files were taken for, their number, and what they left out."""
        step = " ".join(filter(None, ["read as" if self._plan.read_as else "read", self._plan.read_as]))
        step += f" from {len(self.files):,} files" if len(self.files) > 1 else ""
        left_out = " and ".join(filter(None, (_in_words(self._left_out), describe_kinds(self._kinds_left_out))))
        return f"{step}, without {left_out}" if left_out else step

    @contextmanager
    def merging(self, values: tuple[float, float] | None) -> Iterator[Duplicates | None]:
        """Yield the rule for repeated pairs, None if nothing says which; errors inside the block name the files.

        `values` are the lowest and highest in the files.
        """
        asked, path = self._asked, describe_files(self.files)
        try:
            if asked.weigh and self.weigher is None:
                check_lowest_weight(None if values is None else values[0])
            yield asked.duplicates or FORMATS[self._plan.format].duplicates or ("sum" if asked.weigh else None)
        except DataError as error:
            counted = asked.cut.min_value is not None and values is None
            hint = " (no value column was named, so events were counted)" if counted else ""
            raise DataError(f"{path}: {error}{hint}") from None

    def warn_of_values(self, values: tuple[float, float] | None) -> None:
        """Warn if low ratings or counts count as positives, though nobody said so; `values` are from and to."""
        asked, path = self._asked, describe_files(self.files)
        if asked.cut.min_value is not None or self.weigher is not None:
            return
        weigh = "weigh pairs by them with weigh=True (--weigh), or say that all are meant with"
        if (column := self._unread_value) is not None:
            remark = (
                f"{path}: column {column!r} is not read, and every row counts as a positive; keep only the high ones "
                f"with value={column!r}, cut=Cut(min_value=4) (--value-column {column} --min-value 4), {weigh} "
                f"value={column!r} alone"
            )
            warnings.warn(remark, UnreadValuesWarning, stacklevel=level_of_caller())
        if values is not None and values[0] < values[1] and asked.value is None and not asked.weigh:
            lowest, highest = values
            least = 4 if 4 < highest <= 5 else 7 if 7 < highest <= 10 else 1 if highest <= 1 else 2
            remark = (
                f"{path}: ratings or counts from {lowest:g} to {highest:g} all count as likes, the low ones too; keep "
                f"the high ones with cut=Cut(min_value={least}) (--min-value {least}), {weigh} "
                f"cut=Cut(min_value={lowest:g})"
            )
            warnings.warn(remark, UncutValuesWarning, stacklevel=level_of_caller())

    def _read_file(self, file: Input, reading: FilePlan) -> None:
        seen, lacking = self._seen, self._left_out[_NO_ID]
        self._kinds = {}
        for rows in reader_of(reading.format)(file, reading) if not self._is_full else ():
            if reading.value is None and self._unread_value is None:
                self._unread_value = find_value(rows.names, reading.roles.values())
            self._left_out += Counter({rows.without_items[1]: rows.without_items[0]})
            try:
                self._add(rows.frame, reading)
            except BadCellError as bad:
                row, role, problem, remedy = bad.args
                place, cell = rows.locate(row, role)
                where = f"{file}, {place}: column {reading.roles[role]!r}"
                raise DataError(f"{where} is {shorten(repr(cell))}, {problem}; correct the row{remedy}") from None
            if self._is_full:
                break
        if self._seen == seen and not self._is_full:
            raise EmptyFileError(f"{file} has no rows; give a file with events")
        if self._left_out[_NO_ID] - lacking == self._seen - seen and not self._is_full:
            raise DataError(f"{file}: all {self._seen - seen:,} rows lack user or item; name the right columns")

    @property
    def _is_full(self) -> bool:
        return self._asked.limit is not None and self._seen >= self._asked.limit

    def _add(self, frame: pl.DataFrame, reading: FilePlan) -> None:
        """Add the rows of a frame; a `BadCellError` names the first that cannot be used."""
        if absent := next((name for role, name in reading.roles.items() if role not in frame.columns), None):
            raise DataError(f"format {reading.format!r} has no column {absent!r}; give a table")
        frame = frame.with_row_index("row")
        if reading.limit is not None:
            frame = frame.head(reading.limit - self._seen)
        self._seen += frame.height
        if frame.schema["user"] == frame.schema["item"] == pl.String:
            repeats = (frame["user"] == reading.user) & (frame["item"] == reading.item)
            _refuse(frame, repeats, "user", "the name of the column, as if several tables were joined")
        if self.weigher is not None and self.weigher.names:
            frame = self._number_kinds(frame, self.weigher)
        n_counting = frame.height
        for role in ("user", "item"):
            frame = frame.with_columns(_to_ids(frame, role))
            missing = frame[role].is_null()
            if reading.missing == "drop":
                frame = frame.filter(~missing)
            else:
                _refuse(frame, missing, role, f"which is no {role}", _DROP)
        self._left_out += Counter({_NO_ID: n_counting - frame.height})
        if not frame.height:
            return
        numbers = frame.select(self._users.encode(frame["user"]), self._items.encode(frame["item"]))  # both at once
        values = self._numbers(frame, "value") if "value" in frame.columns else None
        times = self._times(frame, reading) if "time" in frame.columns else None
        users, items = self._users.number(numbers["user"]), self._items.number(numbers["item"])
        if reading.name is not None:
            named = pl.DataFrame({"item": items, "name": frame["name"].cast(pl.String)})
            self._names.update(named.filter(pl.col("name") != "").unique("item", keep="last").iter_rows())
        kinds = frame["event"].to_numpy() if "event" in frame.columns else None
        self._append(Piece(users, items, values, times, kinds))

    def _number_kinds(self, frame: pl.DataFrame, weigher: EventWeights) -> pl.DataFrame:
        """Return the rows of kinds that count, with numbers for kinds."""
        texts = frame["event"].cast(pl.String).fill_null("")
        numbers = texts.replace_strict(weigher.names, range(len(weigher.names)), default=-1, return_dtype=pl.Int16)
        self._kinds_left_out += Counter(dict(texts.filter(numbers < 0).value_counts().iter_rows()))
        return frame.with_columns(event=numbers).filter(pl.col("event") >= 0)

    def names(self, items: Catalogue) -> dict[object, str]:
        """Return the last name of each item, by its id."""
        ids = items.ids[items.place].tolist()
        return {ids[number]: name for number, name in self._names.items()}

    def _times(self, frame: pl.DataFrame, reading: FilePlan) -> NDArray[np.float64]:
        try:
            if not self.lacks_times:
                return self._seconds(frame, reading.time_format)
        except BadCellError:
            if not reading.is_time_recognised:
                raise
            self.lacks_times = True
        return np.full(frame.height, np.nan)

    def _numbers(self, frame: pl.DataFrame, role: str) -> NDArray[np.float64]:
        column = frame[role]
        is_text = column.dtype == pl.String and role == "value"
        if is_text and self._kinds.setdefault(role, str(column[0]).lower() in _YES_NO):
            column = column.str.to_lowercase().replace_strict(_YES_NO, default=None)
        if column.dtype.is_nested():
            raise BadCellError(frame["row"][0], role, _NOT_A_NUMBER, "")
        numbers = column.cast(pl.Float64, strict=False)  # null: missing, or not a number
        _refuse(frame, ~numbers.is_finite().fill_null(False), role, _NOT_A_NUMBER)
        return numbers.to_numpy()

    def _seconds(self, frame: pl.DataFrame, time_format: str | None) -> NDArray[np.float64]:
        """Return numbers as they are, and dates as seconds since 1970, in UTC where they name no zone."""
        column = frame["time"]
        if column.dtype == pl.String:
            is_number = column[:1].cast(pl.Float64, strict=False).is_not_null().all()
            if time_format is None and self._kinds.setdefault("time", is_number):
                return self._numbers(frame, "time")
            microseconds = _epochs(column, time_format)
        elif column.dtype in (pl.Date, pl.Datetime):
            microseconds = column.dt.epoch("us")
        elif column.dtype.is_temporal():
            raise BadCellError(frame["row"][0], "time", "which is no moment in time", "")
        else:
            return self._numbers(frame, "time")
        problem = "which is no ISO date, nor as other rows are; time_format= (--time-format) names another format"
        _refuse(frame, microseconds.is_null(), "time", problem)
        return microseconds.to_numpy() / 1e6


class _Ids:
    """A column of ids, which are numbered as they come: texts by polars, whole numbers in a sorted array."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._categories = pl.Categories.random()
        self._holder = pl.Series(dtype=pl.Categorical(self._categories))  # polars forgets texts that nothing holds
        self._integers = np.zeros(0, np.int64)  # (n,) distinct ones, sorted
        self._numbers = np.zeros(0, np.int32)  # (n,) of each
        self._are_texts: bool | None = None

    @property
    def is_empty(self) -> bool:
        """True before the first id."""
        return self._are_texts is None

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
        at, is_new = np.searchsorted(self._integers, distinct), ~np.isin(distinct, self._integers)
        fresh = np.arange(len(self._numbers), len(self._numbers) + np.count_nonzero(is_new), dtype=np.int32)
        self._integers = np.insert(self._integers, at[is_new], distinct[is_new])
        self._numbers = np.insert(self._numbers, at[is_new], fresh)
        return self._numbers[np.searchsorted(self._integers, distinct)][places]

    def sort(self, *, orders_numbers: bool) -> Catalogue:
        """Return all ids in their order; `orders_numbers`: whole numbers as texts come as 2 before 10."""
        if not self._are_texts:
            return Catalogue(self._integers, invert(self._numbers).astype(np.int32))
        texts = self._categories.to_series()
        order = texts.arg_sort().to_numpy()
        if orders_numbers and texts.str.contains(r"^[0-9]{1,18}$").all():
            order = np.lexsort((order.argsort(), texts.cast(pl.Int64).to_numpy()))  # 7 before 07
        return Catalogue(texts.to_numpy()[order], invert(order).astype(np.int32))


def _in_words(left_out: Counter[str]) -> str:
    return " and ".join(f"{number:,} {description}" for description, number in left_out.items() if number)


def _to_ids(frame: pl.DataFrame, role: str) -> pl.Series:
    """Return a column of ids as texts or whole numbers of 64 bits, null where there is none."""
    column, kind = frame[role], frame.schema[role]
    if kind.is_(pl.String) or isinstance(kind, pl.Categorical | pl.Enum):
        texts = column.cast(pl.String)
        return texts.set(texts == "", None) if (texts == "").any() else texts
    if kind.is_(pl.Null) or kind.is_(pl.UInt64) or (kind.is_integer() and not kind.is_(pl.Int128)):
        return column
    whole, bad = column, column.is_not_null()
    if kind.is_numeric():
        column = column.fill_nan(None) if kind.is_float() else column
        whole = column.cast(pl.Int64, strict=False)
        bad = column.is_not_null() & (whole.is_null() | (whole != column))
        if kind.is_float():
            bad |= whole.abs() >= (1 << 24 if kind.is_(pl.Float32) else 1 << 53)  # others were rounded
    problem = "which is neither a text nor a whole number of 64 bits; write ids as texts, one a row"
    _refuse(frame, bad, role, problem)
    return whole


def _refuse(frame: pl.DataFrame, bad: pl.Series, role: str, problem: str, remedy: str = "") -> None:
    if bad.any():
        raise BadCellError(frame["row"][bad.fill_null(False).arg_max() or 0], role, problem, remedy)


def _epochs(dates: pl.Series, time_format: str | None) -> pl.Series:
    """Return dates as microseconds since 1970, null where they are not of the format, or ISO."""
    if time_format is None:  # polars would also guess whether 03/04 is in March or in April
        dates = dates.set(~dates.str.contains(_ISO_DATE), None).str.replace(" UTC$", "Z")
    try:
        found = dates.str.to_datetime(time_format, strict=False, time_unit="us").dt.epoch("us")
    except pl.exceptions.PolarsError:
        found = pl.repeat(None, len(dates), dtype=pl.Int64, eager=True)
    if time_format is None and found.has_nulls():  # one shape was guessed from the first dates
        whole = dates.str.replace("^(.{10})T", "$1 ").str.replace("Z$", "+00:00").str.replace("^(.{10})$", "$1 00:00")
        whole = whole.str.replace("^(.{16})([+-].*)?$", "${1}:00$2").str.replace("^(.{11}[^+-]*)$", "${1}+00:00")
        found = found.zip_with(found.is_not_null(), _epochs(whole, _WHOLE_DATE))
    return found
