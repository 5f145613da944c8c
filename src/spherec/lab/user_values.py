"""Values of single users, for paired tests: one Parquet file next to the records of a comparison.

Columns: run (the key of a `Result`), model, fold, user (its index), and a float32 column for each metric. Files of
other machines can be put into the same folder under names such as users-2.parquet.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from spherec.data.input_files import DamagedFileError, reading_file
from spherec.data.output_files import atomic_write
from spherec.errors import MissingPackageError, shorten
from spherec.lab.store import Result

UserColumns = dict[str, NDArray[Any]]


class UserValues:
    """The values of all results in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs: dict[str, UserColumns] | None = None

    @staticmethod
    def check_packages() -> None:
        """Raise a `MissingPackageError` if nothing is installed that writes Parquet."""
        _package()

    def save(self, result: Result, users: NDArray[np.int64], values: Mapping[str, NDArray[np.float64]]) -> None:
        """Add the values (B,) of users (B,), by the names of metrics."""
        path = self._folder / "users.parquet"
        runs = _read_runs(path) if path.exists() else {}
        runs[result.run] = {
            "run": np.full(len(users), result.run),
            "model": np.full(len(users), result.model),
            "fold": np.full(len(users), result.fold, dtype=np.int32),
            "user": users.astype(np.int32),
            **{name: column.astype(np.float32) for name, column in values.items()},
        }
        with atomic_write(path) as file:
            _write(file, _join(list(runs.values())))
        self._runs = None

    def load(self, result: Result) -> UserColumns | None:
        """Return `user` and the metrics, one array (B,) each; None if they are absent."""
        if self._runs is None:
            self._runs = {}
            for path in sorted(self._folder.glob("users*.parquet")):
                self._runs |= _read_runs(path)
        return self._runs.get(result.run)


def _read_runs(path: Path) -> dict[str, UserColumns]:
    remedy = "remove it; p-values of the runs in it are then not shown until they are run again"
    with reading_file(path, damage=Exception, remedy=remedy):
        try:
            return _split(_read(path))
        except BaseException as error:
            if type(error).__name__ == "PanicException":  # of polars, and no `Exception`
                raise DamagedFileError(shorten(str(error))) from None
            raise


def _join(parts: list[UserColumns]) -> UserColumns:
    """Put runs one after the other; NaN where one lacks a metric that another has."""
    names = list(dict.fromkeys(name for part in parts for name in part))
    missing = {id(part): np.full(len(part["run"]), np.nan, dtype=np.float32) for part in parts}
    return {name: np.concatenate([part.get(name, missing[id(part)]) for part in parts]) for name in names}


def _split(columns: UserColumns) -> dict[str, UserColumns]:
    """Return the columns of each run."""
    runs = columns["run"].astype(str)
    changes: list[int] = np.flatnonzero(runs[1:] != runs[:-1]).tolist()  # the last row of each run but one
    starts = [0, *(change + 1 for change in changes)] if len(runs) else []
    ends = [*starts[1:], len(runs)] if len(runs) else []
    return {
        str(runs[start]): {name: column[start:end] for name, column in columns.items()}
        for start, end in zip(starts, ends, strict=True)
    }


def _read(path: Path) -> UserColumns:
    if _package() == "polars":
        import polars as pl

        return {column.name: column.to_numpy() for column in pl.read_parquet(path, hive_partitioning=False, glob=False)}
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def _write(file: IO[bytes], columns: UserColumns) -> None:
    if _package() == "polars":
        import polars as pl

        pl.DataFrame(columns).write_parquet(file, compression="zstd")
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), file, compression="zstd")


def _package() -> str:
    """Return the installed package that reads and writes Parquet."""
    try:
        import polars  # noqa: F401
    except ImportError:
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            raise MissingPackageError(
                "the values of single users are kept in Parquet, which needs polars or pyarrow; "
                "install one with: pip install polars"
            ) from error
        return "pyarrow"
    return "polars"
