"""One version of the model as it is served: the model, its table of items, and the search by name. It never changes."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spherec.data.ids import IdMap, Unknown
from spherec.errors import ArgumentError, UnknownIdError, enumerate_ids, quote
from spherec.ranking import ExactRanker
from spherec.recommender import CML
from spherec.serve.item_table import ItemTable
from spherec.serve.name_search import NameSearch
from spherec.serve.options import ServeOptions

Stamp = tuple[tuple[int, int, int], ...]
"""Inode, size and time of the files that a version was loaded from."""


@dataclass(frozen=True)
class ServedModel:
    """One version of the model, and what is derived from it for the server."""

    model: CML
    "The model."
    checksum: str
    "Checksum of its file, by which answers name it."
    loaded: datetime
    "Time at which it was loaded."
    exact: ExactRanker
    "Ranks items without an index: for reasons and filters."
    table: ItemTable | None
    "Columns of the items, if a table was given."
    items: NameSearch
    "Search of items."
    users: NameSearch
    "Search of users."
    stamp: Stamp
    "State of the files before they were read."

    @classmethod
    def load(cls, options: ServeOptions) -> "ServedModel":
        """Load the files that the options name, mapped into memory so that processes share them."""
        stamp = stamp_files(options)
        model = CML.load(options.model, index=options.index or False, mmap=True, device="cpu")
        data = model.data
        for ids in (data.user_ids, data.item_ids):
            ids.parse([""], unknown="skip")  # makes both of its dictionaries, which the first request would wait for
        if data.n_items:
            model.place(np.zeros(1, dtype=np.int64))  # draws the negatives of fold-in
        counts = np.diff(data.indptr).astype(np.int64)  # (U,)
        return cls(
            model,
            model.artifact.checksum or "unsaved",
            datetime.now(UTC),
            ExactRanker(model.vectors),
            None if options.items is None else ItemTable.read(options.items, data.item_ids),
            NameSearch([str(one) for one in data.item_ids], data.item_names, data.users_per_item),
            NameSearch([str(one) for one in data.user_ids], None, counts),
            stamp,
        )

    def find_users(self, ids: Iterable[Hashable], unknown: Unknown = "error") -> NDArray[np.int64]:
        """Return the indices (n,) of users."""
        return _find(self.model.data.user_ids, ids, "user", unknown)

    def find_items(self, ids: Iterable[Hashable], unknown: Unknown = "error") -> NDArray[np.int64]:
        """Return the indices (n,) of items."""
        return _find(self.model.data.item_ids, ids, "item", unknown)

    def select(self, filters: Mapping[str, Any]) -> NDArray[np.int64]:
        """Return the items that pass a filter, ascending."""
        if self.table is None:
            name = quote(next(iter(filters), ""))
            raise ArgumentError(
                f"filter: there is no column {name}, because no table is served; start with --items FILE"
            )
        return self.table.select(filters)

    def describe_items(self, index: NDArray[np.int64]) -> list[dict[str, Any]]:
        """Return ids and names of items (n,)."""
        data = self.model.data
        names, ids = data.item_names, data.item_ids.array[index].tolist()
        texts: Sequence[str | None] = [None] * len(ids) if names is None else [names[item] for item in index.tolist()]
        return [{"id": to_json(one), "name": name} for one, name in zip(ids, texts, strict=True)]


def stamp_files(options: ServeOptions) -> Stamp:
    """Return what changes when one of the served files is replaced; a missing file has zeros."""
    index = options.index if isinstance(options.index, list) else [options.index]
    return tuple(_stamp(path) for path in (options.model, *index, options.items) if path is not None)


def to_json(external: Hashable) -> str | int | float:
    """Return an id as JSON has it: numbers and texts as they are, everything else as `str` writes it."""
    if isinstance(external, str) or (
        isinstance(external, int | float) and not isinstance(external, bool) and abs(external) < math.inf
    ):
        return external
    return str(external)


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_size, status.st_mtime_ns


def _find(known: IdMap, ids: Iterable[Hashable], role: Literal["user", "item"], unknown: Unknown) -> NDArray[np.int64]:
    """Return the indices (n,) of ids; one that is not known as it is may be the text of an id of another type."""
    wanted = list(ids)
    index = known.find(wanted)  # (n,)
    for place in np.flatnonzero(index < 0).tolist():
        matches = known.parse([str(wanted[place])], unknown="skip")
        if matches:
            index[place] = known.find(matches)[0]
    if unknown == "skip":
        return index[index >= 0]
    strangers = [wanted[place] for place in np.flatnonzero(index < 0).tolist()]
    if strangers:
        verb = "is" if len(strangers) == 1 else "are"
        raise UnknownIdError(
            f"{role} {enumerate_ids(strangers)} {verb} not among the {len(known):,} {role}s of the model"
        )
    return index
