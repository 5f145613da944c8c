"""Raw (user, item) events as columns, and the rule that merges repeated pairs."""

import inspect
import warnings
from collections.abc import Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spherec.data.ids import factorize, invert, refuse_masked, spell_like
from spherec.errors import ArgumentError, DataError, DuplicatePairsWarning, quote

Duplicates = Literal["last", "sum", "error"]
"""Rule for repeated pairs: keep the last value, sum the values, or refuse them."""

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

    Ids that no event uses any more may remain; `Interactions` drops them, except items where `keeps_items` is true.
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
    unread_value: str | None = None
    "Column whose name suggests ratings or counts, but which the caller did not name."
    keeps_items: bool = False
    "True if item_ids is the whole catalogue, and items without events stay."

    @classmethod
    def from_columns(
        cls,
        users: Iterable[Hashable],
        items: Iterable[Hashable],
        *,
        values: ArrayLike | None = None,
        times: ArrayLike | None = None,
    ) -> Self:
        """Build events from columns of equal length, with external ids."""
        user_index, user_ids = factorize(users, "user")
        item_index, item_ids = factorize(items, "item")
        events = cls(
            user_index,
            item_index,
            user_ids,
            item_ids,
            None if values is None else _numbers(values, "value"),
            None if times is None else _times(times),
        )
        lengths = {
            len(column) for column in (user_index, item_index, events.values, events.times) if column is not None
        }
        if len(lengths) > 1:
            raise DataError(f"columns must be equally long, got lengths {sorted(lengths)}")
        if not len(events):
            raise DataError("there are no events: the columns are empty")
        return events.with_step("read")

    def __len__(self) -> int:
        return len(self.users)

    def filter(self, mask: NDArray[np.bool_], name: str = "") -> Self:
        """Return the events where `mask` (E,) is true; `name` describes the step in the record, if it is one."""
        if not isinstance(mask, np.ndarray) or mask.shape != (len(self),) or mask.dtype != np.bool_:
            kind = f"{mask.dtype} of shape {mask.shape}" if isinstance(mask, np.ndarray) else type(mask).__name__
            raise ArgumentError(f"mask must be an array of {len(self):,} booleans, got {kind}")
        events = replace(
            self,
            users=self.users[mask],
            items=self.items[mask],
            values=None if self.values is None else self.values[mask],
            times=None if self.times is None else self.times[mask],
        )
        return events.with_step(name) if name else events

    def with_items(self, ids: Iterable[Hashable]) -> Self:
        """Return the same events over a catalogue with more items, which may have no events.

        Where the ids of these events are whole numbers, "7" is the item 7, and where they are texts, 7 is the item "7".
        """
        index, item_ids = factorize([*self.item_ids.tolist(), *spell_like(ids, self.item_ids)], "item")
        place = index[: len(self.item_ids)]  # (I,) of each item so far
        catalogue = replace(self, items=place[self.items], item_ids=item_ids, keeps_items=True)
        added = len(item_ids) - len(self.item_ids)
        step = Step(f"{added:,} items that nobody has", self.steps[-1].users, len(item_ids), len(self))
        return replace(catalogue, steps=(*self.steps, step))

    def with_step(self, name: str) -> Self:
        """Return the same events with one more step in the record."""
        n_items = len(self.item_ids) if self.keeps_items else _n_distinct(self.items)
        step = Step(name, _n_distinct(self.users), n_items, len(self))
        return replace(self, steps=(*self.steps, step))

    def merge(self, duplicates: Duplicates | None = None) -> Self:
        """Return one event per pair, sorted by user, then item.

        Without values every event counts 1 and repeats are counted. With values the last one is kept (by time if there
        are times, else by position) or, with "sum", they are added up. The latest time is kept in any case, so times
        must be in one unit. If pairs were merged and `duplicates` was left to its default, a `DuplicatePairsWarning`
        is issued.
        """
        rule = self.default_duplicates if duplicates is None else duplicates
        if rule not in list(_RULES):  # it may be anything
            raise ArgumentError(f"duplicates must be one of {', '.join(map(quote, _RULES))}, got {quote(rule)}")
        if self.times is not None:
            refuse_two_units(float(self.times.min()), float(self.times.max()))
        keys = pair_keys(self.users, self.items, len(self.item_ids))  # (E,)
        order = np.argsort(keys, kind="stable") if self.times is None else np.lexsort((self.times, keys))
        keys = keys[order]
        last = np.append(keys[1:] != keys[:-1], True)  # (E,) the last event of each pair
        del keys
        repeats = len(self) - int(last.sum())
        if repeats and rule == "error":
            refuse_repeats(repeats, len(self))
        if repeats and duplicates is None:
            warnings.warn(
                f"{_describe_repeats(repeats, len(self))}; merged: {_RULES[rule]}. Pass duplicates='{rule}' "
                f"(--duplicates {rule}) to say that this is meant",
                DuplicatePairsWarning,
                stacklevel=level_of_caller(),
            )
        values = _sum_pairs(self.values, order, last) if repeats and rule == "sum" else None  # (pairs,)
        kept = order[last]  # (pairs,)
        del order, last  # of tens of millions of events
        if values is None and self.values is not None:
            values = self.values[kept]
        merged = replace(
            self,
            users=self.users[kept],
            items=self.items[kept],
            values=values,
            times=None if self.times is None else self.times[kept],
        )
        return merged.with_step(f"merge repeated pairs ({_RULES[rule]})") if repeats else merged

    def refuse_negative_sums(self) -> None:
        """Raise a `DataError` if the sum of a repeated pair's values would hide a negative one among them."""
        if self.values is None or not (self.values < 0).any():
            return
        below = np.flatnonzero(self.values < 0)
        keys = pair_keys(self.users, self.items, len(self.item_ids))  # (E,)
        pairs, counts = np.unique(keys, return_counts=True)
        hidden = below[counts[np.searchsorted(pairs, keys[below])] > 1]
        if len(hidden):
            user, item = self.user_ids[self.users[hidden[0]]], self.item_ids[self.items[hidden[0]]]
            raise DataError(
                f"user {quote(user)} has item {quote(item)} several times, once with {self.values[hidden[0]]:g}, and "
                "weights must be above 0; correct it, or leave such rows out"
            )

    @property
    def default_duplicates(self) -> Duplicates:
        """Default rule for repeated pairs: keep the last value, or count events that have none."""
        return "sum" if self.values is None else "last"

    def refuse_unmerged(self) -> None:
        """Raise a `DataError` unless `merge` was called."""
        if not _is_ascending(self.users, self.items):
            raise DataError("the events are not one per pair, sorted; call events.merge() first")


