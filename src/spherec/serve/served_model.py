"""One version of the model as it is served: the model, its table of items, and the search by name. It never changes."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spherec.data.ids import Unknown, spell_like
from spherec.recommender import CML
from spherec.recommender.trained_model import Query, UnknownUser, skip_unknown
from spherec.serve.item_table import ItemTable
from spherec.serve.name_search import NameSearch
from spherec.serve.options import ServeOptions
from spherec.serve.schema import CountedItem, CountedUser, ItemName, ListBody

Stamp = tuple[tuple[int, int, int], ...]
"""Inode, size and time of the files that a version was loaded from."""

_NOTHING = np.zeros(0, dtype=np.int64)
_REMEDIES = {
    "user": "POST /recommend with items lists for somebody new, GET /search finds users",
    "item": "GET /search finds items",
}


class RankedList(NamedTuple):
    """The items (≤ k,) of a list, best first, and their scores: 1 − d²/2, and λ times the reach of an item."""

    items: NDArray[np.int64]
    scores: NDArray[np.float32]


@dataclass(frozen=True)
class ServedModel:
    """One version of the model, and what is derived from it for the server."""

    model: CML
    "The model."
    checksum: str
    "Checksum of its file, by which answers name it."
    loaded: datetime
    "Time at which it was loaded."
    table: ItemTable
    "Columns of the items; none without a table."
    items: NameSearch
    "Search of items."
    users: NameSearch
    "Search of users."
    stamp: Stamp
    "State of the files before they were read."
    pictures: str | None = None
    "Column of the table that has addresses of pictures."

    @classmethod
    def load(cls, options: ServeOptions) -> "ServedModel":
        """Load the files that the options name, mapped into memory so that processes share them."""
        stamp = stamp_files(options)
        model = CML.load(options.model, index=options.index or False, mmap=True, device="cpu")
        data = model.data
        for ids in (data.user_ids, data.item_ids):
            ids.find([""])  # makes its dictionary, which the first request would wait for
        if data.n_items:
            model.rank([Query(basket=np.zeros(1, dtype=np.int64))])  # draws the negatives of fold-in
        table = ItemTable({}) if options.items is None else ItemTable.read(options.items, data.item_ids)
        if pictures := options.pictures and options.pictures.partition("=")[0]:
            table.group(pictures)  # it is there
        return cls(
            model,
            model.artifact.checksum or "unsaved",
            datetime.now(UTC),
            table,
            NameSearch([str(one) for one in data.item_ids], data.item_names, data.users_per_item),
            NameSearch([str(one) for one in data.user_ids], None, np.diff(data.indptr).astype(np.int64)),
            stamp,
            pictures,
        )

    @property
    def saved(self) -> float:
        """Time at which the model file was written, in seconds since 1970."""
        return self.stamp[0][2] / 1e9

    def rank(self, queries: Sequence[Query]) -> list[RankedList]:
        """Return a list for each query: the same, bit for bit, as if it had been the only one."""
        ranking = self.model.rank(queries)
        rows = zip(ranking.items, ranking.scores, (ranking.items >= 0).sum(1).tolist(), strict=True)
        return [RankedList(items[:n], scores[:n]) for items, scores, n in rows]  # those listed come first

    def find(
        self, role: Literal["user", "item"], ids: Iterable[Hashable], unknown: Unknown = "error"
    ) -> NDArray[np.int64]:
        """Return the indices (n,) of users or items; a number may be given as text, and the other way round."""
        known = self.model.data.user_ids if role == "user" else self.model.data.item_ids
        return known.index_of(spell_like(ids, known.array), role=role, unknown=unknown, remedy=_REMEDIES[role])

    def find_users(
        self, ids: Iterable[Hashable], unknown: UnknownUser, events: Mapping[str, Sequence[str]]
    ) -> list[tuple[Hashable, dict[str, Any]]]:
        """Return each user's id, and what their query says of them: index, or basket.

        The baskets of those who have events (items, by user) that the model does not know hold these and their items.
        With "popular", those of others whom the model does not know are empty.
        """
        spelled = spell_like(ids, self.model.data.user_ids.array)
        found: list[tuple[Hashable, dict[str, Any]]] = []
        strange: list[Hashable] = []
        for one, user in zip(spelled, self.model.data.user_ids.find(spelled).tolist(), strict=True):
            own = self.model.data.items_of(user) if user >= 0 else _NOTHING
            new = events.get(str(one), ())
            basket = np.union1d(own, self.find("item", new, "skip")) if new else own
            if len(basket) > len(own) or (user < 0 and unknown == "popular"):
                found.append((one, {"basket": basket}))
            elif user >= 0:
                found.append((one, {"user": user}))
            else:
                strange.append(one)
        self.find("user", strange, "skip" if unknown == "popular" else unknown)  # names them if that is an error
        return found

    def filter(self, body: ListBody) -> tuple[Query, int]:
        """Return the query with the filters of a body, and the number of ids that the model does not know."""
        exclude, only = self.find("item", body.exclude, "skip"), None
        skipped = len(body.exclude) - len(exclude)
        if body.only is not None:
            wanted = spell_like(body.only, self.model.data.item_ids.array)
            only, more = skip_unknown(wanted, self.find("item", wanted, "skip"), self.model.data, "only")
            skipped += more
        if body.filter:
            allowed = self.table.select(body.filter)
            only = allowed if only is None else np.intersect1d(only, allowed)
        query = Query(k=body.k + body.offset, only=only, exclude=exclude if len(exclude) else None)
        return query._replace(diversity=body.diversity), skipped

    def own_items(self, user: int) -> NDArray[np.int64]:
        """Return the items (n,) that a user has, most popular first."""
        own = self.model.data.items_of(user).astype(np.int64)
        return own[np.argsort(-self.model.data.users_per_item[own], kind="stable")]

    def picture_of(self, item: int) -> Any:
        """Return the address of an item's picture; None if there is none."""
        return self.table.cells_of(item).get(self.pictures) if self.pictures else None

    def name_items(self, index: NDArray[np.int64]) -> list[ItemName]:
        """Return ids and names of items (n,)."""
        names, ids = self.model.data.item_names, self.model.data.item_ids.array[index].tolist()
        texts = [None] * len(ids) if names is None else [names[item] for item in index.tolist()]
        return [{"id": one, "name": name} for one, name in zip(ids, texts, strict=True)]

    def count_items(self, index: NDArray[np.int64]) -> list[CountedItem]:
        """Return ids, names and numbers of users of items (n,)."""
        counts = self.model.data.users_per_item[index].tolist()
        return [{**item, "users": count} for item, count in zip(self.name_items(index), counts, strict=True)]

    def count_users(self, index: NDArray[np.int64]) -> list[CountedUser]:
        """Return ids and numbers of items of users (n,)."""
        data = self.model.data
        counts, ids = data.indptr[index + 1] - data.indptr[index], data.user_ids.array[index]
        return [{"id": one, "items": count} for one, count in zip(ids.tolist(), counts.tolist(), strict=True)]


def stamp_files(options: ServeOptions) -> Stamp:
    """Return what changes when one of the served files is replaced; a missing file has zeros."""
    index = options.index if isinstance(options.index, list) else [options.index]
    states = [path.stat() if path.exists() else None for path in (options.model, *index, options.items) if path]
    return tuple((state.st_ino, state.st_size, state.st_mtime_ns) if state else (0, 0, 0) for state in states)
