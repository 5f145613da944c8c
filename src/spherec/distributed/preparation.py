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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spherec.data.cuts import Cut, name_bots
from spherec.data.events import Duplicates, Events, Step, refuse_two_units
from spherec.data.ids import IdMap
from spherec.data.interactions import check_weights, row_starts
from spherec.data.output_files import atomic_folder
from spherec.data.read.formats import Paths, Reading, list_inputs, refuse_without_polars
from spherec.distributed.partitions import (
    PartitionedInteractions,
    PartitionRows,
    check_parts,
    users_of_partition,
    write_partitions,
)
from spherec.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from spherec.data.read.collector import Catalogue, Piece  # brings polars


def prepare_partitions(
    path: Paths,
    reading: Reading,
    output: str | PathLike[str],
    partitions: int,
    *,
    names: Mapping[str, str] | None = None,
) -> PartitionedInteractions:
    """Read, merge and cut files as `read_interactions` does, and write the folder of a partitioned data set.

    Args:
        path: The files; see `list_files`. They may be larger than memory, except matrices of scipy.
        reading: How to read, merge and cut them.
        output: The folder to write; it must not exist yet.
        partitions: P, number of files with pairs.
        names: Names of items, by the text of their ids.
    """
    refuse_without_polars()
    from spherec.data.read.collector import Collector

    check_parts("partitions", partitions)
    if reading.weigher is not None:
        raise ArgumentError("partitions have no kinds and ages of events; prepare one file, or leave their weights out")
    files = list_inputs(path, reading.query)
    with atomic_folder(output) as folder, tempfile.TemporaryDirectory(dir=folder) as scratch:
        work = _Preparation(Path(scratch), partitions)
        found = Collector(files, reading, work.add)
        users, items = found.read()
        names = names if reading.name is None else {str(item): name for item, name in found.names(items).items()}
        work.begin(found.step, users, items, keeps_times=not found.lacks_times)
        values = None if work.lowest > work.highest else (work.lowest, work.highest)
        with found.merging(values) as rule:
            work.merge(rule or ("sum" if values is None else "last"))
            work.cut(reading.cut)
        found.warn_of_values(values)
        work.write(folder, users, items, names, weigh=bool(reading.weigh))
    return PartitionedInteractions.open(output)


