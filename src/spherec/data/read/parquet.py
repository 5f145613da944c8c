"""Parquet files, a million rows at a time."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from spherec.data.archive import largest_unpacked
from spherec.data.events import Events
from spherec.data.input_files import refuse_unreadable
from spherec.data.read.options import Reading
from spherec.data.read.streaming import BadCellError, Collector
from spherec.errors import DataError, describe_missing_column

_ROWS = 1 << 20
_BYTES_PER_EVENT = 8  # in memory: two 32-bit numbers
_COLUMN_OPTIONS = "--user-column, --item-column, …"


def read_parquet(path: Path, reading: Reading) -> Iterator[Events]:
    """Read the events of a Parquet file. Ids keep their type."""
    roles = reading.columns.names
    collector = Collector(reading)
    with _open_parquet(path, roles.values()) as table:
        collector.present = table.collect_schema().names()
        wanted = table.select(**{role: pl.col(name) for role, name in roles.items()})
        total = table.select(pl.len()).collect().item()
        largest = largest_unpacked(path.stat().st_size, reading.max_unpacked)
        if total * _BYTES_PER_EVENT > largest:
            raise DataError(
                f"{path} claims {total:,} rows, more than {largest / 1e9:,.3g} GB of pairs; if you trust it, allow "
                "more with max_unpacked= (--max-unpacked), in GB"
            )
        for begin in range(0, total, _ROWS):
            frame = wanted.slice(begin, _ROWS).collect()
            try:
                collector.add(frame)
            except BadCellError as bad:
                place, cell = f"{path}, row {begin + bad.row}", frame.row(bad.row, named=True)[bad.role]
                raise DataError(bad.describe(place, roles[bad.role], cell)) from None
            if reading.progress is not None:
                reading.progress(begin + frame.height, total)
            if collector.is_full:
                break
    return collector.finish(path)


def column_names(path: Path) -> list[str]:
    """Return the names of all columns."""
    with _open_parquet(path, ()) as table:
        return table.collect_schema().names()


def first_rows(path: Path, names: Iterable[str], n_rows: int) -> list[list[str]]:
    """Return the first rows of these columns as texts; "" where a cell is neither a text, a number nor a date."""
    with _open_parquet(path, ()) as table:
        frame = table.select(*names).head(n_rows).collect()
    return [["" if isinstance(cell, list | dict | bytes | None) else str(cell) for cell in row] for row in frame.rows()]


def read_parquet_texts(path: Path, names: tuple[str, ...], options: str) -> Iterator[tuple[str | None, ...]]:
    """Yield the rows of these columns, all as strings; `options` name columns on the command line."""
    with _open_parquet(path, names, options) as table:
        texts = table.select(pl.col(*names).cast(pl.String))
        for begin in range(0, table.select(pl.len()).collect().item(), _ROWS):
            yield from texts.slice(begin, _ROWS).collect().iter_rows()


def read_parquet_frame(path: Path, name: str, options: str) -> pl.DataFrame:
    """Return the whole table, which has the column `name`; `options` say in errors how columns are named."""
    with _open_parquet(path, (name,), options) as table:
        return table.collect()


@contextmanager
def _open_parquet(path: Path, names: Iterable[str], options: str = _COLUMN_OPTIONS) -> Iterator[pl.LazyFrame]:
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
