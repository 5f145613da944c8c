"""Shards of a model: files that hold its rows, next to the model file, which holds the rest and names them.

Rows are dealt out like cards, as in a run of several processes. Items have the numbers 0 … I − 1, users those from I
on, and shard r of n holds the numbers x with x mod n = r: their vectors, and the items of these users. A portion (j, m)
of a model is asked for in the same way, whatever the number of shards.
"""

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.data.input_files import describe_damage
from spherec.data.tensor_file import read_tensors, write_tensors
from spherec.distributed.group import ProcessGroup
from spherec.errors import ArgumentError, DataError, FailedProcessError, quote
from spherec.geometry import check_finite

Portion = tuple[int, int]
"""(j, m): the rows whose numbers leave the remainder j when divided by m."""

WHOLE: Portion = (0, 1)
"""The portion of all rows."""

_FORMAT, _VERSION = "spherec-model-shard", 1
_MOST = 4096  # shards: each is a file
_OF_ITEMS = ("item_vectors", "item_reach", "features", "features_known", "item_lengths")
_OF_USERS = ("user_vectors",)
_OF_PAIRS = ("indices", "pair_weights")
_NAME = re.compile(r"\.\d+-of-\d+(\.[0-9a-f]{8})?")  # the end of a shard's name

Rows = dict[str, NDArray[Any]]
"""Arrays with a row for each item or user, and the pairs of these users, by their names in the model file."""


class ShardFile(NamedTuple):
    """A shard, as the model file names it."""

    file: str
    "Name of the file, in the folder of the model file."
    checksum: str
    "Checksum of its content."


def check_portion(portion: Portion, name: str) -> Portion:
    """Return a portion; raise an `ArgumentError` unless it is (j, m) with 0 <= j < m."""
    if not isinstance(portion, tuple) or len(portion) != 2 or not all(type(number) is int for number in portion):
        raise ArgumentError(f"{name} must be a pair (j, m) of whole numbers, such as (0, 4), got {quote(portion)}")
    if not 0 <= portion[0] < portion[1]:
        raise ArgumentError(f"{name} must be (j, m) with 0 <= j < m, got {portion}")
    return portion


def numbers_of(portion: Portion, begin: int, past: int) -> range:
    """Return the numbers from `begin` to `past` - 1 that belong to a portion."""
    j, m = portion
    return range(begin + (j - begin) % m, past, m)


def write_all_shards(path: str | PathLike[str], rows: Rows, shards: int) -> list[ShardFile]:
    """Write the rows of a whole model, one shard after the other."""
    if type(shards) is not int or not 1 <= shards <= _MOST:
        raise ArgumentError(f"shards must be a whole number from 1 to {_MOST:,}, got {quote(shards)}")
    whole, portions = _Holding.of_whole(rows), [(rank, shards) for rank in range(shards)]
    return [write_shard(path, _gather([whole], whole.counts, portion, portion), portion) for portion in portions]


def write_shard(path: str | PathLike[str], rows: Rows, portion: Portion) -> ShardFile:
    """Write the rows of one shard. Shards of a model that is there have other names, and stay."""
    unnamed = Path(path).with_name(f"{Path(path).name}.{portion[0]}-of-{portion[1]}")
    checksum = write_tensors(unnamed, rows, {"format": _FORMAT, "version": _VERSION, "portion": portion})
    shard = name_shard(path, portion, checksum)
    os.replace(unnamed, unnamed.with_name(shard.file))
    return shard


def save_together(
    path: str | PathLike[str], group: ProcessGroup, make: Callable[[], Any], add_ids: Callable[[], Any] | None
) -> None:
    """Write the model of a run of several processes in shards; all of them call this.

    Each makes an artifact of the vectors that it holds, and writes them with the pairs of its users. Process 0 writes
    the rest; `add_ids` is called there, if the artifact's data has no ids, and returns it with them.
    """
    portion, checksums = (group.rank, group.size), torch.zeros(1, dtype=torch.int64, device=group.device)
    problem: Exception | None = None
    try:
        whole = held = make()
        check_finite(held.vectors)
        pairs = take_pairs(held.pairs(), held.data.n_items, portion)
        checksums += int(write_shard(path, held.rows() | pairs, portion).checksum, 16)
        if group.rank == 0 and add_ids is not None:
            whole = replace(held, data=add_ids())
    except Exception as error:  # the others wait to hear of it
        problem = error
    if group.agree(problem is not None)[0]:
        raise problem or FailedProcessError("another process could not write its shard; see its message")
    found = group.collect(checksums, everywhere=False)
    try:
        if group.rank == 0:
            shards = [name_shard(path, (rank, group.size), f"{int(one):08x}") for rank, one in enumerate(found)]
            whole.write_index(path, shards)
    except Exception as error:
        problem = error
    if group.agree(problem is not None)[0]:
        raise problem or FailedProcessError("process 0 could not write the model; see its message")