class _Preparation:
    """Events in the making, on disk, and the steps that they have gone through. Users and items go by numbers."""

    def __init__(self, folder: Path, n: int) -> None:
        self._folder = folder
        self._raw, self._n = _Buckets(folder / "raw", n), n
        self._steps: list[Step] = []
        self._n_users = self._n_items = 0
        self._users_of_item: NDArray[np.int64] = np.zeros(0, np.int64)  # (I,) after the last step
        self.lowest, self.highest = np.inf, -np.inf
        self._first, self._last = np.inf, -np.inf  # times

    def add(self, piece: "Piece") -> None:
        """Add some events."""
        self._raw.append(piece._asdict())
        if piece.values is not None:
            self.lowest = min(self.lowest, float(piece.values.min()))
            self.highest = max(self.highest, float(piece.values.max()))
        if piece.times is not None:
            self._first = min(self._first, float(piece.times.min()))
            self._last = max(self._last, float(piece.times.max()))

    def begin(self, step: str, users: "Catalogue", items: "Catalogue", *, keeps_times: bool) -> None:
        """Name the first step, and drop times unless they are kept."""
        self._users, self._n_users, self._n_items = users, len(users.ids), len(items.ids)
        self._change(step, None if keeps_times else lambda events: replace(events, times=None))

    def merge(self, rule: Duplicates) -> None:
        """Merge repeated pairs."""
        refuse_two_units(self._first, self._last)
        names: set[str] = set()

        def merge(events: Events) -> Events:
            merged = events.merge(rule) if len(events) else events
            names.update(step.name for step in merged.steps)
            return merged

        self._change("", merge)
        if not names:  # there were no repeats
            self._steps.pop()
            return
        self._steps[-1] = replace(self._steps[-1], name=names.pop())

    def cut(self, cut: Cut) -> None:
        """Leave out what does not pass."""
        per_user, per_item, least = cut.min_per_user, cut.min_per_item, cut.min_value
        if least is not None:
            self._filter(f"value >= {least:g}", lambda events: _values_of(events) >= least)
        if (most := cut.max_per_user) is not None:
            counts = np.zeros(self._n_users, np.int64)  # (U,)
            for _, events in self._raw.read_all(self._n_items):
                counts += np.bincount(events.users, minlength=self._n_users)
            bots = self._users.ids[np.sort(self._users.place[counts > most])].tolist()
            if bots:
                self._filter(name_bots(most, bots), lambda events: counts[events.users] <= most)
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

    def write(
        self, folder: Path, users: "Catalogue", items: "Catalogue", names: Mapping[str, str] | None, *, weigh: bool
    ) -> None:
        """Write the partitioned data set."""
        used = np.zeros(self._n_users, np.bool_)
        for _, events in self._raw.read_all(self._n_items):
            used[events.users] = True
        new_users, user_ids = _renumber(users, used)
        new_items, item_ids = _renumber(items, self._users_of_item > 0)
        final = _Buckets(self._folder / "final", self._n, offset=len(item_ids))
        for _, events in self._raw.read_all(self._n_items):
            numbered = replace(events, users=new_users[events.users], items=new_items[events.items])
            final.append(_columns_of(numbered if weigh else replace(numbered, values=None)))

        def rows() -> Iterator[PartitionRows]:
            for number, events in final.read_all(len(item_ids)):
                own = users_of_partition(number, self._n, len(item_ids))
                order = np.lexsort((events.items, events.users))
                local = ((events.users[order] - own.start) // self._n).astype(np.int32)
                indptr = row_starts(local, len(range(len(user_ids))[own]))
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
            raise DataError(f"nothing is left after {name!r} (before it: {before:,} pairs); lower the minimum")

    def _is_frequent(self, events: Events, per_user: int, per_item: int) -> NDArray[np.bool_]:
        """Return which events (e,) are of users with so many items, and of items with so many users."""
        items_of_user = np.bincount(events.users, minlength=self._n_users)  # (U,) a user is in one bucket
        has_enough: NDArray[np.bool_] = items_of_user[events.users] >= per_user
        return has_enough & (self._users_of_item[events.items] >= per_item)

    def _change(self, name: str, change: Callable[[Events], Events] | None) -> None:
        """Change the events of one bucket after the other, and record the sizes."""
        users = pairs = 0
        users_of_item = np.zeros(self._n_items, np.int64)
        for number, events in self._raw.read_all(self._n_items):
            changed = events if change is None else change(events)
            if change is not None:
                self._raw.replace(number, _columns_of(changed))
            users, pairs = users + len(np.unique(changed.users)), pairs + len(changed)
            users_of_item += np.bincount(changed.items, minlength=self._n_items)
        self._users_of_item = users_of_item
        self._steps.append(Step(name, users, int(np.count_nonzero(users_of_item)), pairs))


_Columns = dict[str, NDArray[Any] | None]  # users (e,), items, values and times, the last two perhaps None


class _Buckets:
    """Events in files: those of user u in file (offset + u) mod n."""

    def __init__(self, folder: Path, n: int, *, offset: int = 0) -> None:
        folder.mkdir()
        self._files = [folder / str(number) for number in range(n)]
        self._types: list[np.dtype[Any]] = []  # of the records of each file; none before the first events
        self._offset = offset

    def append(self, columns: _Columns) -> None:
        records = _to_records(columns)
        self._types = self._types or [records.dtype] * len(self._files)
        bucket = (records["users"] + self._offset) % len(self._files)  # (E,)
        records = records[np.argsort(bucket, kind="stable")]
        ends = np.cumsum(np.bincount(bucket, minlength=len(self._files)))  # (n,)
        for file, (begin, end) in zip(self._files, pairwise((0, *ends.tolist())), strict=True):
            _write(file, records[begin:end], "ab")

    def replace(self, number: int, columns: _Columns) -> None:
        records = _to_records(columns)
        self._types[number] = records.dtype
        _write(self._files[number], records, "wb")

    def read_all(self, n_items: int) -> Iterator[tuple[int, Events]]:
        """Yield each file's number and its events, over so many items."""
        positions = np.arange(n_items)
        for number, kind in enumerate(self._types):
            records = np.fromfile(self._files[number], dtype=kind)
            column = {name: np.ascontiguousarray(records[name]) for name in kind.names or ()}
            values, times = column.get("values"), column.get("times")
            yield number, Events(column["users"], column["items"], positions[:0], positions, values, times)


def _to_records(columns: _Columns) -> NDArray[Any]:
    present = {name: column for name, column in columns.items() if column is not None}
    kinds = [(name, "<f8" if name in ("values", "times") else "<i4") for name in present]
    records = np.empty(len(present["users"]), dtype=kinds)
    for name, column in present.items():
        records[name] = column
    return records


def _write(path: Path, records: NDArray[Any], mode: str) -> None:
    with open(path, mode) as file:
        file.write(records.view(np.uint8).data)  # unlike tofile, it names what is wrong with the disk


def _columns_of(events: Events) -> _Columns:
    return {"users": events.users, "items": events.items, "values": events.values, "times": events.times}


def _values_of(events: Events) -> NDArray[np.float64]:
    return np.ones(len(events)) if events.values is None else events.values


def _renumber(all_ids: "Catalogue", used: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Return the index (n,) of each number among the ids that are used, and these in their order."""
    kept = np.zeros(len(all_ids.ids), np.bool_)
    kept[all_ids.place] = used
    return (np.cumsum(kept, dtype=np.int32) - 1)[all_ids.place], all_ids.ids[kept]
