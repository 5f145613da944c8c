"""Delimited text: CSV, TSV and their relatives, with a header or with known columns."""

import _csv
import csv
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from spherec.data.events import Events
from spherec.data.read.formats import FORMATS
from spherec.data.read.options import Reading
from spherec.data.read.streaming import BadCellError, Block, Collector, first_record, read_text
from spherec.errors import DataError, describe_missing_column

SEPARATORS = ("\t", ",", ";", "|", "::", " ")
"""Separators that are tried, in this order."""

_ONE_CHARACTER = "\x1f"  # stands for a separator of several characters, which polars does not know
_NULLS = ["", "NaN", "nan", "<NA>", "NULL", "null", "\\N", "None"]  # what pandas, SQL and Python write for nothing
_BLANK_LINES = re.compile(rb"\n(?:\r?\n)+")
_SHOWN = 60  # characters of a bad line in an error
_MOST_COLUMNS = 10_000
_COLUMN_OPTIONS = (
    "columns are named by --user-column, --item-column, …, or all by header= (--header) if the first line has none; "
    f"other files by format= (--format): {', '.join(name for name, one in FORMATS.items() if one.known)}"
)


def read_delimited(path: Path, reading: Reading) -> Iterator[Events]:
    """Read the events of a delimited file."""
    collector = Collector(reading)
    roles = reading.columns.names
    for table in read_tables(path, roles, reading):
        collector.present = table.layout.names
        try:
            collector.add(table.frame)
        except BadCellError as bad:
            line, cell = table.locate(bad.row, bad.role)
            raise DataError(bad.describe(f"{path}, line {line}", roles[bad.role], cell)) from None
        if collector.is_full:
            break
    return collector.finish(path)


@dataclass(frozen=True)
class Table:
    """The wanted columns of one block, as strings, named by their roles."""

    frame: pl.DataFrame
    block: Block
    layout: "_Layout"

    def locate(self, row: int, role: str) -> tuple[int, str]:
        """Return the line in the file of a row of the frame, and the cell that is there. Slow: for errors only."""
        start, end = self.layout.record_lines(self.block.text)[row].tolist()
        starts = _line_starts(self.block.text)
        fields = self.layout.fields(self.block.text[starts[start] : starts[end] - 1].decode())
        position = self.layout.positions[role]
        return self.block.line + start, fields[position] if position < len(fields) else ""


def read_tables(
    path: Path, roles: Mapping[str, str], reading: Reading, *, options: str = _COLUMN_OPTIONS
) -> Iterator[Table]:
    """Yield the file as a series of tables with the columns that `roles` maps roles to.

    `options` says in errors how columns are named on the command line.
    """
    # Where quotes are escaped by something else, fields are known to have no line breaks: cut at any of them.
    spans_lines = reading.quotes is not False and not reading.escape
    first = first_record(path, encoding=reading.encoding, quote=b'"' if spans_lines else b"")
    layout = _find_layout(path, first, roles, reading, options)
    body = first.line if reading.header else first.line + max(1, first.text.count(b"\n"))  # line after the header
    quote = b'"' if layout.quoted and spans_lines else b""
    for block in read_text(path, reading, quote=quote):
        if block.line < body:
            block = Block(_after_lines(block.text, body - block.line), body)
        if block.text and not block.text.isspace():
            if block.line == body and not reading.header:
                _refuse_index_column(path, block, layout)
            _refuse_cut_off(path, block, layout)
            yield _parse_block(path, block, layout)


def join_tables(tables: Iterable[Table]) -> pl.DataFrame:
    """Return a series of tables as one."""
    return pl.concat([table.frame for table in tables])


