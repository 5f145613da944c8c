"""Preparation of a partitioned data set from raw files, which may be larger than memory.

Files are read a piece at a time, and their events are written to P files on disk, those of a user to one of them. Each
step from events to interactions then goes through these files, one at a time. So there are in memory the events of a
piece, or of a P-th of the users, and the ids. The result is that of reading everything at once.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherec.data.cuts import Cut
from spherec.data.events import Duplicates, Events, Step, refuse_repeats, refuse_two_units
from spherec.data.ids import GrowingIds, IdMap, factorize
from spherec.data.interactions import check_weights, row_starts
from spherec.data.output_files import atomic_folder
from spherec.data.read.formats import (
    FORMATS,
    describe_no_weights,
    describe_reading,
    read_files,
    recognise_all,
    refuse_without_polars,
    remark_kinds,
)
from spherec.data.read.options import Paths, Reading, describe_files, list_files
from spherec.distributed.partitions import (
    PartitionedInteractions,
    PartitionRows,
    check_partitions,
    users_of_partition,
    write_partitions,
)
from spherec.errors import DataError, quote


def prepare_partitions(
    path: Paths,
    reading: Reading,
    output: str | PathLike[str],
    partitions: int,
    *,
    duplicates: Duplicates | None = None,
    cut: Cut | None = None,
    names: Mapping[str, str] | None = None,
    weigh: bool = False,
    on_unread: Callable[[str], None] = lambda _: None,
    on_uncut: Callable[[float, float], None] = lambda *_: None,
) -> PartitionedInteractions:
    """Read, merge and cut files as `read_interactions` does, and write the folder of a partitioned data set.

    Args:
        path: The files; see `list_files`. They may be larger than memory, except matrices of scipy.
        reading: How to read them.
        output: The folder to write; it must not exist yet.
        partitions: P, number of files with pairs.
        duplicates: How repeated pairs are merged; by default as the format or the values suggest.
        cut: Which events count; by default all.
        names: Names of items, by the text of their ids.
        weigh: Keep ratings or counts, to weigh pairs by them in training.
        on_unread: Called with a column of ratings or counts that was not asked for.
        on_uncut: Called with the lowest and the highest rating or count, if low ones count, too.
    """
    refuse_without_polars()
    check_partitions(partitions)
    cut, files = cut or Cut(), list_files(path)
    readings = recognise_all(files, reading)
    with atomic_folder(output) as folder, tempfile.TemporaryDirectory(dir=folder) as scratch:
        work = _Preparation(Path(scratch), partitions, len(files))
        unread: set[str] = set()
        with tempfile.TemporaryDirectory(dir=scratch) as rows:
            for number, events in read_files(files, [replace(one, scratch=Path(rows)) for one in readings]):
                work.add(number, events)
                unread |= set() if events.unread_value is None else {events.unread_value}
        remark_kinds(files, readings[0])
        has_values = work.lowest <= work.highest
        if weigh and not has_values:
            raise DataError(describe_no_weights(files))
        if reading.columns.value is None and cut.min_value is None and not weigh and work.lowest < work.highest:
            on_uncut(work.lowest, work.highest)
        if unread and cut.min_value is None:
            on_unread(min(unread))
        work.count(describe_reading(files, readings[0], work.sizes, work.left_out))
        try:
            rule = duplicates or FORMATS[readings[0].format].duplicates or ("sum" if weigh else None)
            if weigh and rule == "sum":
                work.refuse_negative_sums()
            work.merge(rule)
            work.cut(cut)
        except DataError as error:
            counted = cut.min_value is not None and not has_values
            hint = " (no value column was named, so events were counted)" if counted else ""
            raise DataError(f"{describe_files(files)}: {error}{hint}") from None
        work.write(folder, names, weigh=weigh, orders_numbers=FORMATS[readings[0].format].orders_numbers)
    return PartitionedInteractions.open(output)


class _Preparation:
    """Events in the making, on disk, and the steps that they have gone through."""

    def __init__(self, folder: Path, n: int, n_files: int) -> None:
        self._folder = folder
        self._raw, self._n = _Buckets(folder / "raw", n), n
        self._users, self._items = GrowingIds("user"), GrowingIds("item")
        self._steps: list[Step] = []
        self._users_of_item: NDArray[np.int64] = np.zeros(0, np.int64)  # (I,) after the last step
        self._keeps_items = False  # those that nobody has
        self._file = -1  # number of the file that is being added
        self._of_file: tuple[NDArray[np.int32], NDArray[np.int32]]  # numbers of the users and items of a file
        self.sizes = [0] * n_files
        "Number of events of each file."
        self.left_out: dict[str, int] = {}
        "Rows or lines that gave no events."
        self.lowest, self.highest = np.inf, -np.inf
        self._first, self._last = np.inf, -np.inf  # times

    def add(self, file: int, events: Events) -> None:
        """Add a piece of a file, counted from 0; the pieces of a file share their ids."""
        if file != self._file:
            self._file = file
            for description, number in events.left_out:
                self.left_out[description] = self.left_out.get(description, 0) + number
            self._of_file = self._users.encode(events.user_ids), self._items.encode(events.item_ids)
            self._keeps_items |= events.keeps_items
        users, items = self._of_file
        self._raw.append(replace(events, users=users[events.users], items=items[events.items]))
        self.sizes[file] += len(events)
        if events.values is not None:
            self.lowest = min(self.lowest, float(events.values.min(initial=np.inf)))
            self.highest = max(self.highest, float(events.values.max(initial=-np.inf)))
        if events.times is not None:
            self._first = min(self._first, float(events.times.min(initial=np.inf)))
            self._last = max(self._last, float(events.times.max(initial=-np.inf)))

    def count(self, name: str) -> None:
        """Record the sizes as they are."""
        self._change(name, None)

    def refuse_negative_sums(self) -> None:
        """Raise a `DataError` as `Events.refuse_negative_sums` does."""
        if self.lowest < 0:
            users, items = self._users.array(), self._items.array()
            for _, events in self._raw.read_all(len(self._items)):
                replace(events, user_ids=users, item_ids=items).refuse_negative_sums()

    def merge(self, rule: Duplicates | None) -> None:
        """Merge repeated pairs."""
        refuse_two_units(self._first, self._last)
        names: set[str] = set()
        before = self._steps[-1].pairs
        kept: Duplicates | None = "last" if rule == "error" else rule  # all are counted before they are refused

        def merge(events: Events) -> Events:
            merged = events.merge(kept or events.default_duplicates) if len(events) else events
            names.update(step.name for step in merged.steps)
            return merged

        self._change("", merge)
        if rule == "error" and names:
            refuse_repeats(before - self._steps[-1].pairs, before)
        if names:  # there were some
            self._steps[-1] = replace(self._steps[-1], name=names.pop())
        else:
            self._steps.pop()

    def cut(self, cut: Cut) -> None:
        """Leave out what does not pass."""
        per_user, per_item, least = cut.min_per_user, cut.min_per_item, cut.min_value
        self._keeps_items &= not per_item  # an item that nobody has is below any minimum
        if least is not None:
            self._filter(f"value >= {least:g}", lambda events: _values_of(events) >= least)
        if cut.iterate and (per_user or per_item):
            name = f"until stable: users with >= {per_user} items, items with >= {per_item} users"
            before = len(self._steps)
            while len(self._steps) == before or self._steps[-1].pairs < self._steps[-2].pairs:
                self._filter(name, lambda events: self._is_frequent(events, per_user, per_item))
            del self._steps[before:-1]
            return
        if per_user:
            self._filter(f"users with >= {per_user} items", lambda events: self._is_frequent(events, per_user, 0))
        if per_item:
            self._filter(f"items with >= {per_item} users", lambda events: self._is_frequent(events, 0, per_item))

    def write(self, folder: Path, names: Mapping[str, str] | None, *, weigh: bool, orders_numbers: bool) -> None:
        """Write the partitioned data set."""
        used = np.zeros(len(self._users), np.bool_)
        for _, events in self._raw.read_all(len(self._items)):
            used[events.users] = True
        new_users, user_ids = _number(self._users.array(), used, "user", orders_numbers=orders_numbers)
        used_items = (self._users_of_item > 0) | self._keeps_items
        new_items, item_ids = _number(self._items.array(), used_items, "item", orders_numbers=orders_numbers)
        final = _Buckets(self._folder / "final", self._n, offset=len(item_ids))
        for _, events in self._raw.read_all(len(self._items)):
            numbered = replace(events, users=new_users[events.users], items=new_items[events.items])
            final.append(numbered if weigh else replace(numbered, values=None))

        def rows() -> Iterator[PartitionRows]:
            for number, events in final.read_all(len(item_ids)):
                users = users_of_partition(number, self._n, len(item_ids))
                order = np.lexsort((events.items, events.users))
                local = ((events.users[order] - users.start) // self._n).astype(np.int32)
                indptr = row_starts(local, len(range(len(user_ids))[users]))
                times, weights = (None if one is None else one[order] for one in (events.times, events.values))
                if weights is not None:
                    check_weights(weights)
                yield PartitionRows(indptr, events.items[order], times, weights)

        named = None if names is None else tuple(names.get(str(one)) for one in item_ids.tolist())
        write_partitions(folder, rows(), IdMap(user_ids), IdMap(item_ids), named, self._steps)

    def _filter(self, name: str, find: Callable[[Events], NDArray[np.bool_]]) -> None:
        before = self._steps[-1].pairs
        self._change(name, lambda events: events.filter(find(events)))
        if not self._steps[-1].pairs:
            raise DataError(f"nothing is left after {quote(name)} (before it: {before:,} pairs); lower the minimum")

    def _is_frequent(self, events: Events, per_user: int, per_item: int) -> NDArray[np.bool_]:
        """Return which events (e,) are of users with so many items, and of items with so many users."""
        items_of_user = np.bincount(events.users, minlength=len(self._users))  # (U,) a user is in one bucket
        frequent: NDArray[np.bool_] = (items_of_user[events.users] >= per_user) & (
            self._users_of_item[events.items] >= per_item
        )
        return frequent

    def _change(self, name: str, change: Callable[[Events], Events] | None) -> None:
        """Change the events of one bucket after the other, and record the sizes."""
        users = pairs = 0
        users_of_item = np.zeros(len(self._items), np.int64)
        for number, events in self._raw.read_all(len(self._items)):
            changed = events if change is None else change(events)
            if change is not None:
                self._raw.replace(number, changed)
            users, pairs = users + len(np.unique(changed.users)), pairs + len(changed)
            users_of_item += np.bincount(changed.items, minlength=len(users_of_item))
        self._users_of_item = users_of_item
        items = len(self._items) if self._keeps_items else int(np.count_nonzero(users_of_item))
        self._steps.append(Step(name, users, items, pairs))


class _Buckets:
    """Events in files: those of user u in file (offset + u) mod n."""

    def __init__(self, folder: Path, n: int, *, offset: int = 0) -> None:
        folder.mkdir()
        self._files = [folder / str(number) for number in range(n)]
        self._columns: list[dict[str, str]] = []  # of each file; none before the first events
        self._offset = offset

    def append(self, events: Events) -> None:
        columns = _columns_of(events)
        self._columns = self._columns or [columns] * len(self._files)
        if self._columns[0] != columns:
            raise DataError("only some of the files have values or times; give files with the same columns")
        bucket = (events.users + self._offset) % len(self._files)  # (E,)
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=len(self._files)))  # (n,)
        for number, (begin, end) in enumerate(pairwise((0, *ends.tolist()))):
            self._write(number, events, order[begin:end], "ab")

    def replace(self, number: int, events: Events) -> None:
        self._columns[number] = _columns_of(events)
        self._write(number, events, slice(None), "wb")

    def read_all(self, n_items: int) -> Iterator[tuple[int, Events]]:
        """Yield each file's number and its events, over so many items."""
        positions = np.arange(n_items)
        for number, columns in enumerate(self._columns):
            records = np.fromfile(self._files[number], dtype=list(columns.items()))
            column = {name: np.ascontiguousarray(records[name]) for name in columns}
            values, times = column.get("values"), column.get("times")
            yield number, Events(column["users"], column["items"], positions[:0], positions, values, times)

    def _write(self, number: int, events: Events, rows: NDArray[np.int64] | slice, mode: str) -> None:
        columns = _columns_of(events)
        records = np.empty(len(events.users[rows]), dtype=list(columns.items()))
        for name in columns:
            records[name] = getattr(events, name)[rows]
        with open(self._files[number], mode) as file:
            file.write(records.view(np.uint8).data)  # unlike tofile, it names what is wrong with the disk


_PAIR = {"users": "<i4", "items": "<i4"}


def _columns_of(events: Events) -> dict[str, str]:
    more = {name: "<f8" for name in ("values", "times") if getattr(events, name) is not None}
    return _PAIR | more


def _values_of(events: Events) -> NDArray[np.float64]:
    return np.ones(len(events)) if events.values is None else events.values


def _number(
    ids: NDArray[Any], used: NDArray[np.bool_], role: str, *, orders_numbers: bool
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Return the index (n,) of each id among those that are used, and these, sorted as in `Interactions`."""
    place, in_order = factorize(ids, role)
    if orders_numbers:
        ordered = Events(place, place, in_order, in_order).order_numbers()
        place, in_order = ordered.users, ordered.user_ids
    kept = np.zeros(len(ids), np.bool_)
    kept[place] = used
    return (np.cumsum(kept, dtype=np.int32) - 1)[place], in_order[kept]
