"""Records on disk, so that nothing is run twice: a line of JSON for each trial and each test, and values of users."""

import json
import math
import os
import platform
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from spherec._version import __version__
from spherec.data.container import checksum
from spherec.data.input_files import reading_file
from spherec.data.interactions import Interactions
from spherec.data.output_files import atomic_write
from spherec.errors import DataError, require_polars

Settings = Mapping[str, Any]
"""Values of settings by dotted names, such as "sampler.beta"."""


@dataclass(frozen=True)
class Trial:
    """Settings that were tried, and how good they were."""

    settings: Settings
    scores: Mapping[str, float] = field(default_factory=dict)
    "Metrics on the validation part, by name; empty where it failed."
    epochs: int | None = None
    "Epochs after which the validation metric was best; None for a model without early stopping."
    seconds: float = 0.0
    failed: str = ""  # why it could not be fit; empty where it could
    pruned: bool = False  # ended early as poor
    number: int = 0  # position in the search, counted from 0

    @property
    def state(self) -> Literal["complete", "pruned", "failed"]:
        return "failed" if self.failed else "pruned" if self.pruned else "complete"

    @property
    def refit(self) -> dict[str, Any]:
        """The settings to fit the model with again, on all training data."""
        return {**self.settings} if self.epochs is None else {**self.settings, "epochs": self.epochs}


@dataclass(frozen=True)
class Result:
    """A model on a fold: fit on all training data with the settings that were chosen, tested once; or one trial."""

    study: str  # name of the experiment
    model: str  # its name, or that of the row of the experiment
    fold: int
    identity: dict[str, Any]
    "All that decides the result: the data, the split, the config, what was searched."
    settings: dict[str, Any] = field(default_factory=dict)
    "The settings chosen on the validation part, by dotted names."
    trials: list[Trial] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)  # metrics on the test part, by name
    seconds: dict[str, float] = field(default_factory=dict)  # of choosing, training and testing
    environment: dict[str, str] = field(default_factory=dict)  # commit, device and versions
    is_ours: bool = True  # a model of spherec; all others are baselines
    peak_mb: float | None = None
    "Growth of memory during the last fit; None if it is not known."
    peak_of: str = ""  # kind of that memory
    curve: list[dict[str, Any]] = field(default_factory=list)
    "The epochs with a validation, of the trial that was chosen."
    digest: str = ""  # checksum of the vectors
    run: str = ""  # key of its rows among the values of single users

    @property
    def key(self) -> str:
        """Text that is the same for runs that must have the same result."""
        return json.dumps([self.study, self.model, self.fold, self.identity], sort_keys=True)


@dataclass
class RecordFile:
    """A file of records, one line of JSON each. A line that is not JSON is skipped: a killed run left it.

    JSON has no NaN: scores without a value (the MMR of empty lists) are null in the file and NaN when read.
    """

    path: Path
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __iter__(self) -> Iterator[Result]:
        lines = self.path.read_bytes().splitlines() if self.path.exists() else []
        for number, line in enumerate(lines, start=1):
            try:
                content = json.loads(line.decode("utf-8"), object_hook=_null_scores_to_nan)
            except (ValueError, RecursionError):
                continue
            try:
                values = {name: value for name, value in dict(content).items() if name != "schema"}
                yield Result(**values | {"trials": [Trial(**trial) for trial in values.get("trials", ())]})
            except (TypeError, ValueError, AttributeError) as error:
                raise DataError(f"{self.path}, line {number} is not a record ({error}); remove the line") from None

    def by_key(self) -> dict[str, Result]:
        """Return all records by their keys; of equal ones the last."""
        return {record.key: record for record in self}

    def add(self, record: Result) -> None:
        """Append a line. When this returns, it is on disk."""
        content = json.loads(json.dumps(asdict(record)), parse_constant=lambda _: None)  # NaN becomes null
        line = json.dumps(content, sort_keys=True) + "\n"
        with self._lock, open(self.path, "a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else f"\n{line}"  # after an incomplete line
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())


class UserValues:
    """Values of single users, for paired tests: a Parquet file next to the records of a comparison.

    Columns: run (the key of a `Result`), model, fold, user (its index), and a float32 column for each metric. Files of
    other machines can be put into the same folder under names such as users-2.parquet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs: dict[str, dict[str, NDArray[Any]]] | None = None

    def save(self, result: Result, users: NDArray[np.int64], values: Mapping[str, NDArray[np.float64]]) -> None:
        """Add the values (B,) of users (B,), by the names of metrics."""
        import polars as pl

        path = self._folder / "users.parquet"
        facts = {"run": pl.lit(result.run), "model": pl.lit(result.model), "fold": pl.lit(result.fold, dtype=pl.Int32)}
        columns = {name: column.astype(np.float32) for name, column in values.items()}
        added = pl.DataFrame({"user": users.astype(np.int32), **columns})
        added = added.select(*(value.alias(name) for name, value in facts.items()), pl.all())
        kept = [_read_parquet(path).filter(pl.col("run") != result.run)] if path.exists() else []
        with atomic_write(path) as file:
            pl.concat([*kept, added], how="diagonal").write_parquet(file, compression="zstd")
        self._runs = None

    def load(self, result: Result) -> dict[str, NDArray[Any]] | None:
        """Return the columns of a result, `user` and the metrics, one array (B,) each; None if they are absent."""
        if self._runs is None:
            self._runs = {}
            for path in sorted(self._folder.glob("users*.parquet")):
                for (run,), rows in _read_parquet(path).partition_by("run", as_dict=True).items():
                    self._runs[str(run)] = {column.name: column.to_numpy() for column in rows}
        return self._runs.get(result.run)


def data_id(data: Interactions) -> str:
    """Return a text that tells data sets apart in records."""
    weighed = "" if data.weights is None else f", weights {checksum(data.weights)}"
    return f"{data.n_users} users, {data.n_items} items, {checksum(data.indptr, data.indices)}{weighed}"


def environment_of(device: torch.device) -> dict[str, str]:
    """Return commit, device and versions, so that a result can be made again."""
    threads = torch.get_num_threads()
    on_cpu = f"CPU, {threads} thread{'s' * (threads > 1)}"
    return {
        "spherec": __version__,
        "commit": os.environ.get("SPHEREC_COMMIT") or _commit(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else on_cpu,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }


def _commit() -> str:
    """Return the commit of the code, marked if it was changed since; unknown where there is no clone."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.check_output(
            command, cwd=Path(__file__).parent, stderr=subprocess.DEVNULL, text=True, timeout=10
        ).strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _read_parquet(path: Path) -> Any:
    require_polars("the file of users' values")
    import polars as pl

    remedy = "remove it; p-values of the runs in it are then not shown until they are run again"
    with reading_file(path, remedy), open(path, "rb") as file:
        return pl.read_parquet(file)


def _null_scores_to_nan(table: dict[str, Any]) -> dict[str, Any]:
    """Return the same with NaN for None among the scores; elsewhere None may be meant."""
    if isinstance(scores := table.get("scores"), dict):
        table["scores"] = {name: math.nan if value is None else value for name, value in scores.items()}
    return table
