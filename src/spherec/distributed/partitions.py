"""A prepared data set as a folder, divided by users, so that no process has to hold all of its pairs.

Users are dealt out like cards: of P partitions, partition p has the users u with (I + u) mod P = p. Process r of n that
train together holds the users u with (I + u) mod n = r. So where n divides P, it reads the partitions p with
p mod n = r, whole, and no others.

The folder has `partitions.safetensors` (sizes, and the popularity of items), `ids.safetensors` (ids and names), and for
each partition `pairs-N.safetensors` with the items of its users. All are containers (`spherec.data.container`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spherec.data.container import (
    PARTITIONS,
    Arrays,
    checksum,
    decoding,
    read_container,
    read_manifest,
    write_container,
)
from spherec.data.events import Step
from spherec.data.ids import IdMap, decode_ids, decode_names, encode_ids, encode_names
from spherec.data.interactions import Interactions
from spherec.data.output_files import atomic_folder
from spherec.errors import ArgumentError, DataError, quote

_INDEX, _IDS, _PAIRS = "spherec-partitions", "spherec-partition-ids", "spherec-partition-pairs"  # kinds of the files
_ID_FILE = "ids.safetensors"
_REMEDY = "prepare it again"
MOST_PARTS = 4096  # partitions of a data set or shards of a model: each is a file


@dataclass(frozen=True, eq=False)
class Totals:
    """Facts about the pairs of all processes, where none of them holds all pairs."""

    users_per_item: NDArray[np.int64]
    "(I,) number of users of each item."
    active_users: int
    "Number of users with any item."
    partition_sizes: NDArray[np.int64]
    "(P,) number of pairs in each partition."
    checksum: str
    "Checksum of the pairs of the whole data set, and of their weights."


class PartitionRows(NamedTuple):
    """The items of the users of one partition."""

    indptr: NDArray[np.int64]
    "(U_p + 1,) where the row of each of its users begins."
    indices: NDArray[np.int32]
    "(E_p,) their items, ascending in each row."
    times: NDArray[np.float64] | None
    "(E_p,) time of each interaction, if known."
    weights: NDArray[np.float64] | None
    "(E_p,) weight of each pair; None: all alike."

    @property
    def checksum(self) -> str:
        """Checksum of pairs and weights."""
        return checksum(self.indptr, self.indices, *(() if self.weights is None else (self.weights,)))


@dataclass(frozen=True, eq=False)
class PartitionedInteractions:
    """A partitioned data set on disk. Build one with `save_partitions` or `spherec data prepare --partitions`."""

    path: Path
    "The folder."
    n_users: int
    "U."
    totals: Totals
    "Sizes, and the popularity of items."
    checksums: tuple[str, ...]
    "Checksum of each partition."
    steps: tuple[Step, ...]
    "Steps from raw events to these interactions."
    n_named_items: int
    "Number of items that have a name."
    is_weighed: bool
    "Pairs have weights, and these are read."
    is_divided: ClassVar[bool] = True
    "A crew learns from it part by part, also one of a single process."

    @classmethod
    def open(cls, path: str | PathLike[str]) -> "PartitionedInteractions":
        """Read the index of a folder; ids must be there, too, though they are read later."""
        arrays, manifest = read_container(Path(path) / PARTITIONS, _INDEX, remedy=_REMEDY)
        of_ids = read_manifest(Path(path) / _ID_FILE, _IDS, remedy=_REMEDY)
        with decoding(path, _REMEDY):
            counts, sizes, checksums = arrays["users_per_item"], arrays["partition_sizes"], manifest["checksums"]
            totals = Totals(counts, int(manifest["active_users"]), sizes, _combine(checksums))
            if of_ids["pairs"] != totals.checksum:
                raise ValueError(f"{_ID_FILE} is of another data set")
            steps = tuple(Step(**step) for step in manifest["steps"])
            n_named, is_weighed = int(manifest["named_items"]), bool(manifest["weighed"])
            return cls(Path(path), int(manifest["users"]), totals, tuple(checksums), steps, n_named, is_weighed)

    @property
    def n_items(self) -> int:
        return len(self.totals.users_per_item)

    @property
    def n_partitions(self) -> int:
        return len(self.checksums)

    @property
    def n_pairs(self) -> int:
        return int(self.totals.partition_sizes.sum())

    @property
    def users_per_item(self) -> NDArray[np.int64]:
        """Number of users of each item (I,)."""
        return self.totals.users_per_item

    @property
    def items_per_user(self) -> NDArray[np.int64]:
        """Number of items of each user (U,); read anew at each access, one partition at a time."""
        return self._join_counts({n: np.diff(self._read_partition(n).indptr) for n in range(self.n_partitions)})

    def read_share(self, rank: int, n: int) -> Interactions:
        """Read the pairs that process `rank` of n holds; ids are positions."""
        if self.n_partitions % n:
            fit = ", ".join(str(one) for one in range(1, self.n_partitions + 1) if self.n_partitions % one == 0)
            raise ArgumentError(
                f"{self.path} has {self.n_partitions} partitions, which {n} processes cannot share alike; start one of "
                f"{fit} processes, or prepare it with --partitions {n}"
            )
        rows = self._assemble(range(rank, self.n_partitions, n))
        users, items = (IdMap(np.arange(count)) for count in (self.n_users, self.n_items))
        return Interactions(rows.indptr, rows.indices, users, items, weights=rows.weights)

    def read(self) -> Interactions:
        """Read everything: all pairs, ids and names."""
        ids = self._read_ids()
        rows = self._assemble(range(self.n_partitions))
        with decoding(self.path, _REMEDY):
            return Interactions(rows.indptr, rows.indices, *ids, rows.times, self.steps, rows.weights)

    def with_ids(self, share: Interactions) -> Interactions:
        """Return the pairs of a process with the ids and names of all users and items."""
        user_ids, item_ids, names = self._read_ids()
        with decoding(self.path, _REMEDY):
            return replace(share, user_ids=user_ids, item_ids=item_ids, item_names=names)

    def _read_ids(self) -> tuple[IdMap, IdMap, tuple[str | None, ...] | None]:
        arrays, _ = read_container(self.path / _ID_FILE, _IDS, remedy=_REMEDY)
        with decoding(self.path, _REMEDY):
            user_ids, item_ids = (IdMap(decode_ids(arrays, name)) for name in ("user_ids", "item_ids"))
            return user_ids, item_ids, decode_names(arrays, "item_names")

    def _assemble(self, partitions: Iterable[int]) -> PartitionRows:
        """Return the rows of all users (U + 1,), those outside of these partitions empty."""
        parts = {number: self._read_partition(number) for number in partitions}
        counts = self._join_counts({number: np.diff(rows.indptr) for number, rows in parts.items()})
        with decoding(self.path, _REMEDY):
            indptr = np.concatenate(([0], np.cumsum(counts)))  # (U + 1,)
            if len(parts) == 1:
                return PartitionRows(indptr, *next(iter(parts.values()))[1:])
            whole: Arrays = {}
            for number, rows in parts.items():
                shift = indptr[:-1][self._users(number)] - rows.indptr[:-1]  # (U_p,) how far each row moves
                places = np.repeat(shift, np.diff(rows.indptr))  # (E_p,)
                places += np.arange(len(places))
                for name, column in _columns(rows).items():
                    whole.setdefault(name, np.empty(indptr[-1], column.dtype))[places] = column
            return PartitionRows(indptr, whole["indices"], whole.get("times"), whole.get("weights"))

    def _join_counts(self, counts: Mapping[int, NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the numbers of all users (U,), of those in some partitions; 0 for others."""
        with decoding(self.path, _REMEDY):
            joined = np.zeros(self.n_users, np.int64)
            for number, own in counts.items():
                joined[self._users(number)] = own
            return joined

    def _users(self, number: int) -> slice:
        return users_of_partition(number, self.n_partitions, self.n_items)

    def _read_partition(self, number: int) -> PartitionRows:
        path = _pairs_file(self.path, number)
        arrays, _ = read_container(path, _PAIRS, remedy=_REMEDY)
        with decoding(path, _REMEDY):
            rows = PartitionRows(arrays["indptr"], arrays["indices"], arrays.get("times"), arrays.get("weights"))
            if rows.checksum != self.checksums[number]:
                raise ValueError("it is of another data set")
        return rows if self.is_weighed else rows._replace(weights=None)