@dataclass(frozen=True)
class _Layout:
    """Layout of a file with everything decided."""

    separator: str
    quoted: bool
    escape: str
    names: tuple[str, ...] = ()
    positions: dict[str, int] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.names)

    @property
    def one_character(self) -> str:
        """The separator, or the character that stands for one of more than a single byte."""
        return _ONE_CHARACTER if len(self.separator.encode()) > 1 else self.separator

    def fields(self, record: str) -> list[str]:
        """Return the fields of one record."""
        record = record.rstrip("\r\n")
        try:
            return next(self._csv_reader(record.split("\n")), [])
        except csv.Error:  # such as a field too long for it
            return record.split(self.separator)

    def record_lines(self, text: bytes) -> NDArray[np.int64]:
        """Return the lines (n, 2), from and to, of each record in a text, from 0; blank lines are no records."""
        bounds = array("q")  # of millions of records: no Python objects
        reader = self._csv_reader(line.decode().removesuffix("\n") for line in BytesIO(text))
        start = 0
        try:
            for fields in reader:
                if fields:
                    bounds.extend((start, reader.line_num))
                start = reader.line_num
        except csv.Error:  # take each line for a record
            bounds = array("q")
            for number, line in enumerate(BytesIO(text)):
                if line.strip(b"\r\n"):
                    bounds.extend((number, number + 1))
        return np.frombuffer(bounds, dtype=np.int64).reshape(-1, 2) if bounds else np.zeros((0, 2), dtype=np.int64)

    def _csv_reader(self, lines: Iterable[str]) -> "_csv.Reader":
        """Return a reader of the csv module: slow, but it knows line numbers."""
        separator = self.one_character
        return csv.reader(
            (f"{line.replace(self.separator, separator)}\n" for line in lines),
            delimiter=separator,
            quoting=csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE,
            escapechar=self.escape or None,
            doublequote=not self.escape,
        )


def split_fields(line: str, separator: str, reading: Reading) -> list[str]:
    """Return the fields of one line under a separator."""
    return _Layout(separator, _is_quoted(line, separator, reading), reading.escape).fields(line)


def _is_quoted(first: str, separator: str, reading: Reading) -> bool:
    """Return whether double quotes enclose fields, going by the first line where the caller did not say."""
    if reading.quotes is not None:
        return reading.quotes
    return separator != "\t" or (reading.header is None and first.startswith('"'))


def _find_layout(path: Path, first: Block, roles: Mapping[str, str], reading: Reading, options: str) -> _Layout:
    """Find the separator and the wanted columns in the first record."""
    record = first.text.decode().rstrip("\r\n")
    if "\r" in record:
        raise DataError(f"{path}, line {first.line}: carriage returns inside the line; save it with plain line ends")
    best: list[str] = []
    for separator in (reading.separator,) if reading.separator else SEPARATORS:
        if record.count(separator) >= _MOST_COLUMNS:
            raise DataError(
                f"{path}, line {first.line}: {record.count(separator) + 1:,} columns separated by {separator!r}, more "
                f"than {_MOST_COLUMNS:,}; keep the columns of users, items, ratings and times"
            )
        layout = _Layout(separator, _is_quoted(record, separator, reading), reading.escape)
        fields = layout.fields(record)
        names = list(reading.header or fields)
        if set(roles.values()) <= set(names) and (reading.header is None or len(fields) == len(names)):
            for name in roles.values():
                if names.count(name) > 1:
                    raise DataError(f"{path}: {names.count(name)} columns are called {name!r}; rename all but one")
            positions = {role: names.index(name) for role, name in roles.items()}
            return replace(layout, names=tuple(names), positions=positions)
        if len(names) > len(best) and not (separator == " " and len(best) > 1):
            best = names
    absent = [name for name in roles.values() if name not in best]
    if reading.header is not None and not absent:
        wanted = ", ".join(reading.header)
        raise DataError(f"{path}, line {first.line}: {record[:_SHOWN]!r} is not {wanted}; name the right format")
    raise DataError(f"{path}: {describe_missing_column(absent[0], best)} ({options})")


