"""The answers of a model: lists of records, to be read one by one or as a data frame."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from spherec.data.interactions import Interactions
from spherec.errors import MissingPackageError, require_polars
from spherec.ranking import Ranking

if TYPE_CHECKING:
    import polars as pl  # imported where it is used: a machine that only trains has none

_SHOWN = 10  # records in a representation


class Recommended(NamedTuple):
    """One item for one user."""

    user: Hashable
    "None for a user without an id."
    rank: int
    "1 is the nearest."
    item: Hashable
    name: str | None
    score: float
    "1 − d²/2, on the sphere the dot product; 1 means the same place."


class SimilarItem(NamedTuple):
    """One neighbour of an item."""

    item: Hashable
    rank: int
    similar: Hashable
    name: str | None
    "Name of the neighbour."
    score: float


class SimilarUser(NamedTuple):
    """One neighbour of a user."""

    user: Hashable
    rank: int
    similar: Hashable
    score: float


class Reason(NamedTuple):
    """One of a user's own items, and how near it is to the item in question."""

    user: Hashable
    item: Hashable
    rank: int
    because: Hashable
    name: str | None
    "Name of the user's own item."
    score: float


_Record = TypeVar("_Record")


class Results(Sequence[_Record], Generic[_Record]):
    """Records of one kind, list after list, each list best first."""

    def __init__(self, kind: Callable[..., _Record], columns: Mapping[str, Sequence[Any]]) -> None:
        self._kind = kind  # one of the four above
        self._columns = {name: columns[name] for name in kind._fields}  # type: ignore[attr-defined]

    @property
    def columns(self) -> dict[str, Sequence[Any]]:
        """The columns of the table, by name."""
        return dict(self._columns)

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return the records as plain dictionaries."""
        names = list(self._columns)
        return [dict(zip(names, values, strict=True)) for values in zip(*self._columns.values(), strict=True)]

    def to_polars(self) -> "pl.DataFrame":
        """Return a polars data frame with a row for each record."""
        require_polars("to_polars")
        import polars as pl

        types = {"rank": pl.Int64, "name": pl.String, "score": pl.Float32}
        return pl.DataFrame(
            self._columns, schema_overrides={name: types[name] for name in types if name in self._columns}
        )

    def to_pandas(self) -> Any:
        """Return a pandas data frame with a row for each record."""
        try:
            import pandas as pd  # type: ignore[import-untyped]
        except ImportError:
            raise MissingPackageError("to_pandas needs pandas; install it with: pip install pandas") from None
        return pd.DataFrame(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __iter__(self) -> Iterator[_Record]:
        return map(self._kind, *self._columns.values())

    @overload
    def __getitem__(self, index: int) -> _Record: ...
    @overload
    def __getitem__(self, index: slice) -> "Results[_Record]": ...
    def __getitem__(self, index: int | slice) -> "_Record | Results[_Record]":
        if isinstance(index, slice):
            return Results(self._kind, {name: values[index] for name, values in self._columns.items()})
        return self._kind(*(values[index] for values in self._columns.values()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Results):
            return NotImplemented
        return self._kind is other._kind and self._columns == other._columns

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        lines = [f"  {record!r}" for record in self[:_SHOWN]]
        more = [f"  … {len(self) - _SHOWN:,} more"] if len(self) > _SHOWN else []
        return "\n".join([f"{len(self):,} {self._kind.__name__}", *lines, *more])


def merge_lists(parts: Iterable[Results[Recommended]], k: int) -> Results[Recommended]:
    """Return the lists of the k best items, out of those that parts of a model with different items gave to users."""
    found: dict[Hashable, list[Recommended]] = {}
    for part in parts:
        for record in part:
            found.setdefault(record.user, []).append(record)
    best = [sorted(records, key=lambda record: -record.score)[:k] for records in found.values()]
    merged = [record._replace(rank=rank) for records in best for rank, record in enumerate(records, start=1)]
    return Results(Recommended, {name: [getattr(record, name) for record in merged] for name in Recommended._fields})


def tabulate(
    kind: Callable[..., _Record], listed: str, ranking: Ranking, data: Interactions, **asked: NDArray[Any]
) -> Results[_Record]:
    """Return lists (B, K) of items, or of users if the records have no name, as records with their ids.

    Args:
        kind: The kind of record.
        listed: Its field with the ids that are listed.
        ranking: The lists; places without an item are dropped.
        data: The ids and names.
        asked: (B,) The ids of those whom the lists are for, by field.
    """
    query, place = np.nonzero(ranking.items >= 0)  # (n,)
    index = ranking.items[query, place]
    columns: dict[str, list[Any]] = {name: ids[query].tolist() for name, ids in asked.items()}
    columns |= {"rank": (place + 1).tolist(), "score": ranking.scores[query, place].tolist()}
    if kind is SimilarUser:
        return Results(kind, columns | {listed: data.user_ids.array[index].tolist()})
    names = data.item_names
    columns["name"] = [None if names is None else names[item] for item in index.tolist()]
    return Results(kind, columns | {listed: data.item_ids.array[index].tolist()})
