"""Now and then, by the clock."""

import time


class Timer:
    """Says every so many seconds that it is time again; with 0 seconds, always."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last = time.monotonic()

    def is_due(self) -> bool:
        """Whether that many seconds have passed since the last time."""
        now = time.monotonic()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True
