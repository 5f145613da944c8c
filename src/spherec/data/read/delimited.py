"""Delimited text: CSV, TSV and their relatives, with a header or with known columns."""

import csv
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl

from spherec.data.read.formats import FORMATS, FilePlan, Rows
from spherec.data.read.streaming import Block, first_lines, read_blocks
from spherec.errors import DataError, EmptyFileError, quote
from spherec.lazy import Lazy

SEPARATORS = ("\t", ",", ";", "|", "::", " ")
"""Separators that are tried, in this order."""

_ONE_CHARACTER = "\x1f"  # stands for a separator of several characters, which polars does not know
NULLS = ["", "NaN", "nan", "NA", "<NA>", "NULL", "null", "\\N", "None"]  # nothing, as pandas, R, SQL and Python write
_OTHER_WAYS = (
    ", or all by header= (--header) if the first line has none; other files by format= (--format): "
    + ", ".join(name for name, one in FORMATS.items() if one.layouts)
)


@dataclass(frozen=True)
class Table:
    """Delimited text under one separator."""

    separator: str
    quoted: bool
    escape: str
    lines: Sequence[str]
    "The first lines that are not blank."
    header: Sequence[str] | None
    "Names of all columns; nothing if the first record has them."

    @property
    def character(self) -> str:
        """The separator, or the character that stands for one of more than a single byte."""
        return _ONE_CHARACTER if len(self.separator.encode()) > 1 else self.separator

    @Lazy
    def first(self) -> list[str]:
        """The fields of the first record."""
        return next(self.records(self.lines), (0, []))[1]

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return list(self.header or self.first)

    def sample(self, n_rows: int) -> dict[str, list[str]]:
        """Return the cells of each column in the first rows."""
        begin = 0 if self.header else 1
        rows = [fields for _, fields in islice(self.records(self.lines), begin, begin + n_rows)]
        return {name: [row[n] for row in rows if n < len(row)] for n, name in enumerate(self.names)}

    def records(self, lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
        """Yield the line, from 0, with which each record begins, and its fields; empty lines are none. Slow."""
        plain = (self._plain(line.encode()).decode() + "\n" for line in lines)
        quoting = csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE
        reader = csv.reader(plain, delimiter=self.character, quoting=quoting)  # type: ignore[arg-type]
        begin = 0
        while begin < len(lines):
            try:
                fields = next(reader)
            except csv.Error:  # such as a field too long for it
                fields = lines[begin].rstrip("\r").split(self.separator)
            if fields:
                yield begin, fields
            begin = reader.line_num

    def parse(self, text: bytes) -> pl.DataFrame:
        """Return all columns as strings; an error of polars if not every record has all of them."""
        text = self._plain(text).lstrip(b"\r\n")
        if b"\n\n" in text or b"\n\r\n" in text:  # polars takes a blank line for a row; those between quotes stay
            pieces = text.split(b'"') if self.quoted else [text]
            pieces[::2] = [re.sub(rb"\n(?:\r?\n)+", b"\n", piece) for piece in pieces[::2]]
            text = b'"'.join(pieces)
        frame = pl.scan_csv(
            text,
            has_header=False,
            schema={str(position): pl.String for position in range(len(self.names))},
            missing_columns="insert",  # where the first row is short
            separator=self.character,
            quote_char='"' if self.quoted else None,
            null_values=NULLS,
        ).collect()
        if self._count_separators(text) != frame.height * (len(self.names) - 1):  # polars fills short rows
            raise pl.exceptions.ShapeError
        return frame

    def _count_separators(self, text: bytes) -> int:
        character = self.character.encode()
        if not self.quoted or b'"' not in text:
            return text.count(character)
        letters = np.frombuffer(text, np.uint8)
        inside = np.logical_xor.accumulate(letters == ord('"'))
        return int(np.count_nonzero((letters == ord(character)) & ~inside))

    def _plain(self, text: bytes) -> bytes:
        """Return text with a separator and quotes that polars and the csv module know."""
        if self.escape:
            text = text.replace(f'{self.escape}"'.encode(), b'""')
        return text if self.character == self.separator else text.replace(self.separator.encode(), b"\x1f")


def read_rows(path: Path, plan: FilePlan) -> Iterator[Rows]:
    """Yield the rows of a delimited file as strings."""
    roles, table = plan.roles, find_table(path, plan)
    names = table.names
    expressions = {role: pl.col(str(names.index(name))) for role, name in roles.items()}
    n_headers = 0 if plan.header else 1  # records of a block that are no rows
    # Where quotes are escaped by something else, fields are known to have no line breaks: cut at any of them.
    for block in read_blocks(path, plan, quote=b'"' if table.quoted and not table.escape else b""):
        if not block.text.strip(b"\r\n"):
            continue
        try:
            frame = table.parse(block.text).select(**expressions).slice(n_headers)
        except pl.exceptions.PolarsError:
            raise _explain(path, block, table, n_headers) from None
        if frame.height:
            yield Rows(frame, partial(_locate, block, table, roles, n_headers), names)
        n_headers = 0


def find_table(path: Path, plan: FilePlan) -> Table:
    """Return the file under the separator that finds the wanted columns; a `DataError` names a missing one."""
    tables, wanted = list_tables(path, plan), plan.roles.values()
    for table in tables:
        names = table.names
        if set(wanted) <= set(names) and len(table.first) == len(names):
            if repeated := next((name for name in wanted if names.count(name) > 1), None):
                raise DataError(f"{path}: {names.count(repeated)} columns are called {repeated!r}; rename all but one")
            return table
    next(read_blocks(path, replace(plan, progress=None)))  # which says what is wrong with a file that is no text
    best = likeliest(tables)
    plan.refuse_missing(path, best.names, _OTHER_WAYS if plan.columns is None else "")
    header = ", ".join(best.names)
    raise DataError(f"{path}, line 1: {quote(best.lines[0])} is not {header}; name the right format")


def list_tables(path: Path, plan: FilePlan) -> list[Table]:
    """Return the file under each separator that it may have."""
    lines = first_lines(path, encoding=plan.encoding)
    if not lines:
        raise EmptyFileError(f"{path} holds no text; give a file with events")
    tables = []
    for separator in (plan.separator,) if plan.separator else SEPARATORS:
        has_quotes = separator != "\t" or (not plan.header and lines[0].startswith('"'))
        quoted = has_quotes if plan.quotes is None else plan.quotes
        tables.append(Table(separator, quoted, plan.escape, lines, plan.header))
    return tables


def likeliest(tables: Sequence[Table]) -> Table:
    """Return the table with most columns; spaces are often inside fields."""
    return max(tables, key=lambda table: (len(table.first) > 1, table.separator != " ", len(table.first)))


def _locate(
    block: Block, table: Table, roles: Mapping[str, str], n_headers: int, row: int, role: str
) -> tuple[str, str]:
    """Return the line in the file of a row of the frame, and the cell that is there."""
    start, fields = next(islice(table.records(block.lines), n_headers + row, None))
    return f"line {block.line + start}", fields[table.names.index(roles[role])]


def _explain(path: Path, block: Block, table: Table, n_headers: int) -> DataError:
    """Return an error that names the first record that polars does not read."""
    lines, n_columns = block.lines, len(table.names)
    starts = [*(start for start, _ in table.records(lines)), len(lines)]

    def is_bad(number: int) -> bool:
        try:
            table.parse("\n".join([*lines[: starts[number + 1]], ""]).encode())
        except pl.exceptions.PolarsError:
            return True
        return False

    number = bisect_left(range(len(starts) - 2), True, key=is_bad)
    start, fields = next(islice(table.records(lines), number, None))
    n_fields = len(fields)
    remedy = "mend the line or its quotes, or take quotes for ordinary characters with quotes=False (--no-quotes)"
    if n_headers and number == 1 and n_fields == n_columns + 1:
        remedy = (
            "the header is one name short, as if the first column were an index without a name; write the table "
            "without its index (pandas: index=False, R: row.names=FALSE), or put a name before the header"
        )
    elif n_fields < n_columns and start == starts[-2] and not block.text.endswith(b"\n"):
        remedy = "the file ends there, as if it were cut off; fetch it again, or mend the line"
    return DataError(
        f"{path}, line {block.line + start}: {quote(lines[start])} has {n_fields} fields, and does not read as "
        f"{n_columns} columns separated by {table.separator!r}; {remedy}"
    )