def name_shard(path: str | PathLike[str], portion: Portion, checksum: str) -> ShardFile:
    """Return what the model file says about a shard."""
    return ShardFile(f"{Path(path).name}.{portion[0]}-of-{portion[1]}.{checksum}", checksum)


def remove_other_shards(path: str | PathLike[str], shards: Iterable[ShardFile] = ()) -> None:
    """Remove the shards of models that were at this path before."""
    path, kept = Path(path), {shard.file for shard in shards}
    for file in path.parent.iterdir():
        is_shard = file.name.startswith(path.name) and _NAME.fullmatch(file.name.removeprefix(path.name))
        if is_shard and file.name not in kept:
            with suppress(OSError):
                file.unlink()


def read_shards(
    path: str | PathLike[str], manifest: Mapping[str, Any], users: Portion, items: Portion, *, mmap: bool = False
) -> Rows:
    """Return the rows of portions of the users and the items of a model, out of the shards that its manifest names.

    Only shards that hold some of them are read. Rows that are all of one shard stay mapped with `mmap`; all others are
    copied into memory, each once.
    """
    try:
        shards = [ShardFile(*map(str, shard)) for shard in manifest["shards"]]
        if not 1 <= len(shards) <= _MOST or any(Path(shard.file).name != shard.file for shard in shards):
            raise ValueError("its shards have no valid names")
        counts = int(manifest["users"]), int(manifest["items"])
        rows = _gather(list(_read_some(Path(path), shards, counts, users, items)), counts, users, items)
        if not mmap:
            rows = {name: array if array.flags.owndata else array.copy() for name, array in rows.items()}
        return _keep_items(rows, items)
    except DataError:
        raise
    except Exception as error:  # whatever forged content raises
        raise DataError(f"{path} is damaged ({describe_damage(error)}); copy it again") from None


def _read_some(
    path: Path, shards: Sequence[ShardFile], counts: tuple[int, int], users: Portion, items: Portion
) -> Iterator["_Holding"]:
    """Yield the shards that hold some of the portions; the first shard, which tells the types, if there is none."""
    n_users, n_items = counts
    n = len(shards)
    held = [(numbers_of((rank, n), 0, n_items), numbers_of((rank, n), n_items, n_items + n_users)) for rank in range(n)]
    filled = [rank for rank in range(n) if _intersect(held[rank][0], items) or _intersect(held[rank][1], users)]
    for rank in filled or [0]:
        shard, (held_items, held_users) = shards[rank], held[rank]
        rows = _read_shard(path, shard, (rank, n))
        if len(rows["item_vectors"]) != len(held_items) or len(rows["indptr"]) != len(held_users) + 1:
            raise ValueError(f"its shard {shard.file} has another number of rows")
        yield _Holding(rows, held_items, held_users)


def take_rows(rows: Rows, users: Portion, items: Portion) -> Rows:
    """Return the rows of portions of the users and the items, out of those of a whole model."""
    whole = _Holding.of_whole(rows)
    return _keep_items(_gather([whole], whole.counts, users, items), items)


def take_pairs(pairs: Rows, n_items: int, portion: Portion) -> Rows:
    """Return the pairs of a portion of the users, out of those of all."""
    held = range(n_items, n_items + len(pairs["indptr"]) - 1)
    taken = _intersect(held, portion)
    return _join_pairs([(pairs, held, taken)], taken)


class _Holding(NamedTuple):
    """Rows, and the numbers of the items and users that they are of."""

    rows: Rows
    items: range
    users: range

    @classmethod
    def of_whole(cls, rows: Rows) -> "_Holding":
        n_users, n_items = len(rows["user_vectors"]), len(rows["item_vectors"])
        return cls(rows, range(n_items), range(n_items, n_items + n_users))

    @property
    def counts(self) -> tuple[int, int]:
        return len(self.users), len(self.items)