_RULES: dict[Duplicates, str] = {"last": "last kept", "sum": "summed", "error": "refused"}


def refuse_repeats(repeats: int, n: int) -> NoReturn:
    """Raise a `DataError`: of n events, some repeat a pair."""
    raise DataError(f"{_describe_repeats(repeats, n)}; merge them with duplicates='last' or duplicates='sum'")


def _describe_repeats(repeats: int, n: int) -> str:
    return f"{repeats:,} of {n:,} events repeat a (user, item) pair"


def pair_keys(users: NDArray[Any], items: NDArray[Any], n_items: int) -> NDArray[np.int64]:
    """Return one number per (user, item) pair: `user * n_items + item`, ascending where pairs are sorted.

    The two arrays broadcast: users (B, 1) with items (B, K) give keys (B, K).
    """
    keys: NDArray[np.int64] = users.astype(np.int64) * max(int(n_items), 1) + items
    return keys


def order_numbers(indices: NDArray[np.int32], ids: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Return ids and indices into them with the ids in the order of numbers, 2 before 10, if all are texts of these."""
    texts = ids.tolist()
    if not all(isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) < 19 for text in texts):
        return indices, ids
    order = np.lexsort((ids.astype(str), np.array([int(text) for text in texts], dtype=np.int64)))
    return invert(order).astype(np.int32)[indices], ids[order]


def _is_ascending(users: NDArray[np.int32], items: NDArray[np.int32]) -> bool:
    """Return whether pairs (E,) are sorted by user, then item, and distinct."""
    later = (users[1:] > users[:-1]) | ((users[1:] == users[:-1]) & (items[1:] > items[:-1]))  # (E - 1,)
    return bool(later.all())


def _sum_pairs(
    values: NDArray[np.float64] | None, order: NDArray[np.int64], last: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the sum of each pair's values (pairs,); `order` sorts the events by pair, `last` marks each pair's end."""
    ends = np.flatnonzero(last) + 1  # (pairs,)
    starts = np.concatenate(([0], ends[:-1]))  # (pairs,)
    if values is None:
        return (ends - starts).astype(np.float64)
    return np.add.reduceat(values[order], starts)


def level_of_caller() -> int:
    """Return how far up the stack the first frame outside spherec is, for a warning that points there."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


def _n_distinct(indices: NDArray[np.int32]) -> int:
    return int(np.count_nonzero(np.bincount(indices))) if len(indices) else 0


def _numbers(column: ArrayLike, role: str) -> NDArray[np.float64]:
    refuse_masked(column, f"{role}s")
    try:
        numbers = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"the {role} column must hold numbers: {error}") from None
    if numbers.ndim != 1:
        raise DataError(f"the {role} column must be one-dimensional, got shape {numbers.shape}")
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(bad.argmax())
        raise DataError(f"row {row}: the {role} is {numbers[row]}, not a finite number; drop such rows first")
    return numbers


def _times(column: ArrayLike) -> NDArray[np.float64]:
    refuse_masked(column, "times")
    try:
        times = np.asarray(column)
    except (TypeError, ValueError) as error:  # rows of different lengths
        raise DataError(f"the time column must hold numbers or dates: {error}") from None
    if times.dtype.kind == "M":
        if np.isnat(times).any():
            raise DataError(f"row {int(np.isnat(times).argmax())} has no time; drop such rows first")
        times = times.astype("M8[us]").astype(np.int64) / 1e6
    elif times.dtype.kind in "OU":
        try:
            times = np.array([to_seconds(moment) for moment in times])
        except (TypeError, ValueError) as error:
            raise DataError(f"the time column must hold numbers or dates: {error}") from None
    return _numbers(times, "time")


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
