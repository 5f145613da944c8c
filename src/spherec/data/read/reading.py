"""`read`: files of events become `Interactions`. Importing this brings no polars."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from spherec.data.container import import_guest, kind_of
from spherec.data.cuts import Cut
from spherec.data.events import Duplicates, Events
from spherec.data.interactions import Interactions
from spherec.data.read.formats import (
    Columns,
    FormatName,
    Missing,
    Paths,
    Reading,
    ReadProgress,
    list_files,
    refuse_without_polars,
)
from spherec.errors import DataError

if TYPE_CHECKING:
    from spherec.data.read.collector import Collector  # brings polars


def read(
    path: Paths,
    *,
    user: str = "user",
    item: str = "item",
    value: str | None = None,
    time: str | None = None,
    time_format: str | None = None,
    name: str | None = None,
    format: FormatName = "auto",
    header: Sequence[str] | None = None,
    separator: str | None = None,
    quotes: bool | None = None,
    encoding: str = "utf-8",
    missing: Missing = "error",
    duplicates: Duplicates | None = None,
    cut: Cut | None = None,
    items: str | PathLike[str] | Iterable[Hashable] | None = None,
    weigh: bool | None = None,
    progress: ReadProgress | None = None,
) -> Interactions:
    """Read interactions from a file: a table with a column of users and one of items, or a known format.

    Args:
        path: CSV, TSV or JSON lines, plain or gzipped; Parquet; a sparse matrix that scipy saved; what
            `Interactions.save` or `save_partitions` wrote. A folder, a pattern such as "plays/part-*.csv" (both sorted
            by name) or a list of paths stands for several files of one format, which are read as one: equal ids are
            the same user or item.
        user: The column with the external ids of users. Ids in text files are strings: "007" is not 7. Where a table
            has no column of this default name, usual names (userId, reviewerID, …) are recognised.
        item: The column with the external ids of items; likewise (movieId, asin, …).
        value: A column with ratings or counts, used by `cut`. What passes the cut is an interaction. If the table
            seems to have such a column, but it is not named here, an `UnreadValuesWarning` is issued. If a format has
            ratings and `cut` has no `min_value`, an `UncutValuesWarning` says that low ratings count, too.
        time: A column with numbers or dates, for splits by time.
        time_format: The pattern of dates that are not ISO, for strptime: "%m %d, %Y".
        name: A column with the names of items; where an item has several, the last one counts.
        format: "auto" goes by the file's content; the first of `steps` says what it was taken for. The formats of the
            field ("book-crossing", "movielens", "netflix", …; see `spherec data prepare --help`) know their own
            columns.
        header: The names of all columns, for delimited text that has none in its first line.
        separator: The separator of columns; tab, comma, semicolon, | and :: are recognised by default.
        quotes: Whether double quotes enclose fields. By default they do, unless the file is tab-separated and its
            header has none; False takes them for ordinary characters.
        encoding: The encoding of a text file.
        missing: "error" refuses rows without user or item; "drop" leaves them out and counts them in `steps`.
        duplicates: How repeated pairs are merged: "last" (default for ratings), "sum" (default without values:
            repeats are counted) or "error". Without a choice, a `DuplicatePairsWarning` names their number.
        cut: Which events count, e.g. `Cut(min_value=4, min_per_user=20)`; by default all.
        items: The ids of all items, or a file with them (a table, item names, or one id a line): items that nobody
            has are then kept, too.
        weigh: Keep the ratings or counts, and weigh pairs by them in training. By default only if the file is prepared
            with weights; False leaves those out.
        progress: Called with the bytes read so far and in all.

    Raises:
        DataError: The file cannot be used; the message names the line or column, the value and the remedy.
    """
    reading = Reading(
        format=format,
        columns=Columns(user, item, value, time, time_format),
        header=tuple(header) if header else None,
        separator=separator,
        quotes=quotes,
        encoding=encoding,
        missing=missing,
        duplicates=duplicates,
        cut=cut or Cut(),
        items=items,
        weigh=weigh,
        progress=progress,
    )
    files = list_files(path)
    data = read_interactions(files, reading)
    if name is None:
        return data
    from spherec.data.read.names import read_names_inside

    return data.with_item_names(read_names_inside(files, reading, name))


def read_interactions(path: Paths, reading: Reading) -> Interactions:
    """Read, merge and cut a file, or several as one (see `list_files`); a prepared one is loaded and cut."""
    files = list_files(path)
    if prepared := next(filter(kind_of, files), None) if reading.format == "auto" else None:
        if len(files) > 1:
            raise DataError(f"{prepared} is prepared, and prepared files are read alone; give the files it was made of")
        return _load_prepared(str(prepared), reading)
    refuse_without_polars()
    items = reading.items
    if isinstance(items, str | PathLike):
        from spherec.data.read.names import read_item_ids

        items = read_item_ids(items)  # first: it fails sooner
    found, events = _collect(path, reading)
    events = events if items is None else events.with_items(items)
    values = None if events.values is None else (float(events.values.min()), float(events.values.max()))
    with found.merging(has_values=values is not None) as rule:
        events = reading.cut(events.merge(rule))
    found.warn_of_values(values)
    return Interactions.from_events(events, weigh=bool(reading.weigh))


def read_events(path: Paths, reading: Reading) -> Events:
    """Read the raw events of a file, or of several of one format, neither merged nor cut."""
    refuse_without_polars()
    return _collect(path, reading)[1]


def _collect(path: Paths, reading: Reading) -> "tuple[Collector, Events]":
    """Return the events of all files, with one step that says what they were taken for, and what they left out."""
    from spherec.data.read.collector import Collector, Piece

    pieces: list[Piece] = []
    found = Collector(list_files(path), reading, pieces.append)
    users, items = found.read()
    columns = (None if column[0] is None else np.concatenate(column) for column in zip(*pieces, strict=True))
    user, item, values, times = columns
    del pieces[:]
    events = Events(
        users.place[user],
        items.place[item],
        users.ids,
        items.ids,
        values=values,
        times=None if found.lacks_times else times,
        keeps_items=found.keeps_items,
    )
    return found, events.with_step(found.step)


def _load_prepared(path: str, reading: Reading) -> Interactions:
    reading.refuse_layout(f"{path} is prepared and", "missing", "duplicates", "items")
    if (kind := kind_of(path)) == "spherec-partitions":
        data: Interactions = import_guest(kind).PartitionedInteractions.open(path).read()
    else:
        data = Interactions.load(path)
    if reading.weigh and data.weights is None:
        raise DataError(f"{path} was prepared without weights; prepare it again, with weigh=True (--weigh)")
    data = data if reading.cut == Cut() else data.cut(reading.cut)
    return replace(data, weights=None) if reading.weigh is False else data