def save_partitions(data: Interactions, path: str | PathLike[str], partitions: int) -> None:
    """Write interactions as a folder of this many partitions, which must not exist yet."""

    def divide() -> Iterator[PartitionRows]:
        for number in range(partitions):
            users = np.arange(data.n_users)[users_of_partition(number, partitions, data.n_items)]
            counts = data.items_per_user[users]
            indptr = np.concatenate(([0], np.cumsum(counts)))  # (U_p + 1,)
            places = np.repeat(data.indptr[users] - indptr[:-1], counts) + np.arange(indptr[-1])
            times, weights = (None if one is None else one[places] for one in (data.times, data.weights))
            yield PartitionRows(indptr, data.indices[places], times, weights)

    check_parts("partitions", partitions)
    if data.disliked is not None:
        raise DataError("partitions have no dislikes, which would be recommended again; keep the data in one file")
    with atomic_folder(path) as folder:
        write_partitions(folder, divide(), data.user_ids, data.item_ids, data.item_names, data.steps)


def check_parts(name: str, parts: int) -> None:
    """Raise an `ArgumentError` unless a data set or a model can have this many parts."""
    if type(parts) is not int or not 1 <= parts <= MOST_PARTS:
        raise ArgumentError(f"{name} must be a whole number from 1 to {MOST_PARTS:,}, got {quote(parts)}")


