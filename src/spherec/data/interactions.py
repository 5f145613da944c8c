"""Interactions: who has which item, checked once so that no later code has to check again."""

import gzip
from collections.abc import Hashable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from os import PathLike
from typing import Any, Literal, Self, TypedDict, Unpack, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from spherec.data.container import Arrays, checksum, decoding, encode_container, read_container
from spherec.data.cuts import Cut
from spherec.data.event_weights import EVENT_RULES, EventWeights
from spherec.data.events import Duplicates, Events, IdColumn, Step, check_lowest_weight, pair_keys
from spherec.data.frames import binary_rows, column_of, item_names_in, warn_unread_column
from spherec.data.ids import IdMap, decode_ids, decode_names, encode_ids, encode_names
from spherec.data.notebook_table import NotebookTable
from spherec.data.output_files import atomic_write
from spherec.errors import ArgumentError, DataError, check_choice, quote
from spherec.lazy import Lazy

Orientation = Literal["users x items", "items x users"]
"""Meaning of a matrix's rows and columns."""

Names = tuple[str | None, ...]
"""Display names, None where unknown."""

_KIND = "spherec-interactions"  # of the file

_REMEDY = "prepare it again"


class Rules(TypedDict, total=False):
    """Rules by which events become interactions."""

    cut: Cut | None
    duplicates: Duplicates | None
    weigh: bool


