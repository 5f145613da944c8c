"""Exceptions and warnings that spherec raises on purpose, and checks that raise them.

Each error has a second base, such as `ValueError`. A message is one sentence: the place, the value, and the remedy.
"""

import importlib.util
import os
import re
from collections.abc import Hashable, Iterable, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from pathlib import PurePath
from typing import Any

_polars_process: int | None = None  # in which spherec has used polars; processes forked from it have no pool

_SHOWN = 12  # columns named in an error before "and n more"
_QUOTED, _PARTS = 80, 5  # characters of a quoted text, and parts of a tuple, that are shown
# Control characters of ASCII and Latin-1, line separators, direction marks, halves of characters.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


class SpherecError(Exception):
    """Base class of all errors that spherec raises on purpose."""


class ArgumentError(SpherecError, ValueError):
    """A parameter has a value outside its range."""


class DataError(SpherecError, ValueError):
    """The input cannot be used as it is."""


class EmptyFileError(DataError):
    """A file has no events: no bytes, no text, or no rows."""


class LockedOutputError(DataError):
    """A file cannot be written because another run is writing it."""


class UnknownIdError(SpherecError, LookupError):
    """An external id is not among those that the data holds."""


class TrainingError(SpherecError, RuntimeError):
    """A training run cannot continue."""


class WorseModelError(TrainingError):
    """An update would make a model worse than its gate allows."""


class NotEnoughMemoryError(TrainingError):
    """A training run cannot continue because memory is short."""


class LostProcessError(TrainingError):
    """A training run cannot continue because one of its processes is gone."""


class FailedProcessError(LostProcessError):
    """A training run cannot continue because another process has failed, which raises the error itself."""


class MissingPackageError(SpherecError, ImportError):
    """A package that this call needs is not installed."""


class ForkedProcessError(SpherecError, RuntimeError):
    """A forked process is asked for something that only a new process can do."""


class DuplicatePairsWarning(UserWarning):
    """Some (user, item) pairs were repeated and were merged by a rule that the caller did not choose."""


class UncutValuesWarning(UserWarning):
    """A format has ratings or counts, and no least value was asked for: low ones also count as likes."""


class UnreadValuesWarning(UserWarning):
    """Ratings or counts in a file, a data frame or a matrix are not used: every row or entry counts as a positive."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; training continues, and tries again after a while."""


class SkippedIdsWarning(UserWarning):
    """A list of items that may or must not be listed has some that the model does not know; they are skipped."""


class NothingNewWarning(UserWarning):
    """There is nothing in new interactions that a model has not learned from; it stays as it is."""


class UnknownContentWarning(UserWarning):
    """Features of new items have what was not there in training: words are ignored, far numbers cut to the nearest."""


def escape_controls(text: str) -> str:
    """Return the text with control characters written as escapes, so that a terminal shows them and obeys none."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def quote(value: object) -> str:
    """Return a value as it appears in a message: texts in quotes and cut, numbers bare, other things by their type."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # a number of NumPy or torch
        value = value.item()
    if isinstance(value, str):
        text = escape_controls(value if len(value) <= _QUOTED else f"{value[:_QUOTED]}…")
        return f'"{text}"' if "'" in text else f"'{text}'"
    if isinstance(value, tuple | list):
        parts = ", ".join(map(quote, value[:_PARTS])) + (f", … {len(value):,} in all" * (len(value) > _PARTS))
        return f"({parts})" if isinstance(value, tuple) else f"[{parts}]"
    if value is None or isinstance(value, int | float | PurePath):
        return escape_controls(str(value))
    shape = f" of shape {quote(tuple(value.shape))}" if hasattr(value, "shape") else ""
    return f"a value of type {type(value).__name__}{shape}"


def shorten(thing: object) -> str:
    """Return a value as it appears in a message, cut after 120 characters; strings and errors without quotes."""
    text = escape_controls(str(thing)) if isinstance(thing, str | Exception) else quote(thing)
    return text if len(text) <= 120 else f"{text[:120]}…"


def enumerate_ids(ids: Sequence[Hashable], shown: int = 5) -> str:
    """Return the first few ids and the number of the others, for messages."""
    more = f" and {len(ids) - shown:,} more" if len(ids) > shown else ""
    return f"{', '.join(map(quote, ids[:shown]))}{more}"


def suggest(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the known name closest to a misspelt one, or an empty string."""
    close = get_close_matches(name, list(known), n=1)
    return f" (did you mean {quote(close[0])}?)" if close else ""


def describe_missing_column(name: str, columns: list[str]) -> str:
    """Return one sentence: the column that is missing, those that are there, and the likeliest of them."""
    hint = suggest(name, columns).strip(" ()") or "name the right one"
    return f"there is no column {quote(name)}, only {enumerate_ids(columns, _SHOWN)}; {hint}"


def check_number(name: str, value: object, low: float, high: float, usual: str = "") -> None:
    """Raise an `ArgumentError` unless the value is a number from `low` to `high`; `usual` is what most people take."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= value <= high:  # type: ignore[operator]
        remedy = f"; {usual} is usual" if usual else ""
        raise ArgumentError(f"{name} must be a number from {low:g} to {high:g}, got {quote(value)}{remedy}")


def check_count(name: str, value: Any) -> int:
    """Return the value as an int; raise an `ArgumentError` unless it is a whole number >= 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise ArgumentError(f"{name} must be a whole number >= 1, got {quote(value)}")
    return int(value)


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise an `ArgumentError` unless the value is one of these texts."""
    known = list(choices)
    if not isinstance(value, str) or value not in known:
        hint = suggest(value, known) if isinstance(value, str) else ""
        raise ArgumentError(f"{name} must be one of {', '.join(known)}, got {quote(value)}{hint}")


def refuse_unknown(method: str, given: Iterable[str], allowed: type) -> None:
    """Raise the `TypeError` of Python, which would name an inner function, for an argument that a method lacks."""
    for name in set(given) - allowed.__annotations__.keys():
        raise TypeError(f"{method}() got an unexpected keyword argument {name!r}")


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
