"""Shards of a model: files that hold its rows, next to the model file, which holds the rest and names them.

Rows are dealt out like cards, as in a run of several processes. Items have the numbers 0 … I − 1, users those from I
on, and shard r of n holds the numbers x with x mod n = r: their vectors, and the items of these users. A portion (j, m)
of a model is asked for in the same way, whatever the number of shards.
"""

import math
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spherec.artifact import MODEL_KIND, WHOLE, Artifact, Portion
from spherec.data.container import Arrays, decoding, encode_container, read_container
from spherec.data.input_files import find_kind
from spherec.data.interactions import Interactions
from spherec.data.output_files import atomic_write
from spherec.distributed.group import ProcessGroup
from spherec.distributed.partitions import MOST_PARTS, check_parts
from spherec.errors import ArgumentError, DataError, FailedProcessError, quote
from spherec.geometry import check_finite

_KIND = "spherec-model-shard"
_REMEDY = "copy it again"
_OF_ITEMS = ("item_vectors", "item_reach", "features", "features_known", "item_lengths")


class _Holding(NamedTuple):
    """Some items and users of a model, by their numbers, and their rows and pairs, by their names in the model file."""

    items: range
    users: range
    n_items: int
    rows: Arrays

    @classmethod
    def of(cls, items: Portion, users: Portion, counts: tuple[int, int], rows: Arrays | None = None) -> "_Holding":
        """Return the holding of portions of a model with (I, U) items and users."""
        n_items, n_users = counts
        past = n_items + n_users
        return cls(numbers_of(items, 0, n_items), numbers_of(users, n_items, past), n_items, rows or {})

    def shares(self, other: "_Holding") -> bool:
        """Return whether both have some item or user."""
        return bool(_intersect(self.items, other.items) or _intersect(self.users, other.users))

    @classmethod
    def of_whole(cls, rows: Arrays) -> "_Holding":
        """Return the holding of all rows of a model."""
        return cls.of(WHOLE, WHOLE, (len(rows["item_vectors"]), len(rows["user_vectors"])), rows)


def write_all(path: str | PathLike[str], model: Artifact, shards: int) -> None:
    """Write a whole model, one shard after the other, and then the model file, which names them."""
    check_parts("shards", shards)
    whole, counts = _Holding.of_whole(model.rows() | model.pairs()), (model.data.n_items, model.data.n_users)
    portions = [(rank, shards) for rank in range(shards)]
    names = [write_part(path, _KIND, one, _gather([whole], _Holding.of(one, one, counts))) for one in portions]
    model.write(path, {}, {"shards": names})


def save_shards(
    path: str | PathLike[str],
    group: ProcessGroup,
    make: Callable[[], Artifact],
    add_ids: Callable[[], Interactions] | None,
) -> None:
    """Write the model of a run of several processes in shards; all of them call this, and process 0 has locked `path`.

    Each makes an artifact of the vectors that it holds, and writes them with the pairs of its users. Process 0 writes
    the rest; `add_ids` is called there, if `data` has no ids, and returns it with them.
    """
    portion, made = (group.rank, group.size), []

    def write_own() -> str:
        made.append(held := make())
        check_finite(held.vectors)
        counts = held.data.n_items, held.data.n_users
        pairs = _join_pairs([_Holding.of(WHOLE, WHOLE, counts, held.pairs())], _Holding.of(portion, portion, counts))
        return write_part(path, _KIND, portion, held.rows() | pairs)

    def write_rest(names: list[str]) -> None:
        whole = made[0] if add_ids is None else replace(made[0], data=add_ids())
        whole.write(path, {}, {"shards": names})

    write_together(group, write_own, write_rest)


def write_together(group: ProcessGroup, write_own: Callable[[], str], write_rest: Callable[[list[str]], None]) -> None:
    """Write a file of several parts: all processes write their own, and then process 0 the rest, with their names.

    Where one process fails, it raises its error, and the others a `FailedProcessError`.
    """
    problem, name = None, ""
    try:
        name = write_own()
    except Exception as error:  # the others wait to hear of it
        problem = error
    if not group.agree(problem is not None)[0]:
        names = group.collect_objects(name)
        try:
            if group.rank == 0:
                write_rest(names)
        except Exception as error:
            problem = error
    if group.agree(problem is not None)[0]:
        raise problem or FailedProcessError("another process could not write its part; see its message")


def write_part(path: str | PathLike[str], kind: str, portion: Portion, arrays: Arrays, *, mode: int = 0o666) -> str:
    """Write a part next to a file, as private as this is, if it is there; return its name, which ends in a checksum."""
    content, checksum = encode_container(kind, arrays, {"portion": portion})
    whole = Path(path).resolve()
    part = whole.with_name(f"{whole.name}.{portion[0]}-of-{portion[1]}.{checksum}")
    with atomic_write(part, is_part=True, mode=stat.S_IMODE(whole.stat().st_mode) if whole.exists() else mode) as file:
        file.writelines(content)
    return part.name


