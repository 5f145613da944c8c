"""Raw (user, item) events as columns, and the rule that merges repeated pairs."""

import inspect
import warnings
from collections.abc import Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spherec.data.ids import factorize, unmask
from spherec.errors import ArgumentError, DataError, DuplicatePairsWarning, check_choice, quote

Duplicates = Literal["last", "sum"]
"""Rule for repeated pairs: keep the last value, or sum the values."""

IdColumn = Iterable[Hashable]
"""External ids, one for each row."""

_IN_1973 = 1e8  # seconds since 1970
_MOST_GROWTH = 500  # of a time since then: 9999-12-31 is 160 times 2020, and milliseconds are 1,000 times seconds
_PACKAGE = str(Path(__file__).parents[1])


@dataclass(frozen=True)
class Step:
    """A step from raw rows to interactions, with the sizes after it."""

    name: str
    "Description, e.g. 'users with >= 20 items'."
    users: int
    items: int
    pairs: int


@dataclass(frozen=True, eq=False)
class Events:
    """Columns of (user, item) events: before `merge`, a pair may be repeated.

    Ids that no event uses any more may remain; `Interactions` drops them.
    """

    users: NDArray[np.int32]
    "(E,) index of each event's user in user_ids."
    items: NDArray[np.int32]
    "(E,) index of each event's item in item_ids."
    user_ids: NDArray[Any]
    "(U,) distinct external ids."
    item_ids: NDArray[Any]
    "(I,) distinct external ids."
    values: NDArray[np.float64] | None = None
    "(E,) rating or count; None where every event counts as 1."
    times: NDArray[np.float64] | None = None
    "(E,) times, all in one unit; dates become seconds since 1970."
    steps: tuple[Step, ...] = ()
    "Steps so far."
    kinds: NDArray[np.int16] | None = None
    "(E,) number of each event's kind, until `EventWeights` merges them."
    disliked: NDArray[np.int32] | None = None
    "(D, 2) user and item of each pair that is a dislike, by user, then item; they are none of the events."

    @classmethod
    def from_columns(
        cls, users: IdColumn, items: IdColumn, *, values: ArrayLike | None = None, times: ArrayLike | None = None
    ) -> Self:
        """Build events from columns of equal length, with external ids."""
        user_index, user_ids = factorize(users, "user")
        item_index, item_ids = factorize(items, "item")
        numbers = _numbers(values, "value"), _numbers(times, "time")
        events = cls(user_index, item_index, user_ids, item_ids, *numbers)
        lengths = {len(column) for column in (user_index, item_index, *numbers) if column is not None}
        if len(lengths) > 1 or not len(events):
            raise DataError(f"columns must be equally long, and not empty, got lengths {sorted(lengths)}")
        return events.with_step("read")

    def __len__(self) -> int:
        return len(self.users)

    def filter(self, mask: NDArray[np.bool_], name: str = "") -> Self:
        """Return the events where `mask` (E,) is true; `name` describes the step in the record, if it is one."""
        if getattr(mask, "dtype", None) != np.bool_ or mask.shape != (len(self),):
            raise ArgumentError(f"mask must be an array of {len(self):,} booleans, got {quote(mask)}")
        events = self._take(mask)
        return events.with_step(name) if name else events

    def _take(self, rows: NDArray[Any]) -> Self:
        """Return some of the events, by a mask (E,) or in the order of indices (n,)."""
        others = {"values": self.values, "times": self.times, "kinds": self.kinds}
        taken: dict[str, Any] = {name: None if column is None else column[rows] for name, column in others.items()}
        return replace(self, users=self.users[rows], items=self.items[rows], **taken)

    def renumber(self, users: NDArray[Any], items: NDArray[Any]) -> Self:
        """Return the same events under other indices: (U,) and (I,), -1 for users and items that are no more.

        Dislikes of those are dropped.
        """
        disliked = self.disliked
        if disliked is not None:
            disliked = np.stack((users[disliked[:, 0]], items[disliked[:, 1]]), 1)
            disliked = disliked[(disliked >= 0).all(1)]
            disliked = disliked[np.lexsort((disliked[:, 1], disliked[:, 0]))]
        return replace(self, users=users[self.users], items=items[self.items], disliked=disliked)

    def with_step(self, name: str) -> Self:
        """Return the same events with one more step in the record."""
        n_users, n_items = (int(np.count_nonzero(np.bincount(column))) for column in (self.users, self.items))
        return replace(self, steps=(*self.steps, Step(name, n_users, n_items, len(self))))

    def merge(self, duplicates: Duplicates | None = None) -> Self:
        """Return one event per pair, sorted by user, then item.

        Without values every event counts 1 and repeats are counted. With values the last one is kept (by time if there
        are times, else by position) or, with "sum", they are added up. The latest time is kept in any case, so times
        must be in one unit. If pairs were merged and `duplicates` was left to its default, a `DuplicatePairsWarning`
        is issued.
        """
        default: Duplicates = "sum" if self.values is None else "last"
        rule = default if duplicates is None else duplicates
        check_choice("duplicates", rule, get_args(Duplicates))
        if self.times is not None:
            refuse_two_units(float(self.times.min()), float(self.times.max()))
        keys = pair_keys(self.users, self.items, len(self.item_ids))  # (E,)
        order = np.argsort(keys, kind="stable") if self.times is None else np.lexsort((self.times, keys))
        keys = keys[order]
        last = np.append(keys[1:] != keys[:-1], True)  # (E,) the last event of each pair
        del keys
        repeats = len(self) - int(last.sum())
        if not repeats:
            return self._take(order)
        if duplicates is None:
            warnings.warn(
                f"{repeats:,} of {len(self):,} events repeat a (user, item) pair; merged: {_RULES[rule]}. Pass "
                f"duplicates='{rule}' (--duplicates {rule}) to say that this is meant",
                DuplicatePairsWarning,
                stacklevel=level_of_caller(),
            )
        merged = self._take(order[last])
        if rule == "sum":
            values = np.ones(len(self)) if self.values is None else self.values[order]
            merged = replace(merged, values=np.add.reduceat(values, np.flatnonzero(np.append(True, last[:-1]))))
        return merged.with_step(f"merge repeated pairs ({_RULES[rule]})")


