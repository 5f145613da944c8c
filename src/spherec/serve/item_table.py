"""The table of items whose columns are filters: which items have a value, and which values an item has."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherec.data.ids import IdMap, spell_like
from spherec.data.read.item_features import read_item_table
from spherec.errors import ArgumentError, DataError, describe_missing_column

Value = str | int | float | bool
"""A value of a column."""


class ItemTable:
    """Columns of items. A cell has one value, several (a list) or none.

    Args:
        columns: A cell for each of n rows, by column.
        rows: (I,) row of each item; -1 for items that are not in the table.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]], rows: NDArray[np.int64]) -> None:
        self._columns = columns
        self._rows = rows
        items = np.full(max(map(len, columns.values()), default=0), -1)  # (n,) item of each row
        items[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
        self._items = {name: _collect(cells, items) for name, cells in columns.items()}

    @classmethod
    def read(cls, path: str | PathLike[str], item_ids: IdMap) -> "ItemTable":
        """Read the table in a file, and find the row of each item by its id; of rows with one id the last counts."""
        table, column = read_item_table(path)
        table = table.drop_nulls(column)
        columns = {name: list(map(_clean, table[name].to_list())) for name in table.columns if name != column}
        rows = np.full(len(item_ids), -1)
        items = item_ids.find(spell_like(map(str, table[column].to_list()), item_ids.array))  # (n,)
        known = np.flatnonzero(items >= 0)
        if not len(known):
            raise DataError(f"{path} has none of the model's items; give the table of this model's items")
        rows[items[known]] = known
        return cls(columns, rows)

    @property
    def distinct(self) -> dict[str, int]:
        """Number of different values, by column."""
        return {name: len(items) for name, items in self._items.items()}

    def cells_of(self, item: int) -> dict[str, Any]:
        """Return the cells of an item, by column, without empty ones."""
        row = int(self._rows[item])
        cells = {} if row < 0 else {name: cells[row] for name, cells in self._columns.items()}
        return {name: cell for name, cell in cells.items() if cell is not None}

    def select(self, filters: Mapping[str, Value | Sequence[Value]]) -> NDArray[np.int64]:
        """Return the items, ascending, that have, in every column named, the value or one of the values."""
        chosen: NDArray[np.int64] | None = None
        for name, wanted in filters.items():
            if name not in self._items:
                raise ArgumentError(f"filter: {describe_missing_column(name, list(self._items))}")
            values = [wanted] if isinstance(wanted, Value) else wanted
            lists = [self._items[name].get(_to_key(value), _NONE) for value in values]
            some = np.unique(np.concatenate([_NONE, *lists]))
            chosen = some if chosen is None else np.intersect1d(chosen, some, assume_unique=True)
        return _NONE if chosen is None else chosen


_NONE = np.zeros(0, dtype=np.int64)


def _collect(cells: Sequence[Any], items: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Return the items (n,) that have each value, ascending."""
    found: dict[str, list[int]] = defaultdict(list)
    for item, cell in zip(items.tolist(), cells, strict=True):
        if item >= 0 and cell is not None:
            for value in cell if isinstance(cell, list) else [cell]:
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
