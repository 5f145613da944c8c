"""Processes that were forked: what works in them, and what fails at once instead of waiting forever.

A fork copies one thread and all locks. Pools of threads that the parent had are gone in the child, but their owners do
not know that. So torch computes in one thread in a forked process, which needs no pool; a lock that a thread of the
parent held is free; and polars, whose pool cannot be made again, is refused where the parent had used it.
"""

import importlib.util
import os
import re
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from spherec.errors import ForkedProcessError, MissingPackageError

_TASKS = Path("/proc/self/task")  # Linux alone names its threads here

_POOL_THREAD = re.compile(r"polars-\d")

_fork = threading.local()  # of the thread that forks
_lost_polars = False


class ProcessLock:
    """A reentrant lock for the threads of one process. In a forked process, and in a copy, it is free."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if self._process != os.getpid():  # only one thread survives a fork
            self._process, self._lock = os.getpid(), threading.RLock()
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return ProcessLock, ()


def require_polars(purpose: str) -> None:
    """Raise an error unless polars is installed, and can be used in this process; `purpose` is what needs it."""
    if importlib.util.find_spec("polars") is None:
        raise MissingPackageError(f"{purpose} needs polars; install it with: pip install polars")
    refuse_polars_after_fork()


def refuse_polars_after_fork() -> None:
    """Raise a `ForkedProcessError` where polars would wait forever for the threads that it had before a fork."""
    if _lost_polars:
        raise ForkedProcessError(
            "polars cannot be used in a process that was forked after its parent used polars; start processes with "
            "multiprocessing.get_context('spawn'), or read and write tables before the fork"
        )


def _has_polars_threads() -> bool:
    """Return whether polars has started the threads of its pool in this process."""
    try:
        tasks = list(_TASKS.iterdir())
    except OSError:  # not Linux
        return False
    return any(_POOL_THREAD.match(_name_of(task)) for task in tasks)


def _name_of(task: Path) -> str:
    try:
        return (task / "comm").read_text(errors="replace")
    except OSError:  # it just ended
        return ""


def _before_fork() -> None:
    _fork.has_polars_threads = _has_polars_threads()


def _after_fork_in_child() -> None:
    global _lost_polars
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    _lost_polars = _lost_polars or _fork.has_polars_threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