def _read_shard(path: Path, shard: ShardFile, portion: Portion) -> Rows:
    file = path.with_name(shard.file)
    if not file.is_file():
        raise DataError(f"{path} is in {portion[1]} shards, and {shard.file} is not next to it; copy all of them there")
    rows, manifest = read_tensors(file, _FORMAT, _VERSION, remedy="copy it again", mmap=True)
    if manifest["checksum"] != shard.checksum or manifest["portion"] != list(portion):
        raise DataError(f"{file} is no shard of {path}, but of another model; copy the right one there")
    return rows


def _intersect(held: range, portion: Portion) -> range:
    """Return the held numbers that belong to a portion."""
    j, m = portion
    first = next((number for number in held[:m] if number % m == j), held.stop)
    return range(first, held.stop, math.lcm(held.step, m))


def _slice(numbers: range, within: range) -> slice:
    """Return where numbers stand within others, of which they are some."""
    return slice((numbers.start - within.start) // within.step, None, numbers.step // within.step)


def _gather(holdings: Sequence[_Holding], counts: tuple[int, int], users: Portion, items: Portion) -> Rows:
    """Return the rows of portions of the users and the items; pairs keep the indices of all items."""
    n_users, n_items = counts
    wanted_items, wanted_users = numbers_of(items, 0, n_items), numbers_of(users, n_items, n_items + n_users)
    of_items = [(rows, held, _intersect(held, items)) for rows, held, _ in holdings]
    of_users = [(rows, held, _intersect(held, users)) for rows, _, held in holdings]
    known = holdings[0].rows.keys()
    gathered = {name: _join_rows(name, of_items, wanted_items) for name in _OF_ITEMS if name in known}
    gathered |= {name: _join_rows(name, of_users, wanted_users) for name in _OF_USERS}
    return gathered | _join_pairs(of_users, wanted_users)


def _join_rows(name: str, sources: Sequence[tuple[Rows, range, range]], wanted: range) -> NDArray[Any]:
    """Return the wanted rows of an array, out of sources with the numbers that they hold, and those to take."""
    filled = [source for source in sources if source[2]]
    if len(filled) == 1:
        rows, held, taken = filled[0]
        return np.ascontiguousarray(rows[name][_slice(taken, held)])  # itself if it is all of it
    like = sources[0][0][name]
    whole = np.empty((len(wanted), *like.shape[1:]), like.dtype)
    for rows, held, taken in filled:
        whole[_slice(taken, wanted)] = rows[name][_slice(taken, held)]
    return whole


def _join_pairs(sources: Sequence[tuple[Rows, range, range]], wanted: range) -> Rows:
    """Return the pairs of the wanted users."""
    types = {name: sources[0][0][name].dtype for name in _OF_PAIRS if name in sources[0][0]}
    sources = [source for source in sources if source[2]]
    counts = np.zeros(len(wanted), np.int64)  # (u,) items of each user
    for rows, held, taken in sources:
        counts[_slice(taken, wanted)] = np.diff(rows["indptr"])[_slice(taken, held)]
    indptr = np.concatenate(([0], np.cumsum(counts)))  # (u + 1,)
    columns = {name: np.empty(indptr[-1], dtype) for name, dtype in types.items()}  # (e,) each
    for rows, held, taken in sources:
        some, there = _slice(taken, wanted), rows["indptr"][:-1][_slice(taken, held)]
        steps = np.arange(counts[some].sum()) - np.repeat(np.cumsum(counts[some]) - counts[some], counts[some])
        places, origins = (np.repeat(starts, counts[some]) + steps for starts in (indptr[:-1][some], there))
        for name, column in columns.items():
            column[places] = rows[name][origins]
    return {"indptr": indptr, **columns}


def _keep_items(rows: Rows, items: Portion) -> Rows:
    """Return rows whose pairs are those with a portion of the items, under the indices that these have in it."""
    if items == WHOLE:
        return rows
    j, m = items
    kept = rows["indices"] % m == j  # (E,)
    before = np.concatenate(([0], np.cumsum(kept)))  # (E + 1,)
    columns = {name: rows[name][kept] for name in _OF_PAIRS if name in rows}
    columns["indices"] //= np.int32(m)
    return rows | {"indptr": before[rows["indptr"]], **columns}