class FrameRules(Rules, total=False):
    """The same, the column of item names in a data frame, and how kinds and ages of events weigh."""

    name: str | None
    event: str | None
    weights: Mapping[str, float] | None
    cancels: Mapping[str, str] | None
    half_life: str | float | None
    max_weight: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(NotebookTable):
    """Binary interactions of U users with I items, as sorted rows without duplicates (CSR), with external ids.

    Users and items without any interaction may be among them: the parts of a split keep the ids of the whole.
    Build one with `spherec.read`, `from_frame`, `from_pairs`, `from_matrix` or `load`.
    """

    indptr: NDArray[np.int64]
    "(U + 1,) where each user's row begins in `indices`."
    indices: NDArray[np.int32]
    "(E,) the items of user 0, then of user 1 …, ascending in each row."
    user_ids: IdMap
    "The external id of each user index."
    item_ids: IdMap
    "The external id of each item index."
    item_names: Names | None = None
    "Display name of each item, None where unknown."
    times: NDArray[np.float64] | None = None
    "(E,) time of each interaction, if known."
    steps: tuple[Step, ...] = ()
    "Steps from raw events to these interactions."
    weights: NDArray[np.float64] | None = None
    "(E,) number by which each pair is weighed in training, such as a count of plays or a rating; None: all alike."
    disliked: NDArray[np.int32] | None = None
    "(D, 2) user and item of pairs that are never to be recommended, by user, then item; none of them is above."

    def __post_init__(self) -> None:
        _check(self)
        for name in ("indptr", "indices", "times", "weights", "disliked"):
            array = getattr(self, name)
            if array is not None:
                object.__setattr__(self, name, _read_only(array))

    @classmethod
    def from_events(cls, events: Events, *, weigh: bool = False) -> Self:
        """Build interactions from merged events (`Events.merge`), with `weigh` of their values as weights.

        Ids that no event uses are dropped.
        """
        if weigh:
            check_lowest_weight(None if events.values is None else float(events.values.min(initial=0)))
        user_ids, users = _compact(events.user_ids, events.users)
        item_ids, items = _compact(events.item_ids, events.items)
        used = replace(events.renumber(users, items), values=events.values if weigh else None)
        return cls.from_indices(used, IdMap(user_ids), IdMap(item_ids))

    @classmethod
    def from_indices(cls, events: Events, user_ids: IdMap, item_ids: IdMap, names: Names | None = None) -> Self:
        """Build interactions of merged events, their values as weights; no user or item with an id here is dropped."""
        starts, rest = row_starts(events.users, len(user_ids)), (events.times, events.steps, events.values)
        return cls(starts, events.items, user_ids, item_ids, names, *rest, events.disliked)

    @classmethod
    def from_pairs(
        cls,
        users: IdColumn,
        items: IdColumn,
        *,
        values: ArrayLike | None = None,
        times: ArrayLike | None = None,
        **rules: Unpack[Rules],
    ) -> Self:
        """Build interactions from columns of equal length with external ids.

        `values` are ratings or counts. The rules are `cut`, which says which pairs count, by their values and by the
        numbers of pairs; `duplicates`, which says how repeated pairs are merged (see `Events.merge`); and `weigh`, with
        which values are kept and pairs are weighed by them in training.
        """
        return cls._from_raw(Events.from_columns(users, items, values=values, times=times), **rules)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        user: str,
        item: str,
        value: str | None = None,
        time: str | None = None,
        **rules: Unpack[FrameRules],
    ) -> "Interactions":
        """Build interactions from the named columns of a pandas or polars data frame; otherwise as `from_pairs`.

        `name` is a column of item names; where an item has several, the last one counts. `event` and what follows it
        weigh kinds of events, as in `spherec.read`. If the frame seems to have a column of ratings or counts, but
        `value` does not name it, an `UnreadValuesWarning` is issued.
        """
        if user == item:
            raise ArgumentError(f"user and item are both {quote(user)}; name a column for each")
        name, weigher = rules.pop("name", None), EventWeights.of({**rules, "value": value})
        plain = {rule: chosen for rule, chosen in rules.items() if rule not in EVENT_RULES}
        columns = {"users": user, "items": item, "values": value, "times": time}
        read = {role: column_of(frame, column) for role, column in columns.items() if column is not None}
        if weigher is None:
            data = cls.from_pairs(**read, **plain)  # type: ignore[arg-type]
        else:
            events = Events.from_columns(**read)
            if weigher.event is not None:
                events = weigher.select(events, column_of(frame, weigher.event))
            events = (rules.get("cut") or Cut())(weigher(events))
            data = cls.from_events(events, weigh=rules.get("weigh", True))
        if value is None and weigher is None:
            warn_unread_column(frame, user, item)
        return data if name is None else data.with_item_names(item_names_in(frame, item, name))

    @classmethod
    def _from_raw(
        cls, events: Events, *, cut: Cut | None = None, duplicates: Duplicates | None = None, weigh: bool = False
    ) -> Self:
        if weigh:
            check_lowest_weight(None if events.values is None else float(events.values.min()))
        return cls.from_events((cut or Cut())(events.merge(duplicates)), weigh=weigh)

    @classmethod
    def from_matrix(
        cls,
        matrix: Any,
        *,
        orientation: Orientation = "users x items",
        user_ids: IdColumn | None = None,
        item_ids: IdColumn | None = None,
    ) -> Self:
        """Build interactions from a scipy sparse matrix or a dense array; entries above 0 count, and none may be below.

        `orientation` says what rows and columns are. Ids default to positions. Empty rows and columns stay. If the
        entries are ratings or counts, an `UnreadValuesWarning` says that they are not used.
        """
        check_choice("orientation", orientation, get_args(Orientation))
        rows = binary_rows(matrix)
        csr = rows if orientation == "users x items" else sp.csr_array(rows.T)
        given = zip(csr.shape, (user_ids, item_ids), strict=True)
        users, items = (IdMap(range(n) if ids is None else ids) for n, ids in given)
        if (len(users), len(items)) != csr.shape:
            raise DataError(f"{len(users):,} ids of users and {len(items):,} of items do not fit a matrix {csr.shape}")
        data = cls(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), users, items)
        return replace(data, steps=data.events().with_step("read").steps)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a file that `save` wrote into memory; what happens to the file later does not reach it."""
        arrays, manifest = read_container(path, _KIND, remedy=_REMEDY)
        with decoding(path, _REMEDY):
            users, items = (IdMap(decode_ids(arrays, name)) for name in ("user_ids", "item_ids"))
            names, steps = decode_names(arrays, "item_names"), tuple(Step(**step) for step in manifest["steps"])
            columns = arrays.get("times"), steps, arrays.get("weights"), arrays.get("disliked")
            return cls(arrays["indptr"], arrays["indices"], users, items, names, *columns)

    def save(self, path: str | PathLike[str], *, compress: bool = False) -> None:
        """Write one self-contained file atomically, which any safetensors reader opens unless it is compressed."""
        names = ("indptr", "indices", "times", "weights", "disliked")
        arrays = {name: getattr(self, name) for name in names if getattr(self, name) is not None} | self.encode_ids()
        content, _ = encode_container(_KIND, arrays, {"steps": [asdict(step) for step in self.steps]})
        pack = partial(gzip.GzipFile, "", "wb", 9, mtime=0)
        with atomic_write(path) as raw, pack(raw) if compress else nullcontext(raw) as file:
            file.writelines(content)

    def encode_ids(self) -> Arrays:
        """Return ids and names as arrays, for a file."""
        names = {} if self.item_names is None else encode_names(self.item_names, "item_names")
        return encode_ids(self.user_ids, "user_ids") | encode_ids(self.item_ids, "item_ids") | names

    @property
    def n_users(self) -> int:
        """Number of users with an index, U."""
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        """Number of items with an index, I."""
        return len(self.item_ids)

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def n_pairs(self) -> int:
        """Number of pairs, E."""
        return len(self)

    @property
    def active_users(self) -> int:
        """Number of users with any item."""
        return int(np.count_nonzero(self.items_per_user))

    @property
    def checksums(self) -> dict[str, str | None]:
        """Checksums of the pairs; of ids, names, times and dislikes; of the weights, None if all pairs weigh alike."""
        weights = None if self.weights is None else checksum(self.weights)
        more = [one for one in (self.times, self.disliked) if one is not None]
        pairs, ids = checksum(self.indptr, self.indices), checksum(*self.encode_ids().values(), *more)
        return {"pairs": pairs, "ids": ids, "weights": weights}

    @property
    def matrix(self) -> "sp.csr_matrix":
        """Users x items (U, I), 1.0 where they interacted. A new copy at each access, yours to change."""
        ones = np.ones(len(self), dtype=np.float32)
        return sp.csr_matrix((ones, self.indices, self.indptr), shape=(self.n_users, self.n_items), copy=True)

    @Lazy
    def users(self) -> NDArray[np.int32]:
        """User index of each pair (E,), parallel to `indices`."""
        return _read_only(np.repeat(np.arange(self.n_users, dtype=np.int32), self.items_per_user))

    @property
    def items_per_user(self) -> NDArray[np.int64]:
        """Number of items of each user (U,)."""
        return np.diff(self.indptr)

    @Lazy
    def users_per_item(self) -> NDArray[np.int64]:
        """Number of users of each item (I,): its popularity."""
        return _read_only(np.bincount(self.indices, minlength=self.n_items))

    def items_of(self, user: int) -> NDArray[np.int32]:
        """Return the item indices of a user index, ascending."""
        if not isinstance(user, int | np.integer) or not 0 <= user < self.n_users:
            raise ArgumentError(f"user must be an index in 0 … {self.n_users - 1}, got {quote(user)}")
        return self.indices[self.indptr[int(user)] : self.indptr[user + 1]]

    def disliked_by(self, user: int) -> NDArray[np.int32]:
        """Return the items that a user dislikes, ascending."""
        if self.disliked is None:
            return np.zeros(0, np.int32)
        begin, end = np.searchsorted(self.disliked[:, 0], (user, user + 1))
        return self.disliked[begin:end, 1]

    def filter(self, mask: NDArray[np.bool_], name: str | None = None) -> "Interactions":
        """Return the pairs where `mask` (E,) is true, under the same indices; `name` describes this step."""
        events = self.events().filter(mask, name or "")
        return Interactions.from_indices(events, self.user_ids, self.item_ids, self.item_names)

    def events(self) -> Events:
        """Return these pairs as events, their weights as values."""
        ids = self.user_ids.array, self.item_ids.array
        pairs = Events(self.users, self.indices, *ids, values=self.weights, times=self.times, steps=self.steps)
        return replace(pairs, disliked=self.disliked)

    def cut(self, cut: Cut) -> "Interactions":
        """Return the pairs that pass; users and items without any are dropped, so the others get new indices."""
        if cut.min_value is not None and self.weights is None:
            raise DataError(
                f"cannot cut at value >= {cut.min_value:g}: interactions hold no values any more; cut when reading them"
            )
        smaller = Interactions.from_events(cut(self.events()), weigh=self.weights is not None)
        names = merge_item_names(self)
        return smaller.with_item_names(names) if names else smaller

    def with_item_names(self, names: Mapping[Any, str | None]) -> "Interactions":
        """Return the same interactions with item names, given by external id; other items have none.

        Names from a text file go by strings: an item with the id 7 is also looked for as "7".
        """
        if not isinstance(names, Mapping):
            raise ArgumentError(f"names must be a mapping of ids to names, got {type(names).__name__}")
        named = (names.get(item) or names.get(str(item)) or None for item in self.item_ids)
        return replace(self, item_names=tuple(named))

    def __eq__(self, other: object) -> bool:
        """Return whether both hold the same pairs, ids in the same order, names, times, weights and dislikes."""
        if not isinstance(other, Interactions):
            return NotImplemented
        columns = ("indptr", "indices", "times", "weights", "disliked")
        pairs = [(getattr(self, name), getattr(other, name)) for name in columns]
        return all(one is two if one is None or two is None else np.array_equal(one, two) for one, two in pairs) and (
            (self.user_ids, self.item_ids, self.item_names) == (other.user_ids, other.item_ids, other.item_names)
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy through the constructor, so that copies are checked and read-only, too."""
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    def __repr__(self) -> str:
        return f"Interactions(users={self.n_users:,}, items={self.n_items:,}, pairs={len(self):,})"

    def _list_columns(self) -> dict[str, list[Any]]:
        return {"users": [self.n_users], "items": [self.n_items], "pairs": [len(self)]}