_RULES = {"last": "last kept", "sum": "summed"}


def pair_keys(users: NDArray[Any], items: NDArray[Any], n_items: int) -> NDArray[np.int64]:
    """Return one number per (user, item) pair: `user * n_items + item`, ascending where pairs are sorted.

    The two arrays broadcast: users (B, 1) with items (B, K) give keys (B, K).
    """
    keys: NDArray[np.int64] = users.astype(np.int64) * max(int(n_items), 1) + items
    return keys


def level_of_caller() -> int:
    """Return how far up the stack the first frame outside spherec is, for a warning that points there."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


def _numbers(column: ArrayLike | None, role: str) -> NDArray[np.float64] | None:
    """Return a column of finite numbers (E,), if there is one; dates and their texts are seconds, as times may be."""
    if column is None:
        return None
    try:
        numbers = np.asarray(unmask(column))
        if role == "time" and numbers.dtype.kind == "M":
            missing, numbers = np.isnat(numbers), numbers.astype("M8[us]").astype(np.int64) / 1e6
            numbers[missing] = np.nan
        elif role == "time" and numbers.dtype.kind in "OU":
            numbers = np.array([to_seconds(moment) for moment in numbers])
        numbers = np.asarray(numbers, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        kind = "numbers or dates" if role == "time" else "numbers"
        raise DataError(f"the {role} column must hold {kind}: {error}") from None
    is_bad = ~np.isfinite(numbers)
    if numbers.ndim != 1 or is_bad.any():
        where = f"got shape {numbers.shape}" if numbers.ndim != 1 else f"row {is_bad.argmax()} has {numbers[is_bad][0]}"
        raise DataError(f"the {role} column must hold one finite number in each row, {where}; drop such rows first")
    return numbers


def check_lowest_weight(lowest: float | None) -> None:
    """Raise a `DataError` unless pairs can be weighed by values that begin here; their sums may hide one below 0."""
    if lowest is None:
        raise DataError("there are no values to weigh pairs by; name their column with value= (--value-column)")
    if lowest < 0:
        raise DataError(f"weights are counts or ratings, and not below 0, got {lowest:g}; leave such rows out")


def refuse_two_units(first: float, last: float) -> None:
    """Raise a `DataError` if the first time looks like seconds since 1970, and the last like milliseconds, say."""
    if first >= _IN_1973 and last > _MOST_GROWTH * first:
        raise DataError(
            f"times from {first:.0f} to {last:.0f} are in two units, as if some were seconds and others milliseconds "
            "(dates become seconds); bring them to one, or leave out rows with a placeholder such as 9999-12-31"
        )


def to_seconds(moment: float | str | date | np.datetime64) -> float:
    """Return a number unchanged, and a date or its ISO text as seconds since 1970, in UTC unless it names a zone."""
    if isinstance(moment, str):
        with suppress(ValueError):
            return float(moment)
        moment = datetime.fromisoformat(str(moment).removesuffix(" UTC"))
    if isinstance(moment, np.datetime64):
        return float(moment.astype("M8[us]").astype(np.int64)) / 1e6
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    if isinstance(moment, datetime):
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return float(moment)
