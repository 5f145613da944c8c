"""`read`: files of events become `Interactions`. Importing this brings no polars."""

import warnings
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spherec.data.container import import_guest, kind_of
from spherec.data.cuts import Cut
from spherec.data.events import Duplicates, Events, level_of_caller
from spherec.data.interactions import Interactions
from spherec.data.read.formats import FORMATS, refuse_without_polars
from spherec.data.read.options import (
    Columns,
    FormatName,
    Missing,
    Paths,
    Reading,
    ReadProgress,
    describe_files,
    list_files,
)
from spherec.errors import ArgumentError, DataError, EmptyFileError, UncutValuesWarning, UnreadValuesWarning, quote

if TYPE_CHECKING:
    from spherec.data.read.collector import Collector  # brings polars

_MOST_FILES = 5  # of several that are read as one, named in the record


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
    from spherec.data.read.names import read_names_inside  # imports this file

    return data.with_item_names(read_names_inside(files, reading, name))


def read_interactions(path: Paths, reading: Reading) -> Interactions:
    """Read, merge and cut a file, or several as one (see `list_files`); a prepared one is loaded and cut."""
    files = list_files(path)
    if len(files) > 1 and (archive := next(filter(kind_of, files), None)):
        raise DataError(f"{archive} is prepared, and prepared files are read alone; give the files it was made of")
    if reading.format == "auto" and kind_of(files[0]):
        return _load_prepared(files[0], reading)
    refuse_without_polars()
    items = None if reading.items is None else _list_items(reading.items)  # first: it fails sooner
    readings = recognise_all(files, reading)
    events = _read_all(files, readings)
    if items is not None:
        events = events.with_items(items)
    values, unread = events.values, events.unread_value
    with merging(files, readings[0], has_values=values is not None) as rule:
        if reading.weigh and rule == "sum":
            events.refuse_negative_sums()
        events = reading.cut(events.merge(rule))
    warn_of_values(files, reading, unread, None if values is None else (float(values.min()), float(values.max())))
    return Interactions.from_events(events, weigh=bool(reading.weigh))


def read_events(path: Paths, reading: Reading) -> Events:
    """Read the raw events of a file, or of several of one format, neither merged nor cut."""
    refuse_without_polars()
    files = list_files(path)
    return _read_all(files, recognise_all(files, reading))


def recognise_all(files: Sequence[Path], reading: Reading) -> list[Reading]:
    """Return how to read each file; raise a `DataError` unless all have one format.

    Of several files some may be empty; then they are read as the others, and the `Collector` skips them.
    """
    found: dict[Path, Reading] = {}
    for file in files:
        try:  # what the first is taken for stands for all
            found[file] = recognise(file, replace(reading, report=None) if found else reading)
        except EmptyFileError as error:
            empty = error
    if not found:
        raise empty
    first = next(iter(found))
    for file, other in found.items():
        if other.format != found[first].format:
            raise DataError(
                f"several files must have one format, but {first} is {found[first].format} and {file} is "
                f"{other.format}; read them apart, or name the format"
            )
    return [found.get(file, found[first]) for file in files]


def recognise(path: Path, reading: Reading) -> Reading:
    """Return how to read a file, with the format and the columns that its content shows; report what was recognised."""
    from spherec.data.read import recognition

    if reading.format not in ("auto", *FORMATS):
        raise ArgumentError(f"format must be one of auto, {', '.join(FORMATS)}, got {quote(reading.format)}")
    if reading.format != "auto" and FORMATS[reading.format].layouts:
        given = ("columns", "header", "separator", "quotes", "encoding")
        given = ("columns", "header", "separator", "quotes", "encoding")
        _refuse_column_options(reading, f"format {reading.format!r}", *given)
        return recognition.choose_layout(path, reading)
    found, described = recognition.recognise_file(path, reading)
    if found.read_as and reading.report is not None:
        reading.report(f"{path}: read as {found.read_as} ({described})")
    return found


@contextmanager
def merging(files: Sequence[Path], reading: Reading, *, has_values: bool) -> Iterator[Duplicates | None]:
    """Yield the rule for repeated pairs, None if nothing says which; errors while merging and cutting name the files.

    `reading` is that of a recognised file.
    """
    if reading.weigh and not has_values:
        raise DataError(
            f"{describe_files(files)} has no values to weigh pairs by; name their column (value, or --value-column)"
        )
    try:
        yield reading.duplicates or FORMATS[reading.format].duplicates or ("sum" if reading.weigh else None)
    except DataError as error:
        counted = reading.cut.min_value is not None and not has_values
        hint = " (no value column was named, so events were counted)" if counted else ""
        raise DataError(f"{describe_files(files)}: {error}{hint}") from None