def as_interactions(data: Any, *, orientation: Orientation | None = None, **columns: str | None) -> Interactions:
    """Return interactions unchanged, and make them of a data frame, by the names of its columns, or of a matrix.

    The columns are `user`, `item`, `name` and `weight`; repeated pairs are merged, and their weights add up. A matrix
    needs its orientation, because a model would learn from a transposed one without complaint.
    """
    if isinstance(data, Interactions):
        _refuse_options("Interactions know their users and items", **columns, orientation=orientation)
        return data
    if hasattr(data, "columns"):
        _refuse_options("a data frame goes by columns", orientation=orientation)
        user, item, name, weight = map(columns.get, ("user", "item", "name", "weight"))
        if user is None or item is None:
            names = ", ".join(map(quote, list(data.columns)[:12]))
            raise ArgumentError(f"a data frame needs the names of its columns, user=… and item=…, two of {names}")
        rules: FrameRules = {"name": name, "weigh": weight is not None, "duplicates": "sum"}
        return Interactions.from_frame(data, user=user, item=item, value=weight, **rules)
    if sp.issparse(data) or hasattr(data, "__array__"):
        _refuse_options("a matrix has no column names", **columns)
        return Interactions.from_matrix(data, orientation=orientation)  # type: ignore[arg-type]
    raise DataError(
        f"cannot learn from {type(data).__name__}; give Interactions, a pandas or polars data frame, or a scipy matrix"
    )


