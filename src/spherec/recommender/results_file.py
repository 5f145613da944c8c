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
from spherec.errors import ArgumentError, require_polars
from spherec.recommender.results import Recommended, Results

if TYPE_CHECKING:
    import polars as pl  # imported where it is used: a machine that only trains has none

_BLOCK = 1024  # users at once


def write_results(
    path: str | PathLike[str],
    recommend: Callable[[Ids], Results[Recommended]],
    data: Interactions,
    users: Ids | None,
    progress: Callable[[int], None] | None,
) -> int:
    """Write what `recommend` returns for users, by default all of `data`; return the number of rows."""
    if Path(path).suffix not in (".parquet", ".csv"):
        raise ArgumentError(f"{path} must end in .parquet or .csv, which says what to write")
    refuse_unwritable(path)
    blocks = answer_in_blocks(recommend, list(data.user_ids) if users is None else list_ids(users), progress)
    if Path(path).suffix == ".csv":
        return _write_csv(path, blocks)
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
    """Return lists as a data frame whose types depend on the ids of the data, and not on the rows."""
    import polars as pl

    types = {np.dtype(object): pl.String, np.dtype(np.uint64): pl.UInt64}
    ids = {"user": data.user_ids, "item": data.item_ids}
    return results.to_polars().cast({name: types.get(known.array.dtype, pl.Int64) for name, known in ids.items()})


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
