"""Parquet files, a million rows at a time."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from functools import partial
from pathlib import Path

import polars as pl

from spherec.data.input_files import refuse_unreadable
from spherec.data.read.formats import Reading, Rows
from spherec.errors import DataError, describe_missing_column

_ROWS = 1 << 20
_COLUMN_OPTIONS = "--user-column, --item-column, …"


def read_rows(
    path: Path, reading: Reading, roles: Mapping[str, str] | None = None, *, options: str = _COLUMN_OPTIONS
) -> Iterator[Rows]:
    """Yield the rows of a Parquet file; `roles` maps names of columns to those in the file."""
    roles = reading.roles if roles is None else roles
    with open_parquet(path, roles.values(), options) as table:
        names = table.collect_schema().names()
        wanted = table.select(**{role: pl.col(name) for role, name in roles.items()})
        total = table.select(pl.len()).collect().item()
        for begin in range(0, total, _ROWS):
            frame = wanted.slice(begin, _ROWS).collect()
            yield Rows(frame, partial(_locate, begin, frame), names)
            if reading.progress is not None:
                reading.progress(begin + frame.height, total)


def _locate(begin: int, frame: pl.DataFrame, row: int, role: str) -> tuple[str, object]:
    return f"row {begin + row}", frame.row(row, named=True)[role]


@contextmanager
def open_parquet(path: Path, names: Iterable[str] = (), options: str = _COLUMN_OPTIONS) -> Iterator[pl.LazyFrame]:
    """Yield the file as a query that has the columns `names`; errors of polars inside become a `DataError`."""
    refuse_unreadable(path)
    try:
        table = pl.scan_parquet(path, glob=False)
        present = table.collect_schema().names()
        for name in names:
            if name not in present:
                raise DataError(f"{path}: {describe_missing_column(name, present)} ({options})")
        yield table
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = str(error).partition("\n")[0][:100]
        raise DataError(f"cannot read {path} as Parquet ({reason}); check the file") from None


def column_names(path: Path) -> list[str]:
    """Return the names of all columns."""
    with open_parquet(path) as table:
        return table.collect_schema().names()


def first_cells(path: Path, n_rows: int) -> dict[str, list[str]]:
    """Return the first cells of each column as texts; "" where one is neither a text, a number nor a date."""
    with open_parquet(path) as table:
        columns = table.head(n_rows).collect().to_dict(as_series=False)
    plain = str | int | float | date
    return {name: [str(one) if isinstance(one, plain) else "" for one in cells] for name, cells in columns.items()}
