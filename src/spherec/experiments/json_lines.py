"""A file of records, one line of JSON each: a record is added when it is whole, and then it is on disk."""

import json
import math
import os
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from spherec.errors import DataError

_Record = TypeVar("_Record", bound=Any)  # a dataclass


@dataclass
class JsonLines(Generic[_Record]):
    """Records of one kind. A line that a killed run left half is passed over.

    JSON has no NaN: scores that are none (the MMR of empty lists) are null in the file, and NaN again when read.
    """

    path: Path
    kind: type[_Record]
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __iter__(self) -> Iterator[_Record]:
        if not self.path.exists():
            return
        for number, line in enumerate(self.path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                yield self.kind(**json.loads(line, object_hook=_with_nan))
            except json.JSONDecodeError:
                continue
            except TypeError as error:
                raise DataError(f"{self.path}, line {number} is not a record ({error}); remove the line") from None

    def add(self, record: _Record) -> None:
        """Append a line; when this returns, it is on disk."""
        line = json.dumps(_without_nan(asdict(record)), sort_keys=True) + "\n"
        with self._lock, open(self.path, "a+b") as file:
            if file.tell() and not _ends_with_newline(file):
                file.write(b"\n")  # after a line that was left half
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())


def _without_nan(value: Any) -> Any:
    """The same with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {name: _without_nan(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _with_nan(table: dict[str, Any]) -> dict[str, Any]:
    """The same with NaN for None among the scores; elsewhere None may be meant."""
    if isinstance(scores := table.get("scores"), dict):
        table["scores"] = {name: math.nan if value is None else value for name, value in scores.items()}
    return table


def _ends_with_newline(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")