def describe_reading(files: Sequence[Path], reading: Reading, found: "Collector") -> str:
    """Return the name of the first step: what the files were taken for, the events of each, and what they left out."""
    from spherec.data.read.collector import describe_left_out

    step = f"read as {reading.read_as}" if reading.read_as else "read"
    if len(files) > 1:
        rows = [f"{size:,} in {file.name}" for file, size in zip(files[:_MOST_FILES], found.sizes, strict=False)]
        more = f" and {len(files) - len(rows):,} more" if len(files) > len(rows) else ""
        step += f" from {len(files):,} files ({', '.join(rows)}{more})"
    left_out = describe_left_out(found.left_out)
    return f"{step}, without {left_out}" if left_out else step


def warn_of_values(
    files: Sequence[Path], reading: Reading, unread: str | None, values: tuple[float, float] | None
) -> None:
    """Warn if low ratings or counts count as positives, though nobody said so.

    Args:
        files: The files.
        reading: The options of the caller.
        unread: A column that seems to have ratings or counts, but is not read.
        values: The lowest and the highest value, if there are any.
    """
    path, is_cut = describe_files(files), reading.cut.min_value is not None
    if unread is not None and not is_cut:
        _warn(
            f"{path}: column {unread!r} is not read, and every row counts as a positive; keep only the high ones with "
            f"e.g. value={unread!r}, cut=Cut(min_value=4) (--value-column {unread} --min-value 4), weigh pairs by them "
            f"with value={unread!r}, weigh=True (--weigh), or say that all are meant with value={unread!r} alone",
            UnreadValuesWarning,
        )
    if values is None or reading.columns.value is not None or is_cut or reading.weigh or values[0] == values[1]:
        return
    lowest, highest = values
    least = 4 if 4 < highest <= 5 else 7 if 7 < highest <= 10 else 1 if highest <= 1 else 2  # a usual least like
    _warn(
        f"{path}: ratings or counts from {lowest:g} to {highest:g} all count as likes, the low ones too; keep only the "
        f"high ones with e.g. cut=Cut(min_value={least}) (--min-value {least}), weigh pairs by them with weigh=True "
        f"(--weigh), or say that all are meant with cut=Cut(min_value={lowest:g})",
        UncutValuesWarning,
    )


def remark_kinds(files: Sequence[Path], reading: Reading) -> None:
    """Remark that events of several kinds all count as positives, if the files have kinds."""
    if reading.kinds:
        which = f"{reading.kinds} all count as positives"
        remark = f"{describe_files(files)}: {which}; if some should not, remove their rows first"
        if reading.report is not None:
            reading.report(remark)
        else:
            _warn(remark, UnreadValuesWarning)


def _read_all(files: Sequence[Path], readings: Sequence[Reading]) -> Events:
    """Return the events of all files, with one step that says what they were taken for, and what they left out."""
    from spherec.data.read.collector import Collector, Piece

    pieces: list[Piece] = []
    found = Collector(pieces.append)
    found.read(files, readings)
    users, items = found.finish(describe_files(files), readings[0])
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
        unread_value=found.unread_value,
        keeps_items=found.keeps_items,
    )
    if users.absent >= 0 or items.absent >= 0:
        kept = np.logical_and(user != users.absent, item != items.absent)  # (E,)
        found.drop(len(kept) - int(np.count_nonzero(kept)), describe_files(files), readings[0].report)
        events = events.filter(kept)
    remark_kinds(files, readings[0])
    return events.with_step(describe_reading(files, readings[0], found))


def _load_prepared(path: Path, reading: Reading) -> Interactions:
    given = ("columns", "header", "separator", "quotes", "encoding", "missing", "duplicates", "items")
    _refuse_column_options(reading, f"{path} is prepared and", *given)
    if (kind := kind_of(path)) == "spherec-partitions":
        data: Interactions = import_guest(kind).PartitionedInteractions.open(path).read()
    else:
        data = Interactions.load(path)
    if reading.weigh and data.weights is None:
        raise DataError(f"{path} was prepared without weights; prepare it again, with weigh=True (--weigh)")
    data = data if reading.cut == Cut() else data.cut(reading.cut)
    return replace(data, weights=None) if reading.weigh is False else data


def _list_items(items: str | PathLike[str] | Iterable[Hashable]) -> list[Hashable]:
    from spherec.data.read import names

    return list(names.read_item_ids(items)) if isinstance(items, str | PathLike) else list(items)


def _refuse_column_options(reading: Reading, what: str, *options: str) -> None:
    """Raise an `ArgumentError` if columns or their layout were named where that would be ignored."""
    plain = Reading()
    given = {name: value for name in options if (value := getattr(reading, name)) != getattr(plain, name)}
    if columns := given.pop("columns", None):
        named = {field.name: getattr(columns, field.name) for field in fields(columns)}
        given = {name: value for name, value in named.items() if value != getattr(plain.columns, name)} | given
    if given:
        shown = ", ".join(f"{name}={quote(value)}" for name, value in given.items())
        raise ArgumentError(f"{what} knows its own columns; leave out {shown}")


def _warn(message: str, category: type[UserWarning]) -> None:
    warnings.warn(message, category, stacklevel=level_of_caller())
