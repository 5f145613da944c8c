"""Cuts: rules about which events count. Pure functions; each records the sizes that it left."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spherec.data.events import Events
from spherec.errors import ArgumentError, DataError, quote


@dataclass(frozen=True)
class Cut:
    """A rule about which events become interactions, applied to merged events in the order of the fields."""

    min_value: float | None = None
    "Keep pairs with at least this rating or count."
    min_per_user: int = 0
    "Keep users with at least this many items."
    min_per_item: int = 0
    "Keep items with at least this many users."
    iterate: bool = False
    "Repeat the two minima until nothing falls out (a k-core); otherwise each is applied once, users first."

    def __post_init__(self) -> None:
        for name in ("min_per_user", "min_per_item"):
            least = getattr(self, name)
            if not isinstance(least, int | np.integer) or least < 0:
                raise ArgumentError(f"{name} must be a whole number >= 0, got {quote(least)}")
        least = self.min_value
        if least is not None and not (isinstance(least, int | float | np.number) and abs(least) < np.inf):
            raise ArgumentError(f"min_value must be a finite number, got {quote(least)}")

    @property
    def of_values(self) -> "Cut":
        """The part of this cut that looks at each pair alone: its least value."""
        return Cut(min_value=self.min_value)

    def __call__(self, events: Events) -> Events:
        """Return the events that pass; they must be merged."""
        events.refuse_unmerged()
        if self.min_per_item:
            events = replace(events, keeps_items=False)  # an item that nobody has is below any minimum
        if self.min_value is not None:
            events = min_value(events, self.min_value)
        if self.iterate and (self.min_per_user or self.min_per_item):
            return k_core(events, per_user=self.min_per_user, per_item=self.min_per_item)
        if self.min_per_user:
            events = min_per_user(events, self.min_per_user)
        if self.min_per_item:
            events = min_per_item(events, self.min_per_item)
        return events


def min_value(events: Events, least: float) -> Events:
    """Keep events with a rating or count of at least `least`. Events without values count 1 each."""
    values = np.ones(len(events)) if events.values is None else events.values
    return _filter(events, values >= least, f"value >= {least:g}")


def min_per_user(events: Events, least: int) -> Events:
    """Keep events of users who have at least `least` events."""
    return _filter(events, _is_frequent(events.users, least), f"users with >= {least} items")


def min_per_item(events: Events, least: int) -> Events:
    """Keep events of items that have at least `least` events."""
    return _filter(events, _is_frequent(events.items, least), f"items with >= {least} users")


def k_core(events: Events, *, per_user: int, per_item: int) -> Events:
    """Keep the largest part in which every user has `per_user` items and every item has `per_item` users."""
    inside = np.ones(len(events), dtype=np.bool_)  # (E,)
    while True:
        items_of_user = np.bincount(events.users[inside], minlength=len(events.user_ids))  # (U,)
        users_of_item = np.bincount(events.items[inside], minlength=len(events.item_ids))  # (I,)
        enough = (items_of_user[events.users] >= per_user) & (users_of_item[events.items] >= per_item)
        if np.array_equal(inside & enough, inside):
            break
        inside &= enough
    return _filter(events, inside, f"until stable: users with >= {per_user} items, items with >= {per_item} users")


def _is_frequent(indices: NDArray[np.int32], least: int) -> NDArray[np.bool_]:
    """Return which entries (E,) of `indices` belong to an index that occurs at least `least` times."""
    return np.bincount(indices)[indices] >= least


def _filter(events: Events, mask: NDArray[np.bool_], name: str) -> Events:
    if not mask.any():
        held = "" if events.values is None else f", values from {events.values.min():g} to {events.values.max():g}"
        raise DataError(f"nothing is left after '{name}' (before it: {len(events):,} pairs{held}); lower the minimum")
    return events.filter(mask, name)
