"""Cuts: rules about which events count. Pure functions; each records the sizes that it left."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spherec.data.events import Events
from spherec.errors import DataError, check_number, enumerate_ids

_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Cut:
    """A rule about which events become interactions, applied to merged events in the order of the fields."""

    min_value: float | None = None
    "Keep pairs with at least this rating or count."
    max_per_user: int | None = None
    "Leave out users with more items than this: bots."
    min_per_user: int = 0
    "Keep users with at least this many items."
    min_per_item: int = 0
    "Keep items with at least this many users."
    iterate: bool = False
    "Repeat the two minima until nothing falls out (a k-core); otherwise each is applied once, users first."

    def __post_init__(self) -> None:
        check_number("min_per_user", self.min_per_user, 0, _LARGEST)
        check_number("min_per_item", self.min_per_item, 0, _LARGEST)
        check_number("max_per_user", 1 if self.max_per_user is None else self.max_per_user, 1, _LARGEST)
        check_number("min_value", 0 if self.min_value is None else self.min_value, -_LARGEST, _LARGEST)

    def __call__(self, events: Events) -> Events:
        """Return the events that pass; they must be merged. Events without values count 1 each."""
        if self.min_value is not None:
            values = np.ones(len(events)) if events.values is None else events.values
            events = _filter(events, values >= self.min_value, f"value >= {self.min_value:g}")
        if self.max_per_user is not None:
            counts = np.bincount(events.users, minlength=len(events.user_ids))  # (U,)
            name = name_bots(self.max_per_user, events.user_ids[counts > self.max_per_user].tolist())
            events = _filter(events, counts[events.users] <= self.max_per_user, name) if name else events
        users, items = f"users with >= {self.min_per_user} items", f"items with >= {self.min_per_item} users"
        if self.iterate and (self.min_per_user or self.min_per_item):
            return _filter(events, self._find_core(events), f"until stable: {users}, {items}")
        if self.min_per_user:
            events = _filter(events, np.bincount(events.users)[events.users] >= self.min_per_user, users)
        if self.min_per_item:
            events = _filter(events, np.bincount(events.items)[events.items] >= self.min_per_item, items)
        return events

    def _find_core(self, events: Events) -> NDArray[np.bool_]:
        """Return the largest part (E,) in which every user has enough items and every item has enough users."""
        inside = np.ones(len(events), dtype=np.bool_)  # (E,)
        while True:
            items_of_user = np.bincount(events.users[inside], minlength=len(events.user_ids))  # (U,)
            users_of_item = np.bincount(events.items[inside], minlength=len(events.item_ids))  # (I,)
            stays = inside & (items_of_user[events.users] >= self.min_per_user)
            stays &= users_of_item[events.items] >= self.min_per_item
            if np.array_equal(stays, inside):
                return inside
            inside = stays


def name_bots(most: int, users: Sequence[Hashable]) -> str:
    """Return the name of the step that leaves out these users, who have more items than this; empty without any."""
    return f"users with <= {most:,} items, without {enumerate_ids(users)}" if users else ""


def _filter(events: Events, mask: NDArray[np.bool_], name: str) -> Events:
    if not mask.any():
        held = "" if events.values is None else f", values from {events.values.min():g} to {events.values.max():g}"
        raise DataError(f"nothing is left after '{name}' (before it: {len(events):,} pairs{held}); lower the minimum")
    return events.filter(mask, name)
