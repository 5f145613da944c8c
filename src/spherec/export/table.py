"""The tables of an export: users or items with their ids, names and vectors, a block at a time; and what a format is.

Where items have reach, it is made a coordinate: items are [v, r, √(M² − r²)], users [u, λ, 0] with the model's λ. Then
the nearest by dot product, cosine or Euclidean distance are the model's lists, and another λ gives other lists.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.data.ids import IdMap
from spherec.errors import DataError, quote
from spherec.geometry import Constraint, Vectors, longest_reach, widen_items, widen_queries, widened_dim

_BLOCK = 8192  # rows at a time
_ODD = re.compile("[\0\ud800-\udfff]")  # NUL and halves of characters: Python strings hold them, other programs do not


@dataclass(frozen=True)
class ExportBlock:
    """Some rows of a table."""

    ids: list[int] | list[str]  # (n,)
    names: list[str | None]  # (n,) None where there is none
    vectors: NDArray[np.float32]  # (n, D), with reach (n, D + 2)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class ExportTable:
    """All users or all items."""

    kind: Literal["item", "user"]
    id_map: IdMap
    item_names: Sequence[str | None] | None  # None if there are none, or none are wanted
    model: Vectors

    def __len__(self) -> int:
        return len(self.id_map)

    @property
    def dim(self) -> int:
        """Dimensions of a vector: D, or D + 2 if items have reach."""
        return widened_dim(self.model)

    @property
    def dial_column(self) -> int | None:
        """Coordinate, counted from 0, that has λ in users and the reach in items; None if items have no reach."""
        return None if self.model.reach is None else self.model.dim

    @property
    def ids_are_integers(self) -> bool:
        """True if ids are written as 64-bit integers; else they are text."""
        return self.id_map.array.dtype == np.int64

    def blocks(self) -> Iterator[ExportBlock]:
        """Return all rows, some thousands at a time."""
        return (self._block(first, min(first + _BLOCK, len(self))) for first in range(0, len(self), _BLOCK))

    def _block(self, first: int, last: int) -> ExportBlock:
        ids = self.id_map.array[first:last].tolist()
        ids = ids if self.ids_are_integers else list(map(str, ids))
        odd = next((plain for plain in ids if isinstance(plain, str) and _ODD.search(plain)), None)
        if odd is not None:
            raise DataError(f"the {self.kind} id {quote(odd)} has a character that other programs cannot hold")
        names = [None] * (last - first) if self.item_names is None else self.item_names[first:last]
        clean = [None if name is None else _ODD.sub("\N{REPLACEMENT CHARACTER}", name) for name in names]
        model, reach, index = self.model, self.model.reach, torch.arange(first, last, device=self.model.device)
        rows = model.items(index) if self.kind == "item" else model.users(index)
        if reach is not None and self.kind == "item":
            rows = widen_items(rows, reach[index], longest_reach(reach))
        elif reach is not None:
            rows = widen_queries(rows, rows.new_full((len(rows),), model.mainstream))
        return ExportBlock(ids, clean, rows.cpu().numpy())


class ExportProgress:
    """Counts the rows that are written and reports them to `callback`, with the number of all rows."""

    def __init__(self, total: int, callback: Callable[[int, int], None] | None) -> None:
        self.done, self._total, self._callback = 0, total, callback

    def add(self, rows: int) -> None:
        """Count rows that were written."""
        self.done += rows
        if self._callback is not None:
            self._callback(self.done, self._total)


@dataclass(frozen=True)
class ExportFormat:
    """A file format. An object of the user's own class with a name, a suffix and `write` will do as well."""

    name: str
    suffix: str  # of its files, such as ".parquet"
    write: Callable[[Path, Sequence[ExportTable], Constraint, ExportProgress], None]
    ids_suffix: str | None = None  # of the second file of an index, which has the ids of its positions
