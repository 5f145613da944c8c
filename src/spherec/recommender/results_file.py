"""Lists of many users as one table in a file, written block by block.

Parquet is written in parts that are then streamed into one file, because polars cannot append to a file.
"""

import csv
import io
from collections.abc import Callable, Hashable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spherec.data.ids import Ids, list_ids
from spherec.data.interactions import Interactions
from spherec.data.output_files import atomic_write, refuse_unwritable, temporary_folder
from spherec.errors import ArgumentError
from spherec.forks import require_polars
from spherec.recommender.results import Recommended, Results

if TYPE_CHECKING:
    import polars as pl  # imported where it is used: a machine that only trains has none

_SUFFIXES = (".parquet", ".csv")
_BLOCK = 1024  # users at once


def write_results(
    path: str | PathLike[str],
    recommend: Callable[[Ids], Results[Recommended]],
    data: Interactions,
    users: Ids | None,
    progress: Callable[[int], None] | None,
    *,
    guard_formulas: bool = False,
) -> int:
    """Write what `recommend` returns for users, by default all of `data`; return the number of rows."""
    if Path(path).suffix not in _SUFFIXES:
        raise ArgumentError(f"{path} must end in {' or '.join(_SUFFIXES)}, which says what to write")
    refuse_unwritable(path)
    if guard_formulas and Path(path).suffix != ".csv":
        raise ArgumentError(f"guard_formulas is for CSV; leave it out, or write a .csv instead of {path}")
    blocks = answer_in_blocks(recommend, list(data.user_ids) if users is None else list_ids(users), progress)
    if Path(path).suffix == ".csv":
        return _write_csv(path, (block.guard_formulas() for block in blocks) if guard_formulas else blocks)
    return _write_parquet(path, (to_table(block, data) for block in blocks))


def answer_in_blocks(
    recommend: Callable[[Ids], Results[Recommended]],
    users: Sequence[Hashable],
    progress: Callable[[int], None] | None = None,
) -> Iterator[Results[Recommended]]:
    """Yield the lists of some users at a time; one empty block if there are none."""
    for first in range(0, max(len(users), 1), _BLOCK):
        block = users[first : first + _BLOCK]
        yield recommend(block)
        if progress is not None:
            progress(first + len(block))


def to_table(results: Results[Recommended], data: Interactions) -> "pl.DataFrame":
    """Return lists as a data frame whose types depend on the ids of the data, and not on the rows.

    Ids are numbers if they fit into 64 bits with a sign, else text.
    """
    columns = results.columns
    kinds = {"user": data.user_ids.array.dtype, "item": data.item_ids.array.dtype}
    texts = {name for name, dtype in kinds.items() if dtype in (object, np.uint64)}
    columns |= {name: list(map(str, columns[name])) for name in texts}
    table = Results(Recommended, columns).to_polars()
    if len(table):
        return table
    import polars as pl

    numbers = {"f": pl.Float64, "b": pl.Boolean}
    return table.cast({name: pl.String if name in texts else numbers.get(kinds[name].kind, pl.Int64) for name in kinds})


def _write_csv(path: str | PathLike[str], blocks: Iterator[Results[Recommended]]) -> int:
    rows = 0
    with atomic_write(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.writer(text)
        writer.writerow(Recommended._fields)
        for block in blocks:
            writer.writerows(block)
            rows += len(block)
        text.flush()
        text.detach()  # atomic_write closes the file
    return rows


def _write_parquet(path: str | PathLike[str], tables: Iterator["pl.DataFrame"]) -> int:
    require_polars("writing Parquet")
    import polars as pl

    rows = 0
    with temporary_folder(path) as folder:
        parts: list[Path] = []
        for table in tables:
            parts.append(folder / f"{len(parts)}.parquet")
            table.write_parquet(parts[-1])
            rows += len(table)
        with atomic_write(path) as file:
            pl.scan_parquet(parts, glob=False).sink_parquet(file)  # a name may hold [ or *
    return rows
