"""Parquet files, a million rows at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from functools import partial
from pathlib import Path

import polars as pl

from spherec.data.input_files import refuse_unreadable
from spherec.data.read.formats import FilePlan, Rows
from spherec.errors import DataError, shorten

_ROWS = 1 << 20


def read_rows(path: Path, plan: FilePlan) -> Iterator[Rows]:
    """Yield the rows of a Parquet file."""
    with _open(path) as table:
        names = table.collect_schema().names()
        plan.refuse_missing(path, names)
        wanted = table.select(**{role: pl.col(name) for role, name in plan.roles.items()})
        total = table.select(pl.len()).collect().item()
        for begin in range(0, total, _ROWS):
            frame = wanted.slice(begin, _ROWS).collect()
            yield Rows(frame, partial(_locate, begin, frame), names)
            if plan.progress is not None:
                plan.progress(begin + frame.height, total)


def _locate(begin: int, frame: pl.DataFrame, row: int, role: str) -> tuple[str, object]:
    return f"row {begin + row}", frame.row(row, named=True)[role]


def first_cells(path: Path, n_rows: int) -> dict[str, list[str]]:
    """Return the first cells of each column as texts; "" where one is neither a text, a number nor a date."""
    with _open(path) as table:
        columns = table.head(n_rows).collect().to_dict(as_series=False)
    plain = str | int | float | date
    return {name: [str(one) if isinstance(one, plain) else "" for one in cells] for name, cells in columns.items()}


@contextmanager
def _open(path: Path) -> Iterator[pl.LazyFrame]:
    """Yield the file as a query; errors of polars inside become a `DataError`."""
    refuse_unreadable(path)
    try:
        yield pl.scan_parquet(path, glob=False)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = shorten(str(error).partition("\n")[0])
        raise DataError(f"cannot read {path} as Parquet ({reason}); check the file") from None
