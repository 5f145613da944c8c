"""Exceptions and warnings that spherec raises on purpose.

* SpherecError
  * ArgumentError            (ValueError)    a parameter is outside its range
  * DataError                (ValueError)    the input cannot be used: a file, a row, a column, a data frame
  * UnknownIdError           (LookupError)   ids that the data does not hold
  * TrainingError            (RuntimeError)  a run cannot continue
    * NotEnoughMemoryError                   … because memory is short
  * MissingPackageError      (ImportError)   a package that this call needs is not installed
  * ForkedProcessError       (RuntimeError)  a forked process is asked for what only a new process can do
* UserWarning
  * DuplicatePairsWarning                    repeated pairs were merged by a default rule
  * UncutValuesWarning                       low ratings count as likes
  * UnreadValuesWarning                      ratings or counts were not used
  * CheckpointWarning                        a checkpoint could not be written; training continues
  * UncheckedIndexWarning                    an index file of an earlier version has no checksum

The class in parentheses is a second base, so that `except ValueError` works, too. A message is one sentence: where
(file, line or column), the value received, and what to do about it.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Real

_SHOWN = 12  # columns named in an error before "and n more"
_LONGEST = 30  # characters of each


class SpherecError(Exception):
    """Base class of all errors that spherec raises on purpose."""


class ArgumentError(SpherecError, ValueError):
    """A parameter has a value outside its range."""


class DataError(SpherecError, ValueError):
    """The input cannot be used as it is."""


class UnknownIdError(SpherecError, LookupError):
    """An external id is not among those that the data holds."""


class TrainingError(SpherecError, RuntimeError):
    """A training run cannot continue."""


class NotEnoughMemoryError(TrainingError):
    """A training run cannot continue because memory is short."""


class MissingPackageError(SpherecError, ImportError):
    """A package that this call needs is not installed."""


class ForkedProcessError(SpherecError, RuntimeError):
    """A forked process is asked for something that only a new process can do."""


class DuplicatePairsWarning(UserWarning):
    """Some (user, item) pairs were repeated and were merged by a rule that the caller did not choose."""


class UncutValuesWarning(UserWarning):
    """A format has ratings or counts, and no least value was asked for: low ones count as likes, too."""


class UnreadValuesWarning(UserWarning):
    """Ratings or counts in a file, a data frame or a matrix are not used: every row or entry counts as a positive."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; training continues, and tries again after a while."""


class UncheckedIndexWarning(UserWarning):
    """An index file has no checksum, because an earlier version wrote it: damage would not be noticed."""


def suggest(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the known name closest to a misspelt one, or an empty string."""
    close = get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def describe_missing_column(name: str, columns: list[str]) -> str:
    """Return one sentence: the column that is missing, those that are there, and the likeliest of them."""
    shown = [column if len(column) <= _LONGEST else f"{column[:_LONGEST]}…" for column in columns[:_SHOWN]]
    more = f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else ""
    close = get_close_matches(name, columns, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "name the right one"
    return f"there is no column {name!r}, only {', '.join(map(repr, shown))}{more}; {hint}"


def check_number(name: str, value: object, low: float, high: float, usual: str = "") -> None:
    """Raise an `ArgumentError` unless the value is a number from `low` to `high`; `usual` is what most people take."""
    if not isinstance(value, Real) or not value <= high or value < low:
        remedy = f"; {usual} is usual" if usual else ""
        shown = str(value) if isinstance(value, Real) else f"a value of type {type(value).__name__}"
        raise ArgumentError(f"{name} must be a number from {low:g} to {high:g}, got {shown[:60]}{remedy}")