def write_partitions(
    folder: Path,
    partitions: Iterable[PartitionRows],
    user_ids: IdMap,
    item_ids: IdMap,
    item_names: tuple[str | None, ...] | None,
    steps: Iterable[Step],
) -> None:
    """Write the files of a partitioned data set into an empty folder; one partition is in memory at a time."""
    sizes, checksums, active, is_weighed = [], [], 0, False
    users_per_item = np.zeros(len(item_ids), np.int64)
    for number, rows in enumerate(partitions):
        arrays = {"indptr": rows.indptr, **_columns(rows)}
        write_container(_pairs_file(folder, number), _PAIRS, arrays, {})
        sizes.append(len(rows.indices))
        checksums.append(rows.checksum)
        is_weighed |= rows.weights is not None
        active += int(np.count_nonzero(np.diff(rows.indptr)))
        users_per_item += np.bincount(rows.indices, minlength=len(item_ids))
    ids = encode_ids(user_ids, "user_ids") | encode_ids(item_ids, "item_ids")
    ids |= {} if item_names is None else encode_names(item_names, "item_names")
    write_container(folder / _ID_FILE, _IDS, ids, {"pairs": _combine(checksums)})
    index = {"users_per_item": users_per_item, "partition_sizes": np.array(sizes, np.int64)}
    facts = {"users": len(user_ids), "active_users": active, "checksums": checksums}
    facts |= {"named_items": sum(map(bool, item_names or ())), "weighed": is_weighed}
    write_container(folder / PARTITIONS, _INDEX, index, {**facts, "steps": [asdict(step) for step in steps]})


def users_of_partition(number: int, partitions: int, n_items: int) -> slice:
    """Return the user indices of a partition: every P-th."""
    return slice((number - n_items) % partitions, None, partitions)


def _columns(rows: PartitionRows) -> Arrays:
    """Return the columns (E_p,) that there are, by name."""
    columns = {"indices": rows.indices, "times": rows.times, "weights": rows.weights}
    return {name: column for name, column in columns.items() if column is not None}


def _pairs_file(folder: Path, number: int) -> Path:
    return folder / f"pairs-{number}.safetensors"


def _combine(checksums: Iterable[str]) -> str:
    return checksum(np.frombuffer(" ".join(checksums).encode(), np.uint8))
