"""Lists of many users as one table in a file, written block by block.

Parquet is written in parts that are then streamed into one file, because polars cannot append to a file.
"""

import csv
import io
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path

import numpy as np

from spherec.data.ids import IdMap, Ids, list_ids
from spherec.data.interactions import Interactions
from spherec.data.output_files import atomic_write, refuse_unwritable, temporary_folder
from spherec.errors import ArgumentError, DataError, MissingPackageError, shorten
from spherec.processes import refuse_polars_after_fork
from spherec.recommender.results import Recommended, Results

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
    blocks = _answer(recommend, data, users, progress)
    if Path(path).suffix == ".csv":
        return _write_csv(path, (block.guard_formulas() for block in blocks) if guard_formulas else blocks)
    texts = {name for name, ids in (("user", data.user_ids), ("item", data.item_ids)) if _is_text(ids)}
    return _write_parquet(path, blocks, texts)


def _answer(
    recommend: Callable[[Ids], Results[Recommended]],
    data: Interactions,
    users: Ids | None,
    progress: Callable[[int], None] | None,
) -> Iterator[Results[Recommended]]:
    """Yield the lists of some users at a time; one empty block if there are none."""
    wanted = list(data.user_ids) if users is None else list_ids(users)
    for first in range(0, max(len(wanted), 1), _BLOCK):
        block = wanted[first : first + _BLOCK]
        yield recommend(block)
        if progress is not None:
            progress(first + len(block))


def _is_text(ids: IdMap) -> bool:
    """Return whether ids are written as text: all but numbers that fit into 64 bits with a sign."""
    return ids.array.dtype == object or ids.array.dtype == np.uint64


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


def _write_parquet(path: str | PathLike[str], blocks: Iterator[Results[Recommended]], texts: set[str]) -> int:
    try:
        import polars as pl
    except ImportError:
        raise MissingPackageError("writing Parquet needs polars; install it with: pip install polars") from None
    refuse_polars_after_fork()
    rows = 0
    try:
        with temporary_folder(Path(path).resolve()) as folder:
            parts: list[Path] = []
            for block in blocks:
                columns = block.columns
                columns |= {name: list(map(str, columns[name])) for name in texts}
                part = Results(Recommended, columns).to_polars()
                parts.append(folder / f"{len(parts)}.parquet")
                part.write_parquet(parts[-1])
                rows += len(part)
            with atomic_write(path) as file:
                pl.scan_parquet(parts, glob=False).sink_parquet(file)  # a name may hold [ or *
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"cannot write {path}: {shorten(error)}; make room or choose another place") from None
    return rows
