"""What is exported: users or items with their ids, names and vectors, a block at a time."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spherec.data.files import json_text
from spherec.data.ids import IdMap
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError
from spherec.geometry import DenseVectors

What = Literal["items", "users", "both"]
Plain = list[int] | list[str]

_BLOCK = 8192  # rows at a time
_CONTAINERS = (bytes, tuple, frozenset)  # their plain text would not tell them apart, or not be the same each time
_HALVES = re.compile("[\ud800-\udfff]")  # of characters: Python strings may hold them, no other text may


@dataclass(frozen=True)
class Rows:
    """All users or all items."""

    kind: Literal["item", "user"]
    ids: IdMap
    names: Sequence[str | None] | None
    vectors: NDArray[np.float32]
    "(n, D)"

    def __len__(self) -> int:
        return len(self.vectors)

    def blocks(self) -> Iterator[slice]:
        """All rows, some thousands at a time."""
        for first in range(0, len(self), _BLOCK):
            yield slice(first, min(first + _BLOCK, len(self)))

    @cached_property
    def ids_are_integers(self) -> bool:
        """Whether ids are written as 64-bit integers; else they are text."""
        values = self.ids.array
        return values.dtype.kind == "i" or (values.dtype.kind == "u" and bool((values < 1 << 63).all()))

    def plain_ids(self, part: slice) -> Plain:
        """The ids of some rows as integers, or all as text.

        Strings stay what they are. Ids of another kind become what Python prints for them (2024-01-31, 1.5, a UUID);
        bytes, tuples, sets and ids of several kinds become JSON that carries their types: ["tuple", [["int", "1"], …]].
        """
        if self.ids_are_integers:
            return self.ids.array[part].tolist()  # type: ignore[no-any-return]
        return list(map(str if self._one_kind else json_text, self.ids[part]))

    @cached_property
    def _one_kind(self) -> bool:
        values = self.ids.array
        kinds = {values.dtype.type} if values.dtype != object else set(map(type, values))
        return len(kinds) < 2 and not kinds & set(_CONTAINERS)

    def names_of(self, part: slice) -> list[str | None]:
        """The names of some rows."""
        first, last, _ = part.indices(len(self))
        return [None] * (last - first) if self.names is None else list(self.names[part])


def rows_of(vectors: DenseVectors, data: Interactions, what: What, *, names: bool) -> list[Rows]:
    """Items, users, or both in this order; `names` says whether items take their names along."""
    if what not in ("items", "users", "both"):
        raise ArgumentError(f"what must be 'items', 'users' or 'both', got {what!r}")
    users, items = (table.cpu().numpy() for table in (vectors.user_table, vectors.item_table))
    if (len(users), len(items)) != (data.n_users, data.n_items):
        raise ArgumentError(
            f"there are vectors of {len(users):,} users and {len(items):,} items, but ids of {data.n_users:,} and "
            f"{data.n_items:,}; give the data that the model was trained on"
        )
    both = [
        Rows("item", data.item_ids, data.item_names if names else None, items),
        Rows("user", data.user_ids, None, users),
    ]
    return [rows for rows in both if what in ("both", f"{rows.kind}s")]


def refuse_unwritable_ids(ids: Plain, kind: str, target: str, *, nul: bool = True) -> None:
    """Raise a `DataError` for the first id that UTF-8 cannot hold, or a NUL character where `nul` is not allowed."""
    for one in ids:
        if isinstance(one, str) and (_HALVES.search(one) or ("\0" in one and not nul)):
            raise DataError(f"the {kind} id {one!r} has a character that {target} cannot hold; export to npz instead")


def writable_name(name: str, *, nul: bool = True) -> str:
    """The name with `\N{REPLACEMENT CHARACTER}` for what UTF-8 cannot hold, and for NUL where it is not allowed."""
    clean = _HALVES.sub("\N{REPLACEMENT CHARACTER}", name)
    return clean if nul else clean.replace("\0", "\N{REPLACEMENT CHARACTER}")
