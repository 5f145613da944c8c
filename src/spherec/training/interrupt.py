"""Ctrl-C, SIGTERM and SIGHUP: they end a run after the step in progress."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SECONDS_OF_ONE_REQUEST = 1.0
_ENDING_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupt:
    """A handler of signals that ask for an end: it sets a flag, so that the step in progress ends first."""

    def __init__(self) -> None:
        self.number: int | None = None
        "The signal that came first."
        self._when = 0.0

    def is_wanted(self) -> bool:
        """Tell whether a signal came."""
        return self.number is not None

    def note(self, number: int) -> None:
        """Set the flag."""
        self.number, self._when = number, time.monotonic()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Set the flag at the first signal; end at once at the second.

        A SIGTERM or SIGHUP right after another signal is the same request: a terminal that closes sends it twice,
        systemd sends SIGHUP after SIGTERM, and torchrun passes on what Slurm has sent to all processes.
        """
        del frame
        if self.number is None:
            self.note(number)
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
        elif time.monotonic() - self._when > _SECONDS_OF_ONE_REQUEST:
            raise SystemExit(128 + number)


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Let Ctrl-C (SIGINT), SIGTERM and SIGHUP set a flag instead of ending the process, within this block.

    Does nothing outside the main thread, which alone gets signals. A signal that is ignored, as SIGHUP is under nohup,
    stays ignored. An enclosing block is flagged as well. The caller's own handler of SIGTERM or SIGHUP is called when
    the block has ended.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = {number: signal.getsignal(number) for number in _ENDING_SIGNALS}
    before = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if interrupt.number is not None:
            handler = before[interrupt.number]
            if isinstance(handler, Interrupt):
                handler.note(interrupt.number)
            elif callable(handler) and interrupt.number != signal.SIGINT:
                handler(interrupt.number, None)
