"""Lists of many users as one table in a file, block by block: memory does not grow with the number of users.

Parquet is written in parts that are then streamed into one file, for polars cannot add to a file that is there.
"""

import csv
import io
import tempfile
from collections.abc import Callable, Hashable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from spherec.data.files import atomic_write, refuse_unwritable
from spherec.data.ids import IdMap
from spherec.errors import ArgumentError, DataError, MissingPackageError
from spherec.recommender.answers import Answers
from spherec.recommender.lists import Lists, Recommended

_SUFFIXES = (".parquet", ".csv")
_BLOCK = 1024  # users at once


def write_lists(
    model: Answers,
    users: list[Hashable],
    path: str | PathLike[str],
    k: int = 10,
    *,
    told: Callable[[int], None] | None = None,
    **options: Any,
) -> int:
    """Write what `model.recommend` answers for all users, whole or not at all; gives back the number of rows.

    A file that ends in .parquet or .csv, with the columns user, rank, item, name and score; ids that are neither
    numbers nor strings are written as text. `told` hears how many users are done.
    """
    if Path(path).suffix not in _SUFFIXES:
        raise ArgumentError(f"{path} must end in {' or '.join(_SUFFIXES)}, which says what to write")
    refuse_unwritable(path)

    def blocks() -> Iterator[Lists[Recommended]]:
        for first in range(0, max(len(users), 1), _BLOCK):
            part = users[first : first + _BLOCK]
            yield model.recommend(part, k, **options)
            if told is not None:
                told(first + len(part))

    if Path(path).suffix == ".csv":
        return _write_csv(path, blocks())
    ids = {"user": model.data.user_ids, "item": model.data.item_ids}
    return _write_parquet(path, blocks(), {name for name, held in ids.items() if _is_text(held)})


def _is_text(ids: IdMap) -> bool:
    """Whether a column of these ids is one of texts: all but numbers that fit into 64 bits with a sign."""
    return ids.array.dtype == object or ids.array.dtype == np.uint64


def _write_csv(path: str | PathLike[str], blocks: Iterator[Lists[Recommended]]) -> int:
    rows = 0
    with atomic_write(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.writer(text)
        writer.writerow(Recommended._fields)
        for block in blocks:
            writer.writerows(block)
            rows += len(block)
        text.flush()
        text.detach()  # who opened the file closes it
    return rows


def _write_parquet(path: str | PathLike[str], blocks: Iterator[Lists[Recommended]], texts: set[str]) -> int:
    try:
        import polars as pl
    except ImportError:
        raise MissingPackageError("writing Parquet needs polars; install it with: pip install polars") from None
    rows, target = 0, Path(path).resolve()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.", suffix=".part") as folder:
        try:
            for number, block in enumerate(blocks):
                columns = block.columns
                columns |= {name: list(map(str, columns[name])) for name in texts}
                part = Lists(Recommended, columns).to_polars()
                part.write_parquet(Path(folder) / f"{number:09d}.parquet")
                rows += len(part)
            with atomic_write(path) as file:
                pl.scan_parquet(Path(folder) / "*.parquet").sink_parquet(file)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise DataError(f"cannot write {path}: {error}; make room or choose another place") from None
    return rows
