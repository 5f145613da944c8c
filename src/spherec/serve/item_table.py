"""The table of items whose columns are filters: which items have a value, and which values an item has."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherec.data.ids import IdMap, spell_like
from spherec.data.read.item_tables import read_item_table
from spherec.errors import ArgumentError, DataError, describe_missing_column

Value = str | int | float | bool
"""A value of a column."""


class ItemTable:
    """Columns of items. A cell has one value, several (a list) or none.

    Args:
        columns: By column, the cells of all items (I,).
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._columns = columns
        self._items = {name: _collect(cells) for name, cells in columns.items()}

    @classmethod
    def read(cls, path: str | PathLike[str], item_ids: IdMap) -> "ItemTable":
        """Read the table in a file, and find the row of each item by its id; of rows with one id the last counts."""
        table, column = read_item_table(path)
        table = table.drop_nulls(column)
        items = item_ids.find(spell_like(map(str, table[column].to_list()), item_ids.array))  # (n,)
        rows = np.full(len(item_ids), -1)  # (I,) of each item
        rows[items[items >= 0]] = np.flatnonzero(items >= 0)
        if not (rows >= 0).any():
            raise DataError(f"{path} has none of the model's items; give the table of this model's items")
        columns = {name: [*map(_clean, table[name].to_list()), None] for name in table.columns if name != column}
        return cls({name: [cells[row] for row in rows.tolist()] for name, cells in columns.items()})

    @property
    def distinct(self) -> dict[str, int]:
        """Number of different values, by column."""
        return {name: len(items) for name, items in self._items.items()}

    def cells_of(self, item: int) -> dict[str, Any]:
        """Return the cells of an item, by column, without empty ones."""
        return {name: cells[item] for name, cells in self._columns.items() if cells[item] is not None}

    def select(self, filters: Mapping[str, Value | Sequence[Value]]) -> NDArray[np.int64]:
        """Return the items, ascending, that have, in every column named, the value or one of the values."""
        chosen: NDArray[np.int64] | None = None
        for name, wanted in filters.items():
            if name not in self._items:
                missing = describe_missing_column(name, list(self._items))
                raise ArgumentError(f"filter: {missing}" if self._items else "filter needs a table; start with --items")
            values = [wanted] if isinstance(wanted, Value) else wanted
            lists = [self._items[name].get(_to_key(value), _NONE) for value in values]
            some = np.unique(np.concatenate([_NONE, *lists]))
            chosen = some if chosen is None else np.intersect1d(chosen, some, assume_unique=True)
        return _NONE if chosen is None else chosen


_NONE = np.zeros(0, dtype=np.int64)


def _collect(cells: Sequence[Any]) -> dict[str, NDArray[np.int64]]:
    """Return the items (n,) that have each value, ascending."""
    found: dict[str, list[int]] = defaultdict(list)
    for item, cell in enumerate(cells):
        for value in cell if isinstance(cell, list) else [cell]:
            if value is not None:
                found[_to_key(value)].append(item)
    return {value: np.unique(np.array(members, dtype=np.int64)) for value, members in found.items()}


def _clean(cell: Any) -> Any:
    """Return a cell as JSON has it: empty texts and numbers that are not finite are missing."""
    if cell == "" or (isinstance(cell, float) and not math.isfinite(cell)):
        return None
    if isinstance(cell, list):
        return [value for value in map(_clean, cell) if value is not None]
    if isinstance(cell, dict):
        return {name: _clean(value) for name, value in cell.items()}
    return cell


def _to_key(value: object) -> str:
    """Return a value as text, so that 1998, 1998.0 and "1998" are one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
