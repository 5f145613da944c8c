"""Records of experiments on disk: a line of JSON for each trial and each test."""

import json
import math
import os
import threading
from collections.abc import Iterator
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

from spherec.data.archive import checksum
from spherec.data.input_files import find_kind, refuse_unreadable
from spherec.data.interactions import Interactions
from spherec.errors import DataError
from spherec.lab.trial import Trial

SCHEMA = 2
"""Version of the lines."""


@dataclass(frozen=True)
class TrialRecord:
    """A trial of a model on the validation part of a fold."""

    model: str
    fold: int
    identity: dict[str, Any]
    "All that decides the result besides the settings: the data, the split, the model's fixed settings."
    trial: Trial
    environment: dict[str, str]

    @property
    def key(self) -> str:
        """Text that is the same for trials that must have the same result."""
        return json.dumps([self.model, self.fold, self.identity, dict(self.trial.settings)], sort_keys=True)


@dataclass(frozen=True)
class Result:
    """A model on a fold: fit on all training data with the settings that were chosen, tested once."""

    study: str
    "Name of the experiment."
    model: str
    "Name of the model, or of the row of the experiment."
    fold: int
    identity: dict[str, Any]
    "All that decides the result: the data, the split, the config, what was searched."
    settings: dict[str, Any] = field(default_factory=dict)
    "The settings chosen on the validation part, by dotted names."
    trials: list[Trial] = field(default_factory=list)
    "All that was tried on the validation part."
    scores: dict[str, float] = field(default_factory=dict)
    "Metrics on the test part, by name."
    seconds: dict[str, float] = field(default_factory=dict)
    "Time of choosing, training and testing."
    environment: dict[str, str] = field(default_factory=dict)
    "Commit, device and versions."
    is_ours: bool = True
    "True for a model of spherec; all others are baselines."
    peak_mb: float | None = None
    "Growth of memory during the last fit; None if it is not known."
    peak_of: str = ""
    "Kind of that memory."
    curve: list[dict[str, Any]] = field(default_factory=list)
    "The epochs with a validation, of the trial that was chosen."
    digest: str = ""
    "Checksum of the vectors."
    run: str = ""
    "Key of its rows among the values of single users."

    @property
    def key(self) -> str:
        """Text that is the same for runs that must have the same result."""
        return json.dumps([self.study, self.model, self.fold, self.identity], sort_keys=True)


_Record = TypeVar("_Record", Result, TrialRecord)


@dataclass
class RecordFile(Generic[_Record]):
    """A file of records of one kind, one line of JSON each. A line that is no JSON is skipped: a killed run left it.

    JSON has no NaN: scores without a value (the MMR of empty lists) are null in the file and NaN when read.
    """

    path: Path
    kind: type[_Record]
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __iter__(self) -> Iterator[_Record]:
        if find_kind(self.path) == "nothing":
            return
        refuse_unreadable(self.path)
        for number, line in enumerate(self.path.read_bytes().splitlines(), start=1):
            try:
                content = json.loads(line.decode("utf-8"), object_hook=_null_scores_to_nan)
            except (ValueError, RecursionError):
                continue
            try:
                yield _parse(self.kind, content)
            except (TypeError, ValueError, KeyError, AttributeError) as error:
                raise DataError(f"{self.path}, line {number} is not a record ({error}); remove the line") from None

    def add(self, record: _Record) -> None:
        """Append a line. When this returns, it is on disk."""
        line = json.dumps({"schema": SCHEMA, **_to_json(record)}, sort_keys=True) + "\n"
        with self._lock, open(self.path, "a+b") as file:
            if file.tell() and not _ends_with_newline(file):
                file.write(b"\n")  # after an incomplete line
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())


def data_id(data: Interactions) -> str:
    """Return a text that tells data sets apart in records."""
    weighed = "" if data.weights is None else f", weights {checksum(data.weights)}"
    return f"{data.n_users} users, {data.n_items} items, {checksum(data.indptr, data.indices)}{weighed}"


def _parse(kind: type[_Record], content: Any) -> _Record:
    values = dict(content)
    if (schema := values.pop("schema", None)) != SCHEMA:
        raise TypeError(f"its schema is {schema}, and this version of spherec knows {SCHEMA}")
    if "trial" in values:
        values["trial"] = Trial(**values["trial"])
    if "trials" in values:
        values["trials"] = [Trial(**trial) for trial in values["trials"]]
    return kind(**values)


def _to_json(record: Result | TrialRecord) -> dict[str, Any]:
    content: dict[str, Any] = _without_nan(asdict(record))
    for name in ("trial", "trials"):
        if name in content:
            inner = content[name]
            content[name] = [_shorten(trial) for trial in inner] if isinstance(inner, list) else _shorten(inner)
    return content


def _shorten(trial: dict[str, Any]) -> dict[str, Any]:
    """Leave out what has its default value."""
    defaults = {one.name: one.default for one in fields(Trial) if one.default is not MISSING}
    return {name: value for name, value in trial.items() if name not in defaults or value != defaults[name]}


def _without_nan(value: Any) -> Any:
    """Return the same with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {name: _without_nan(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _null_scores_to_nan(table: dict[str, Any]) -> dict[str, Any]:
    """Return the same with NaN for None among the scores; elsewhere None may be meant."""
    if isinstance(scores := table.get("scores"), dict):
        table["scores"] = {name: math.nan if value is None else value for name, value in scores.items()}
    return table


def _ends_with_newline(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")