def _parse_block(path: Path, block: Block, layout: _Layout) -> Table:
    try:
        return Table(_parse(block.text, layout), block, layout)
    except pl.exceptions.PolarsError:
        pass
    starts = _line_starts(block.text)
    records = layout.record_lines(block.text)
    low, high = 0, len(records) - 1  # the first record with which polars fails is in records[low : high + 1]
    while low < high:
        middle = (low + high) // 2
        try:
            _parse(block.text[: starts[records[middle, 1]]], layout)
            low = middle + 1
        except pl.exceptions.PolarsError:
            high = middle
    start = int(records[low, 0])
    shown = block.text[starts[start] : starts[start + 1] - 1][:_SHOWN].decode(errors="replace")
    raise DataError(
        f"{path}, line {block.line + start}: {shown!r} does not read as {layout.width} columns "
        f"separated by {layout.separator!r}; mend the line or its quotes, or take quotes for ordinary characters with "
        "quotes=False (--no-quotes)"
    )


def _line_starts(text: bytes) -> NDArray[np.int64]:
    """Return where each line begins (n + 1,); the last entry is one beyond the end of the text."""
    breaks = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n"))
    return np.concatenate(([0], breaks + 1, [len(text) + 1]))


def _refuse_index_column(path: Path, block: Block, layout: _Layout) -> None:
    """Raise a `DataError` if the first row has one field more than the header: an index column without a name."""
    line = block.text.lstrip(b"\r\n").partition(b"\n")[0].decode()
    if '"' not in line and len(layout.fields(line)) == layout.width + 1:
        raise DataError(
            f"{path}, line {block.line}: {line[:_SHOWN]!r} has {layout.width + 1} fields, but the header names only "
            f"{layout.width}, as if the first column were an index without a name; write the table without its index "
            "(pandas: index=False, R: row.names=FALSE), or put a name and a separator before the header"
        )


def _refuse_cut_off(path: Path, block: Block, layout: _Layout) -> None:
    """Raise a `DataError` for a last line that has neither all columns nor an end: half of a download, say."""
    last = block.text[block.text.rfind(b"\n") + 1 :].decode()
    if not last.strip() or '"' in last:
        return
    n_fields = len(layout.fields(last))
    if n_fields < layout.width:
        line = block.line + block.text.count(b"\n")
        raise DataError(
            f"{path}, line {line}: {last[:_SHOWN]!r} has {n_fields} of {layout.width} "
            "columns and no line end, as if the file were cut off; fetch it again, or mend the line"
        )


def _parse(text: bytes, layout: _Layout) -> pl.DataFrame:
    """Return the wanted columns as strings."""
    if layout.escape:
        text = text.replace(f'{layout.escape}"'.encode(), b'""')
    if layout.one_character != layout.separator:
        text = text.replace(layout.separator.encode(), layout.one_character.encode())
    text = text.lstrip(b"\r\n")
    if b"\n\n\n" in text or b"\n\r\n\r\n" in text:  # many of them would take much memory
        text = _without_blank_lines(text, layout)
    frame = _read_csv(text, layout)
    if any(column.null_count() for column in frame):  # polars takes a blank line for a row of nulls
        filled = _without_blank_lines(text, layout)
        frame = frame if len(filled) == len(text) else _read_csv(filled, layout)
    return frame


def _read_csv(text: bytes, layout: _Layout) -> pl.DataFrame:
    frame = pl.scan_csv(
        text,
        has_header=False,
        schema={str(position): pl.String for position in range(layout.width)},
        missing_columns="insert",  # where the first row is short
        separator=layout.one_character,
        quote_char='"' if layout.quoted else None,
        null_values=_NULLS,
    ).collect()  # all columns: polars does not count the fields of a row of which it reads only some
    return frame.select(**{role: pl.col(str(position)) for role, position in layout.positions.items()})


def _without_blank_lines(text: bytes, layout: _Layout) -> bytes:
    """Return the text without blank lines, except those between quotes."""
    pieces = text.split(b'"') if layout.quoted else [text]
    pieces[::2] = [_BLANK_LINES.sub(b"\n", piece) for piece in pieces[::2]]
    return b'"'.join(pieces)


def _after_lines(text: bytes, lines: int) -> bytes:
    return text.split(b"\n", lines)[lines] if text.count(b"\n") >= lines else b""
