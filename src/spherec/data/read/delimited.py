"""Delimited text: CSV, TSV and their relatives, with a header or with known columns."""

import csv
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from spherec.data.read.collector import Rows
from spherec.data.read.formats import FORMATS
from spherec.data.read.options import Reading
from spherec.data.read.streaming import Block, first_lines, read_blocks
from spherec.errors import DataError, EmptyFileError, describe_missing_column

SEPARATORS = ("\t", ",", ";", "|", "::", " ")
"""Separators that are tried, in this order."""

_ONE_CHARACTER = "\x1f"  # stands for a separator of several characters, which polars does not know
_NULLS = ["", "NaN", "nan", "<NA>", "NULL", "null", "\\N", "None"]  # what pandas, SQL and Python write for nothing
_SHOWN = 60  # characters of a bad line in an error
_MOST_COLUMNS = 10_000
_COLUMN_OPTIONS = (
    "columns are named by --user-column, --item-column, …, or all by header= (--header) if the first line has none; "
    f"other files by format= (--format): {', '.join(name for name, one in FORMATS.items() if one.layouts)}"
)


@dataclass(frozen=True)
class Table:
    """Delimited text under one separator."""

    separator: str
    quoted: bool
    escape: str
    lines: Sequence[str]
    "The first lines that are not blank."
    header: tuple[str, ...] | None
    "Names of all columns; None if the first record has them."

    @property
    def character(self) -> str:
        """The separator, or the character that stands for one of more than a single byte."""
        return _ONE_CHARACTER if len(self.separator.encode()) > 1 else self.separator

    @property
    def first(self) -> list[str]:
        """The fields of the first record."""
        return self.fields(self.lines)

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return self.first if self.header is None else list(self.header)

    def sample(self, n_rows: int) -> list[list[str]]:
        """Return the fields of the first rows."""
        begin = self.starts(self.lines)[1] if self.header is None else 0
        return [self.fields([line]) for line in self.lines[begin : begin + n_rows]]

    def fields(self, lines: Sequence[str]) -> list[str]:
        """Return the fields of the first record of some lines."""
        try:
            return next(self._read(lines), [])
        except csv.Error:  # such as a field too long for it
            return lines[0].rstrip("\r").split(self.separator)

    def starts(self, lines: Sequence[str]) -> list[int]:
        """Return the line, from 0, with which each record begins, and the end of the last; empty lines are none."""
        reader = self._read(lines)
        try:
            ends = [0, *(reader.line_num for _ in reader)]
        except csv.Error:  # take each line for a record
            ends = list(range(len(lines) + 1))
        begins = [start for start, end in pairwise(ends) if any(line.strip("\r\n") for line in lines[start:end])]
        return begins + ends[-1:]

    def plain(self, text: bytes) -> bytes:
        """Return text with a separator and quotes that polars and the csv module know."""
        if self.escape:
            text = text.replace(f'{self.escape}"'.encode(), b'""')
        return text if self.character == self.separator else text.replace(self.separator.encode(), b"\x1f")

    def _read(self, lines: Iterable[str]) -> Any:
        """Return a reader of the csv module: slow, but it knows line numbers."""
        quoting: Any = csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE
        plain = (self.plain(line.encode()).decode() + "\n" for line in lines)
        return csv.reader(plain, delimiter=self.character, quoting=quoting)


def read_rows(
    path: Path, reading: Reading, roles: Mapping[str, str] | None = None, *, options: str = _COLUMN_OPTIONS
) -> Iterator[Rows]:
    """Yield the rows of a delimited file as strings.

    `roles` maps names of the columns that are yielded to those in the file; `options` says in errors how columns are
    named on the command line.
    """
    roles = reading.columns.names if roles is None else roles
    table = find_table(path, reading, roles.values(), options)
    names = table.names
    expressions = {role: pl.col(str(names.index(name))) for role, name in roles.items()}
    header_lines = 0 if reading.header else table.starts(table.lines)[1]
    # Where quotes are escaped by something else, fields are known to have no line breaks: cut at any of them.
    for block in read_blocks(path, reading, quote=b'"' if table.quoted and not table.escape else b""):
        if header_lines and not block.text.isspace():
            block, header_lines = _skip_lines(block, header_lines), 0
        if block.text and not block.text.isspace():
            _refuse_cut_off(path, block, table)
            try:
                frame = _parse(block.text, table).select(**expressions)
            except pl.exceptions.PolarsError:
                raise _explain(path, block, table) from None
            yield Rows(frame, partial(_locate, block, table, roles), names)


def find_table(path: Path, reading: Reading, wanted: Collection[str], options: str) -> Table:
    """Return the file under the separator that finds the wanted columns; a `DataError` names a missing one."""
    tables = list_tables(path, reading)
    for table in tables:
        names = table.names
        if set(wanted) <= set(names) and (reading.header is None or len(table.first) == len(names)):
            if repeated := next((name for name in wanted if names.count(name) > 1), None):
                raise DataError(f"{path}: {names.count(repeated)} columns are called {repeated!r}; rename all but one")
            return table
    _refuse_no_text(path, reading)
    best = widest(tables)
    if absent := [name for name in wanted if name not in best.names]:
        raise DataError(f"{path}: {describe_missing_column(absent[0], best.names)} ({options})")
    header = ", ".join(best.names)
    raise DataError(f"{path}, line 1: {best.lines[0][:_SHOWN]!r} is not {header}; name the right format")


