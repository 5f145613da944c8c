"""The table of items whose columns are filters: which items have a value, and which values an item has."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from spherec.data.ids import IdMap, spell_like
from spherec.data.read.item_tables import read_item_table
from spherec.errors import ArgumentError, DataError, describe_missing_column, enumerate_ids, quote, suggest
from spherec.lazy import Lazy

Value = str | int | float | bool
"""A value of a column."""

Bounds = Mapping[Literal["<", "<=", ">", ">="], float | str]
"""A range: numbers, or texts such as dates, which are compared letter by letter."""

Condition = Value | Sequence[Value] | Bounds
"""Condition on a cell: it has a value, one of several, or one in a range."""

_BOOLEANS = {"true": "true", "1": "true", "yes": "true", "false": "false", "0": "false", "no": "false"}
_NONE = np.zeros(0, dtype=np.int64)


class ItemTable:
    """Columns of items. A cell has one value, several (a list, or a text such as "Comedy|Drama") or none.

    Args:
        columns: By column, the cells of all items (I,).
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._cells = columns
        self._columns = {name: _Column(name, cells) for name, cells in columns.items()}

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
        return {name: len(column.items) for name, column in self._columns.items()}

    def group(self, name: str) -> dict[str, NDArray[np.int64]]:
        """Return the items (n,) that have each value of a column."""
        if name not in self._columns:
            raise ArgumentError(describe_missing_column(name, list(self._columns)))
        return self._columns[name].items

    def cells_of(self, item: int) -> dict[str, Any]:
        """Return the cells of an item, by column, without empty ones."""
        return {name: cells[item] for name, cells in self._cells.items() if cells[item] is not None}

    def select(self, filters: Mapping[str, Condition]) -> NDArray[np.int64]:
        """Return the items, ascending, whose cells meet the condition in every column named.

        A value that no item has is an `ArgumentError` that names some that there are.
        """
        chosen: NDArray[np.int64] | None = None
        for name, wanted in filters.items():
            if name not in self._columns:
                missing = describe_missing_column(name, list(self._columns))
                raise ArgumentError(
                    f"filter: {missing}" if self._columns else "filter needs a table; start with --items"
                )
            column = self._columns[name]
            if isinstance(wanted, Mapping):
                some = column.within(wanted)
            else:
                values = [wanted] if isinstance(wanted, Value) else wanted
                some = np.unique(np.concatenate([_NONE, *map(column.find, values)]))
            chosen = some if chosen is None else np.intersect1d(chosen, some, assume_unique=True)
        return _NONE if chosen is None else chosen


class _Column:
    """The values of a column and the items that have them."""

    def __init__(self, name: str, cells: Sequence[Any]) -> None:
        entries = [(key, item) for item, cell in enumerate(cells) for key in _read_keys(cell)]
        self.name, kinds = name, {key.casefold() for key, _ in entries}
        self.is_boolean = bool(kinds) and kinds <= _BOOLEANS.keys()
        if self.is_boolean:  # True, "True", "yes" and 1 are one value
            entries = [(_BOOLEANS[key.casefold()], item) for key, item in entries]
        members: dict[str, list[int]] = defaultdict(list)
        for key, item in entries:
            members[key].append(item)
        self.items = {key: np.unique(np.array(own, dtype=np.int64)) for key, own in members.items()}
        self._entries = entries

    @Lazy
    def _numbers(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Values (e,) that are numbers, ascending, and their items (e,)."""
        return _unzip(sorted((number, item) for key, item in self._entries if (number := _to_number(key)) is not None))

    @Lazy
    def _texts(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """All values (e,) as texts, ascending, and their items (e,)."""
        return _unzip(sorted(self._entries))

    def find(self, value: Value) -> NDArray[np.int64]:
        """Return the items (n,) that have the value."""
        key = _to_key(value)
        key = _BOOLEANS.get(key.casefold(), key) if self.is_boolean else key
        if key not in self.items and not (self.is_boolean and key in _BOOLEANS):  # all may be sold out
            some = enumerate_ids(list(self.items)) or "none"
            hint = suggest(key, self.items)
            raise ArgumentError(f"filter: no item has {quote(value)} in {quote(self.name)}{hint}; there are {some}")
        return self.items.get(key, _NONE)

    def within(self, bounds: Bounds) -> NDArray[np.int64]:
        """Return the items (n,) that have a value in a range."""
        kinds = {str if isinstance(bound, str) else float for bound in bounds.values()}
        if len(kinds) != 1:
            raise ArgumentError(f"filter: a range of {quote(self.name)} needs bounds, all numbers or all texts")
        values, items = self._texts if kinds == {str} else self._numbers
        first, past = 0, len(items)
        for sign, bound in bounds.items():
            at = int(np.searchsorted(values, cast("Any", bound), "left" if sign in ("<", ">=") else "right"))
            first, past = (first, min(past, at)) if sign in ("<", "<=") else (max(first, at), past)
        if first >= past:
            wanted = " and ".join(f"{sign} {quote(bound)}" for sign, bound in bounds.items())
            there = (
                f"they go from {quote(values[0])} to {quote(values[-1])}" if len(values) else "it has no such values"
            )
            raise ArgumentError(f"filter: no item has {quote(self.name)} {wanted}; {there}")
        return np.unique(items[first:past])


def _unzip(entries: Sequence[tuple[Any, int]]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    values = np.fromiter((value for value, _ in entries), dtype=object, count=len(entries))
    return values, np.array([item for _, item in entries], dtype=np.int64)


def _read_keys(cell: Any) -> Iterator[str]:
    """Yield the values of a cell as texts; one with | has several."""
    for value in cell if isinstance(cell, list) else [cell]:
        if isinstance(value, str) and "|" in value:
            yield from filter(None, map(str.strip, value.split("|")))
        elif value is not None:
            yield _to_key(value)


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


def _to_number(key: str) -> float | None:
    """Return a value as a number; None for a text."""
    try:
        number = float(key)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
