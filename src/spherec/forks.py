"""Processes that were forked: what works in them, and what fails at once instead of waiting forever.

A fork copies one thread and all locks. Pools of threads that the parent had are gone in the child, but their owners do
not know that. So torch computes in one thread in a forked process, which needs no pool; a lock that a thread of the
parent held is free; and polars, whose pool cannot be made again, is refused where spherec had used it in the parent.
"""

import importlib.util
import os
import sys
import threading
from typing import Any

from spherec.errors import ForkedProcessError, MissingPackageError

_polars_process: int | None = None  # in which spherec has used polars; processes forked from it have no pool


class ProcessLock:
    """A reentrant lock for the threads of one process. In a forked process, and in a copy, it is free."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if self._process != os.getpid():  # only one thread survives a fork
            self._process, self._lock = os.getpid(), threading.RLock()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return ProcessLock, ()


def require_polars(purpose: str) -> None:
    """Raise an error unless polars is installed and can be used in this process; `purpose` is what needs it."""
    global _polars_process
    if importlib.util.find_spec("polars") is None:
        raise MissingPackageError(f"{purpose} needs polars; install it with: pip install polars")
    if _polars_process not in (None, os.getpid()):  # it would wait forever for the threads that it had before the fork
        raise ForkedProcessError(
            "polars cannot be used in a process that was forked after its parent used polars; start processes with "
            "multiprocessing.get_context('spawn'), or read and write tables before the fork"
        )
    _polars_process = os.getpid()


def _after_fork_in_child() -> None:
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