def merge_item_names(*sources: Interactions) -> dict[Hashable, str]:
    """Return all item names by external id; where two sources name an item, the earlier one counts."""
    return {
        item: name
        for source in reversed(sources)
        for item, name in zip(source.item_ids, source.item_names or (), strict=False)
        if name
    }


def merge_dislikes(data: Interactions, *sources: Interactions) -> NDArray[np.int32] | None:
    """Return the dislikes (D, 2) of all sources under the indices of `data`, except its positives."""
    found = [np.zeros(0, np.int64)]
    for source in (one for one in sources if one.disliked is not None):
        pairs = source.events().renumber(data.user_ids.find(source.user_ids), data.item_ids.find(source.item_ids))
        assert pairs.disliked is not None
        found.append(pair_keys(pairs.disliked[:, 0], pairs.disliked[:, 1], data.n_items))
    keys = np.setdiff1d(np.concatenate(found), pair_keys(data.users, data.indices, data.n_items))
    return np.stack(np.divmod(keys, max(data.n_items, 1)), 1).astype(np.int32) if len(keys) else None


def row_starts(users: NDArray[np.int32], n_users: int) -> NDArray[np.int64]:
    """Return where each user's row begins (U + 1,), for pairs (E,) that are sorted by user."""
    counts = np.bincount(users, minlength=n_users)  # (U,)
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.setflags(write=False)
    return view


