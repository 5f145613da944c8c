"""A file of records, one line of JSON each: a record is added when it is whole, and then it is on disk."""

import json
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
    """Records of one kind. A line that a killed run left half is passed over."""

    path: Path
    kind: type[_Record]
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __iter__(self) -> Iterator[_Record]:
        if not self.path.exists():
            return
        for number, line in enumerate(self.path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                yield self.kind(**json.loads(line))
            except json.JSONDecodeError:
                continue
            except TypeError as error:
                raise DataError(f"{self.path}, line {number} is not a record ({error}); remove the line") from None

    def add(self, record: _Record) -> None:
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
