"""Every error that spherec raises on purpose.

SpherecError
├── ArgumentError     (also ValueError)   a parameter outside its range
├── DataError         (also ValueError)   input that cannot be used: a file, a row, a column, a frame
├── UnknownIdError    (also LookupError)  ids that the data does not hold
├── TrainingError     (also RuntimeError) a run that cannot go on
└── MissingPackageError (also ImportError) a package that this call needs is not installed

A message is one sentence that names where (file, line or column), the value received, and what to do about it.
"""

from collections.abc import Iterable
from difflib import get_close_matches


def meant(name: str, known: Iterable[str]) -> str:
    """What the name may be a slip of, to stand behind it in a message; empty if nothing is near."""
    close = get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


class SpherecError(Exception):
    """Base of all errors that spherec raises on purpose."""


class ArgumentError(SpherecError, ValueError):
    """A parameter has a value outside its range."""


class DataError(SpherecError, ValueError):
    """The input cannot be used as it is."""


class UnknownIdError(SpherecError, LookupError):
    """An external id that the data does not hold."""


class TrainingError(SpherecError, RuntimeError):
    """A run that cannot go on."""


class MissingPackageError(SpherecError, ImportError):
    """A package that this call needs is not installed."""


class DuplicatePairsWarning(UserWarning):
    """(user, item) pairs came more than once and were merged by a rule that the caller did not choose."""


class UnreadValuesWarning(UserWarning):
    """A file has a column of ratings or counts that the caller did not name: every row counts as a positive."""