def _refuse_options(reason: str, **options: str | None) -> None:
    unused = [name for name, value in options.items() if value is not None]
    if unused:
        raise ArgumentError(f"{reason}; leave out {', '.join(unused)}")


def _compact(ids: NDArray[Any], indices: NDArray[np.int32]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Return the ids in use, in their order, and the index (n,) of each id among them, -1 for others."""
    in_use = np.bincount(indices, minlength=len(ids)) > 0  # (n,)
    return ids[in_use], np.where(in_use, np.cumsum(in_use) - 1, -1).astype(np.int32)


def _check(data: Interactions) -> None:
    """Raise a `DataError` unless all parts fit each other."""
    check_rows(data.indptr, data.indices, data.n_users, data.n_items)
    for name, column in (("times", data.times), ("weights", data.weights)):
        if column is None:
            continue
        fits = column.shape == data.indices.shape and column.dtype == np.float64
        if not fits or not np.isfinite(column).all():
            raise DataError(f"{name} must be {len(data):,} finite numbers of float64, got {quote(column)}")
    if data.weights is not None:
        check_weights(data.weights)
    if data.disliked is not None:
        _check_dislikes(data, data.disliked)
    if data.item_names is not None:
        others = {type(name): name for name in data.item_names if not isinstance(name, str | None)}
        if others or len(data.item_names) != data.n_items:
            got = f"{len(data.item_names):,}" + "".join(f", one of them {quote(other)}" for other in others.values())
            raise DataError(f"item_names must be {data.n_items:,} strings or None, got {got}")


def _check_dislikes(data: Interactions, pairs: NDArray[np.int32]) -> None:
    is_table = pairs.ndim == 2 and pairs.shape[1] == 2 and pairs.dtype == np.int32
    if not is_table or not ((pairs >= 0) & (pairs < (data.n_users, data.n_items))).all():
        raise DataError(f"disliked must be pairs (D, 2) of indices in int32, got {quote(pairs)}")
    keys = pair_keys(pairs[:, 0], pairs[:, 1], data.n_items)
    if np.any(keys[1:] <= keys[:-1]) or np.isin(keys, pair_keys(data.users, data.indices, data.n_items)).any():
        raise DataError("disliked pairs must ascend by user and item, and none may be among the positive pairs")


def check_weights(weights: NDArray[np.float64]) -> None:
    """Raise a `DataError` unless pairs can weigh so much."""
    if not ((weights > 0) & np.isfinite(weights)).all():
        raise DataError(f"weights must be finite and above 0, got {weights.min():g}; leave such pairs out, by a cut")


def check_rows(indptr: NDArray[np.int64], indices: NDArray[np.int32], n_users: int, n_items: int) -> None:
    """Raise a `DataError` unless the rows are sorted, distinct, in range, and as many as the users."""
    fits = (
        indptr.shape == (n_users + 1,)
        and indices.ndim == 1
        and (indptr.dtype == np.int64 and indices.dtype == np.int32)
    )
    if not fits or indptr[0] != 0 or indptr[-1] != len(indices) or np.any(np.diff(indptr) < 0):
        raise DataError(
            f"indptr (int64) does not cut {len(indices):,} pairs (int32) into the rows of {n_users:,} users"
        )
    ascending = np.append(indices[1:] > indices[:-1], True)  # (E,) true where the next pair has a larger item,
    ascending[indptr[1:][indptr[1:] > 0] - 1] = True  # or belongs to another row
    if len(indices) and not (ascending.all() and 0 <= int(indices.min()) <= int(indices.max()) < n_items):
        raise DataError(f"each user's items must be ascending and distinct, and lie in 0 … {n_items - 1}")
