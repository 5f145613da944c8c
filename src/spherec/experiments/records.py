"""What runs gave, one line of JSON each: written when a run ends, read to skip what is done."""

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from spherec.errors import DataError


@dataclass(frozen=True)
class Record:
    """One row on one fold."""

    experiment: str
    row: str
    fold: int
    identity: dict[str, Any]
    "All that decides the result: the configs to choose from, the data, the split."
    epochs: int
    "Chosen on the validation part."
    training: dict[str, Any]
    "The config, chosen on the validation part where there were several."
    tried: list[dict[str, Any]]
    "Of each config to choose from: the epochs that were best for it, and its scores on the validation part."
    scores: dict[str, float]
    "On the test fold, by the names of `Scores.summary`."
    curve: list[dict[str, Any]]
    "The epochs at which the validation part was looked at, of the run that was chosen."
    seconds: dict[str, float]
    "Spent in choosing, training, testing."
    environment: dict[str, str]
    "Where it ran: commit, device, versions."
    digest: str = ""
    "Checksum of the vectors."

    @property
    def key(self) -> str:
        """What makes two records the same run."""
        return json.dumps([self.experiment, self.row, self.fold, self.identity], sort_keys=True)


@dataclass
class Records:
    """A file of records. A line that a killed run left half is passed over."""

    path: Path
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __iter__(self) -> Iterator[Record]:
        if not self.path.exists():
            return
        for number, line in enumerate(self.path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                yield Record(**json.loads(line))
            except json.JSONDecodeError:
                continue
            except TypeError as error:
                raise DataError(f"{self.path}, line {number} is not a record ({error}); remove the line") from None

    def add(self, record: Record) -> None:
        """Append a line; when this returns, it is on disk."""
        line = json.dumps(asdict(record), sort_keys=True) + "\n"
        with self._lock, open(self.path, "a+b") as file:
            if file.tell() and not _ends_with_newline(file):
                file.write(b"\n")  # after a line that was left half
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())


def _ends_with_newline(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")