def list_tables(path: Path, reading: Reading) -> list[Table]:
    """Return the file under each separator that it may have."""
    lines = first_lines(path, encoding=reading.encoding)
    if not lines:
        raise EmptyFileError(f"{path} holds no text; give a file with events")
    if "\r" in lines[0]:
        _refuse_no_text(path, reading)
        raise DataError(f"{path}, line 1: carriage returns inside the line; save it with plain line ends")
    tables = []
    for separator in (reading.separator,) if reading.separator else SEPARATORS:
        if lines[0].count(separator) >= _MOST_COLUMNS:
            raise DataError(
                f"{path}, line 1: {lines[0].count(separator) + 1:,} columns separated by {separator!r}, more than "
                f"{_MOST_COLUMNS:,}; keep the columns of users, items, ratings and times"
            )
        has_quotes = separator != "\t" or (reading.header is None and lines[0].startswith('"'))
        quoted = has_quotes if reading.quotes is None else reading.quotes
        tables.append(Table(separator, quoted, reading.escape, lines, reading.header))
    return tables


def _refuse_no_text(path: Path, reading: Reading) -> None:
    for _ in read_blocks(path, replace(reading, progress=None)):  # which says what is wrong
        break


def widest(tables: Sequence[Table]) -> Table:
    """Return the table with the most columns; spaces are often inside fields, so they come last."""
    return max(tables, key=lambda table: (len(table.first) > 1, table.separator != " ", len(table.first)))


def _parse(text: bytes, table: Table) -> pl.DataFrame:
    """Return all columns as strings: polars does not count the fields of a row of which it reads only some."""
    text = table.plain(text).lstrip(b"\r\n")
    if b"\n\n" in text or b"\n\r\n" in text:  # polars takes a blank line for a row; those between quotes stay
        pieces = text.split(b'"') if table.quoted else [text]
        pieces[::2] = [re.sub(rb"\n(?:\r?\n)+", b"\n", piece) for piece in pieces[::2]]
        text = b'"'.join(pieces)
    return pl.scan_csv(
        text,
        has_header=False,
        schema={str(position): pl.String for position in range(len(table.names))},
        missing_columns="insert",  # where the first row is short
        separator=table.character,
        quote_char='"' if table.quoted else None,
        null_values=_NULLS,
    ).collect()


def _skip_lines(block: Block, lines: int) -> Block:
    """Return a block without blank lines at its begin, and then without so many lines."""
    blank = re.match(rb"(?:[ \t\r]*\n)*", block.text)
    lines += blank[0].count(b"\n") if blank else 0
    parts = block.text.split(b"\n", lines)
    return Block(parts[lines] if len(parts) > lines else b"", block.line + lines)


def _refuse_cut_off(path: Path, block: Block, table: Table) -> None:
    """Raise a `DataError` for a last line that has neither all columns nor an end: half of a download, say."""
    last = block.text[block.text.rfind(b"\n") + 1 :].decode()
    if last.strip() and '"' not in last and (n_fields := len(table.fields([last]))) < len(table.names):
        line = block.line + block.text.count(b"\n")
        raise DataError(
            f"{path}, line {line}: {last[:_SHOWN]!r} has {n_fields} of "
            f"{len(table.names)} columns and no line end, as if the file were cut off; fetch it again, or mend the line"
        )


def _locate(block: Block, table: Table, roles: Mapping[str, str], row: int, role: str) -> tuple[str, str]:
    """Return the line in the file of a row of the frame, and the cell that is there."""
    lines = block.lines
    start, end = table.starts(lines)[row : row + 2]
    fields, position = table.fields(lines[start:end]), table.names.index(roles[role])
    return f"line {block.line + start}", fields[position] if position < len(fields) else ""


def _explain(path: Path, block: Block, table: Table) -> DataError:
    """Return an error that names the first record that polars does not read."""
    lines = block.lines
    starts = table.starts(lines)

    def is_bad(number: int) -> bool:
        try:
            _parse("\n".join([*lines[: starts[number + 1]], ""]).encode(), table)
        except pl.exceptions.PolarsError:
            return True
        return False

    start = starts[bisect_left(range(len(starts) - 2), True, key=is_bad)]
    remedy = "mend the line or its quotes, or take quotes for ordinary characters with quotes=False (--no-quotes)"
    if start == starts[0] and len(table.fields(lines[start:])) == len(table.names) + 1:
        remedy = (
            "the header is one name short, as if the first column were an index without a name; write the table "
            "without its index (pandas: index=False, R: row.names=FALSE), or put a name before the header"
        )
    return DataError(
        f"{path}, line {block.line + start}: {lines[start][:_SHOWN]!r} does not read as {len(table.names)} columns "
        f"separated by {table.separator!r}; {remedy}"
    )
