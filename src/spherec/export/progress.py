"""How far an export is."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with the rows done and all rows."""


class Counter:
    """Counts rows, and tells."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def add(self, part: slice) -> None:
        """These rows are done."""
        self._done += part.stop - part.start
        if self._progress is not None:
            self._progress(self._done, self._total)
