"""Ctrl-C as a wish, not a crash: the step in progress ends first."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self._wanted = False

    def is_wanted(self) -> bool:
        """Whether it was."""
        return self._wanted

    def note(self) -> None:
        """It was."""
        self._wanted = True

    def __call__(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Note the first; the second stops at once."""
        if self._wanted:
            raise KeyboardInterrupt
        self._wanted = True


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Inside, Ctrl-C is only noted; in a thread that gets no signals, nothing changes. One around it is told, too."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
        if interrupt.is_wanted() and isinstance(before, Interrupt):
            before.note()