def read_portions(
    path: str | PathLike[str], arrays: Arrays, manifest: dict[str, Any], users: Portion, items: Portion, *, mmap: bool
) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of a model file with the rows and pairs of portions of the users and items, and its manifest.

    They are taken out of its shards, of which only those that hold some are read, or of the arrays of a file. Rows that
    are all of one shard stay mapped with `mmap`; others are copied, each once. A model that replaces this one is read.
    """
    _check_portion(users, "users")
    _check_portion(items, "items")
    unchanged = 0
    while True:
        try:
            return arrays | _read_rows(path, arrays, manifest, users, items, mmap=mmap), manifest
        except DataError:
            known = manifest["checksum"]
            arrays, manifest = read_container(path, MODEL_KIND, remedy=_REMEDY, mmap=mmap)
            unchanged += manifest["checksum"] == known
            if unchanged > 1:
                raise


def _check_portion(portion: Portion, name: str) -> None:
    """Raise an `ArgumentError` unless a portion is (j, m) with 0 <= j < m."""
    is_pair = isinstance(portion, tuple) and [type(number) for number in portion] == [int, int]
    if not is_pair or not 0 <= portion[0] < portion[1]:
        raise ArgumentError(
            f"{name} must be (j, m), whole numbers with 0 <= j < m, such as (0, 4), got {quote(portion)}"
        )


def _read_rows(
    path: str | PathLike[str], arrays: Arrays, manifest: dict[str, Any], users: Portion, items: Portion, *, mmap: bool
) -> Arrays:
    columns = slice(items[0], None, items[1])
    if "shards" not in manifest:
        with decoding(path, _REMEDY):
            whole = _Holding.of_whole(arrays)
            return _gather([whole], _Holding.of(items, users, (len(whole.items), len(whole.users))), columns)
    with decoding(path, _REMEDY):
        names, counts = [str(name) for name in manifest["shards"]], (int(manifest["items"]), int(manifest["users"]))
        if not 1 <= len(names) <= MOST_PARTS:
            raise ValueError("it has too many shards or none")
        wanted, portions = _Holding.of(items, users, counts), [(rank, len(names)) for rank in range(len(names))]
        held = [_Holding.of(portion, portion, counts) for portion in portions]
        filled = [rank for rank, shard in enumerate(held) if shard.shares(wanted)] or [0]  # the first tells the types
    shards = [held[rank]._replace(rows=read_part(path, _KIND, names, rank)) for rank in filled]
    with decoding(path, _REMEDY):
        rows = _gather(shards, wanted, columns)
        return rows if mmap else {name: array if array.flags.owndata else array.copy() for name, array in rows.items()}


def read_part(path: str | PathLike[str], kind: str, names: Sequence[str], rank: int) -> Arrays:
    """Return the arrays, mapped, of the part of a file that belongs to a rank, of those that the file names."""
    name = Path(str(names[rank])).name  # never in another folder
    file = Path(path).resolve().with_name(name if f".{rank}-of-{len(names)}." in name else "?")
    if find_kind(file) != "file":
        raise DataError(f"{path} is in {len(names)} parts, and {quote(name)} is not next to it; copy all of them there")
    rows, manifest = read_container(file, kind, remedy=_REMEDY, mmap=True)
    if not file.name.endswith(f".{manifest['checksum']}") or manifest.get("portion") != [rank, len(names)]:
        raise DataError(f"{file} is no part of {path}, but of another file; copy the right one there")
    return rows


def numbers_of(portion: Portion, begin: int, past: int) -> range:
    """Return the numbers from `begin` to `past` - 1 that belong to a portion."""
    j, m = portion
    return range(begin + (j - begin) % m, past, m)


def _intersect(held: range, wanted: range) -> range:
    """Return the numbers that are in both."""
    first = next((number for number in held[: wanted.step] if (number - wanted.start) % wanted.step == 0), held.stop)
    return range(first, held.stop, math.lcm(held.step, wanted.step))


def _slice(numbers: range, within: range) -> slice:
    """Return where numbers stand within others, of which they are some."""
    if not numbers:
        return slice(0)
    return slice((numbers.start - within.start) // within.step, None, numbers.step // within.step)


def _gather(holdings: Sequence[_Holding], wanted: _Holding, columns: slice = slice(None)) -> Arrays:
    """Return the wanted rows, and the pairs of the wanted users with the items in `columns`."""
    items = [(one.rows, one.items) for one in holdings]
    users = [(one.rows, one.users) for one in holdings]
    rows = {name: join_rows(name, items, wanted.items) for name in _OF_ITEMS if name in holdings[0].rows}
    rows["user_vectors"] = join_rows("user_vectors", users, wanted.users)
    return rows | _join_pairs(holdings, wanted, columns)


def join_rows(name: str, sources: Sequence[tuple[Arrays, range]], wanted: range) -> NDArray[Any]:
    """Return the wanted rows of an array, out of sources with the numbers that they hold."""
    filled = [(rows[name], held, taken) for rows, held in sources if (taken := _intersect(held, wanted))]
    if len(filled) == 1:
        array, held, taken = filled[0]
        return np.ascontiguousarray(array[_slice(taken, held)])  # itself if it is all of it
    like = sources[0][0][name]
    whole = np.empty((len(wanted), *like.shape[1:]), like.dtype)
    for array, held, taken in filled:
        whole[_slice(taken, wanted)] = array[_slice(taken, held)]
    return whole


def _join_pairs(holdings: Sequence[_Holding], wanted: _Holding, columns: slice = slice(None)) -> Arrays:
    """Return the pairs of the wanted users with the items in `columns`, which are numbered among themselves."""
    blocks, places = [], []
    for holding in holdings:
        rows, taken = holding.rows, _intersect(holding.users, wanted.users)
        values = rows.get("pair_weights", np.ones(len(rows["indices"]), np.bool_))
        pairs = sp.csr_array((values, rows["indices"], rows["indptr"]), (len(holding.users), holding.n_items))
        pairs.check_format(full_check=True)
        blocks.append(pairs[_slice(taken, holding.users), columns])
        places.append(np.arange(len(wanted.users))[_slice(taken, wanted.users)])
    joined = sp.vstack(blocks, format="csr")[np.argsort(np.concatenate(places))]
    arrays: Arrays = {"indptr": joined.indptr.astype(np.int64), "indices": joined.indices.astype(np.int32)}
    return arrays | ({"pair_weights": joined.data} if "pair_weights" in holdings[0].rows else {})
