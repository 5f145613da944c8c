"""The tables of an export: users or items with their ids, names and vectors, a block at a time.

Where items have reach, it is made a coordinate: items are [v, r, √(M² − r²)], users [u, λ, 0] with the model's λ. Then
the nearest by dot product, cosine or Euclidean distance are the model's lists, and another λ gives other lists.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.data.ids import IdMap
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError, quote
from spherec.geometry import Vectors, longest_reach, widen_items, widen_queries, widened_dim

What = Literal["items", "users", "both"]
"""The vectors to export."""

_BLOCK = 8192  # rows at a time
_HALVES = re.compile("[\ud800-\udfff]")  # of characters: Python strings may hold them, no other text may


class ExportProgress:
    """Counts the rows that are written and reports them to `callback`, with the number of all rows."""

    def __init__(self, total: int, callback: Callable[[int, int], None] | None) -> None:
        self._done, self._total, self._callback = 0, total, callback

    def add(self, rows: int) -> None:
        """Count rows that were written."""
        self.reach(self._done + rows)

    def reach(self, done: int) -> None:
        """Set the number of rows that were written."""
        self._done = done
        if self._callback is not None:
            self._callback(self._done, self._total)


@dataclass(frozen=True)
class ExportTable:
    """All users or all items."""

    kind: Literal["item", "user"]
    "Kind of the rows."
    id_map: IdMap
    "External ids."
    item_names: Sequence[str | None] | None
    "Names of items; None if there are none, or none are wanted."
    vectors: Vectors
    "Vectors of users and items."

    def __len__(self) -> int:
        return len(self.id_map)

    @property
    def dim(self) -> int:
        """Dimensions of a vector: D, or D + 2 if items have reach."""
        return widened_dim(self.vectors)

    @property
    def dial_column(self) -> int | None:
        """Coordinate, counted from 0, that has λ in users and the reach in items; None if items have no reach."""
        return None if self.vectors.reach is None else self.vectors.dim

    @property
    def has_names(self) -> bool:
        """True if rows have names."""
        return self.item_names is not None

    @property
    def ids_are_integers(self) -> bool:
        """True if ids are written as 64-bit integers; else they are text."""
        return self.id_map.array.dtype == np.int64

    def blocks(self) -> Iterator["ExportBlock"]:
        """Yield all rows, some thousands at a time."""
        for first in range(0, len(self), _BLOCK):
            yield ExportBlock(self, first, min(first + _BLOCK, len(self)))


@dataclass(frozen=True)
class ExportBlock:
    """Some rows of a table. Each part is made when it is asked for."""

    table: ExportTable
    "The table."
    first: int
    "Index of the first row."
    last: int
    "Index after the last row."

    def __len__(self) -> int:
        return self.last - self.first

    @property
    def ids(self) -> list[int] | list[str]:
        """The ids (n,), all integers or all text."""
        ids = self.table.id_map.array[self.first : self.last].tolist()
        return ids if self.table.ids_are_integers else list(map(str, ids))

    @property
    def names(self) -> list[str | None]:
        """The names (n,), None where there is none."""
        names = self.table.item_names
        return [None] * len(self) if names is None else list(names[self.first : self.last])

    @property
    def vectors(self) -> NDArray[np.float32]:
        """The vectors (n, D), with reach (n, D + 2)."""
        vectors, reach = self.table.vectors, self.table.vectors.reach
        index = torch.arange(self.first, self.last, device=vectors.device)
        rows = vectors.items(index) if self.table.kind == "item" else vectors.users(index)
        if reach is not None and self.table.kind == "item":
            rows = widen_items(rows, reach[index], longest_reach(reach))
        elif reach is not None:
            rows = widen_queries(rows, rows.new_full((len(rows),), vectors.mainstream))
        return rows.cpu().numpy()


def make_export_tables(vectors: Vectors, data: Interactions, what: What, *, names: bool) -> list[ExportTable]:
    """Return the tables of items, users, or both in this order; `names` says whether items have their names."""
    if what not in get_args(What):
        raise ArgumentError(f"what must be 'items', 'users' or 'both', got {quote(what)}")
    if (vectors.n_users, vectors.n_items) != (data.n_users, data.n_items):
        raise ArgumentError(
            f"there are vectors of {vectors.n_users:,} users and {vectors.n_items:,} items, but ids of "
            f"{data.n_users:,} and {data.n_items:,}; give the data that the model was trained on"
        )
    items = ExportTable("item", data.item_ids, data.item_names if names else None, vectors)
    users = ExportTable("user", data.user_ids, None, vectors)
    return [table for table in (items, users) if what in ("both", f"{table.kind}s")]


def refuse_unwritable_ids(block: ExportBlock, target: str, *, nul: bool = True) -> None:
    """Raise a `DataError` for an id that UTF-8 cannot hold, or with a NUL character unless `nul` is allowed."""
    for plain in block.ids:
        if isinstance(plain, str) and (_HALVES.search(plain) or ("\0" in plain and not nul)):
            kind = block.table.kind
            raise DataError(
                f"the {kind} id {quote(plain)} has a character that {target} cannot hold; export to npz instead"
            )


def clean_name(name: str, *, nul: bool = True) -> str:
    """Return the name with `\N{REPLACEMENT CHARACTER}` for what UTF-8 cannot hold, and for NUL unless it is allowed."""
    clean = _HALVES.sub("\N{REPLACEMENT CHARACTER}", name)
    return clean if nul else clean.replace("\0", "\N{REPLACEMENT CHARACTER}")
