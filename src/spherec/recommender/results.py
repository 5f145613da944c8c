"""The answers of a model: lists of records, to be read one by one, as a data frame, or from a file."""

import csv
import io
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from spherec.data.ids import Ids, list_ids
from spherec.data.interactions import Interactions
from spherec.data.notebook_table import NotebookTable
from spherec.data.output_files import atomic_write, refuse_unwritable, temporary_folder
from spherec.errors import ArgumentError, MissingPackageError, require_polars
from spherec.ranking import Ranking

if TYPE_CHECKING:
    import polars as pl  # imported where it is used: a machine that only trains has none

_SHOWN = 10  # records in a representation
_BLOCK = 1024  # users at once


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


@dataclass(frozen=True, repr=False)
class Results(NotebookTable, Sequence[_Record], Generic[_Record]):
    """Records of one kind, list after list, each list best first."""

    kind: Callable[..., _Record]
    "One of the four above."
    columns: Mapping[str, Sequence[Any]]
    "The columns of the table, by name."
    fallback: tuple[Hashable, ...] | None = None
    """Users whose lists have the most popular items, because the model does not know them (None: a user without an id);
    their scores are numbers of users. None if nobody asked for such lists."""

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return the records as plain dictionaries."""
        return [dict(zip(self.columns, values, strict=True)) for values in zip(*self.columns.values(), strict=True)]

    def to_polars(self) -> "pl.DataFrame":
        """Return a polars data frame with a row for each record."""
        require_polars("to_polars")
        import polars as pl

        types = {"rank": pl.Int64, "name": pl.String, "score": pl.Float32}
        return pl.DataFrame(
            self.columns, schema_overrides={name: types[name] for name in types if name in self.columns}
        )

    def to_pandas(self) -> Any:
        """Return a pandas data frame with a row for each record."""
        try:
            import pandas as pd  # type: ignore[import-untyped]
        except ImportError:
            raise MissingPackageError("to_pandas needs pandas; install it with: pip install pandas") from None
        return pd.DataFrame(self.columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Iterator[_Record]:
        return map(self.kind, *self.columns.values())

    @overload
    def __getitem__(self, index: int) -> _Record: ...
    @overload
    def __getitem__(self, index: slice) -> "Results[_Record]": ...
    def __getitem__(self, index: int | slice) -> "_Record | Results[_Record]":
        values = [column[index] for column in self.columns.values()]
        if isinstance(index, slice):
            return replace(self, columns=dict(zip(self.columns, values, strict=True)))
        return self.kind(*values)

    def __repr__(self) -> str:
        lines = [f"  {record!r}" for record in self[:_SHOWN]]
        more = [f"  … {len(self) - _SHOWN:,} more"] if len(self) > _SHOWN else []
        return "\n".join([f"{len(self):,} {self.kind.__name__}", *lines, *more])


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

    `listed` is the field with the ids that are listed, `asked` has the ids (B,) of those whom the lists are for.
    """
    query, place = np.nonzero(ranking.items >= 0)  # (n,)
    index, names = ranking.items[query, place], data.item_names
    columns: dict[str, list[Any]] = {name: ids[query].tolist() for name, ids in asked.items()}
    columns |= {"rank": (place + 1).tolist(), "score": ranking.scores[query, place].tolist()}
    columns[listed] = (data.user_ids if kind is SimilarUser else data.item_ids).array[index].tolist()
    if kind is not SimilarUser:
        columns["name"] = [None if names is None else names[item] for item in index.tolist()]
    return Results(kind, {name: columns[name] for name in kind._fields})  # type: ignore[attr-defined]


def write_results(path: str | PathLike[str], blocks: Iterator[Results[Recommended]], data: Interactions) -> int:
    """Write the lists of users of `data` atomically as one table, block by block; return the number of rows."""
    refuse_unwritable(path)
    if Path(path).suffix == ".parquet":
        return _write_parquet(path, (to_table(block, data) for block in blocks))
    if Path(path).suffix != ".csv":
        raise ArgumentError(f"{path} must end in .parquet or .csv, which says what to write")
    rows = 0
    with atomic_write(path) as file:
        for number, block in enumerate(blocks):
            text = io.StringIO(newline="")
            table = mark_fallback(block)
            csv.writer(text).writerows([] if number else [table])
            csv.writer(text).writerows(zip(*table.values(), strict=True))
            file.write(text.getvalue().encode())
            rows += len(block)
    return rows


def answer_in_blocks(
    recommend: Callable[[Ids], Results[Recommended]], users: Ids, progress: Callable[[int], None] | None = None
) -> Iterator[Results[Recommended]]:
    """Yield the lists of some users at a time; one empty block if there are none."""
    users = list_ids(users)
    for first in range(0, max(len(users), 1), _BLOCK):
        block = users[first : first + _BLOCK]
        yield recommend(block)
        if progress is not None:
            progress(first + len(block))


def mark_fallback(results: Results[Recommended]) -> dict[str, Sequence[Any]]:
    """Return the columns; one more says "popular" for lists of the most popular items, if such lists were asked for."""
    if results.fallback is None:
        return dict(results.columns)
    marks = dict.fromkeys(results.fallback, "popular")
    return {**results.columns, "fallback": [marks.get(user) for user in results.columns["user"]]}


def to_table(results: Results[Recommended], data: Interactions) -> "pl.DataFrame":
    """Return lists as a data frame whose types depend on the ids of the data, and not on the rows."""
    import polars as pl

    types = {np.dtype(object): pl.String, np.dtype(np.uint64): pl.UInt64}
    ids = {"user": data.user_ids, "item": data.item_ids}
    table = results.to_polars().cast({name: types.get(known.array.dtype, pl.Int64) for name, known in ids.items()})
    marks = mark_fallback(results).get("fallback")
    return table if marks is None else table.with_columns(pl.Series("fallback", marks, pl.String))


def _write_parquet(path: str | PathLike[str], tables: Iterator["pl.DataFrame"]) -> int:
    """Write parts and stream them into one file, because polars cannot append to a file."""
    require_polars("writing Parquet")
    import polars as pl

    rows = 0
    with temporary_folder(path) as folder:
        parts: list[Path] = []
        for table in tables:
            parts.append(folder / f"{len(parts)}.parquet")
            table.write_parquet(parts[-1])
            rows += len(table)
        with atomic_write(path) as file:
            pl.scan_parquet(parts, glob=False).sink_parquet(file)  # a name may hold [ or *
    return rows
