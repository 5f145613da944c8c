"""`read`, and the table of the file formats that it knows. Importing this brings no polars.

A new format is an entry in `FORMATS`. One that is not delimited text also has a file in this folder, with a function
`(path, reading) -> Iterator[Events]` that `reader_of` names.
"""

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib import import_module
from os import PathLike
from pathlib import Path

from spherec.data.archive import is_archive, is_partitioned
from spherec.data.cuts import Cut
from spherec.data.events import Duplicates, Events, level_of_caller
from spherec.data.input_files import refuse_unreadable
from spherec.data.interactions import Interactions
from spherec.data.read.options import (
    Columns,
    FormatName,
    Missing,
    Paths,
    Reading,
    ReadProgress,
    describe_files,
    list_files,
    run_options,
)
from spherec.errors import ArgumentError, DataError, EmptyFileError, UncutValuesWarning, UnreadValuesWarning, quote
from spherec.forks import require_polars

_MOST_FILES = 5  # of several that are read as one, named in the record


@dataclass(frozen=True)
class FileFormat:
    """A file format."""

    known: Reading | None = None
    "Columns and layout, for a format that fixes them; None for tables, whose columns the caller names."
    duplicates: Duplicates | None = None
    "Rule for repeated pairs: play counts and repeats are summed, of ratings the last is kept. None: by the values."
    suffixes: tuple[str, ...] = ()
    "Endings of file names by which 'auto' recognises the format."
    magic: bytes = b""
    "First bytes by which 'auto' recognises the format."
    orders_numbers: bool = False
    "True if ids that are whole numbers keep their order: 2 before 10."


FORMATS: dict[FormatName, FileFormat] = {
    "delimited": FileFormat(),
    "json-lines": FileFormat(suffixes=(".jsonl", ".ndjson", ".json")),
    "parquet": FileFormat(suffixes=(".parquet", ".pq"), magic=b"PAR1"),
    "book-crossing": FileFormat(
        Reading(
            columns=Columns("User-ID", "ISBN", "Book-Rating"),
            separator=";",
            quotes=True,
            encoding="latin-1",
            escape="\\",
        ),
        "last",
    ),
    "echonest": FileFormat(
        Reading(
            columns=Columns("user", "song", "plays"), header=("user", "song", "plays"), separator="\t", quotes=False
        ),
        "sum",
    ),
    "amazon-ratings": FileFormat(
        Reading(
            columns=Columns("user", "item", "rating", "timestamp"),
            header=("user", "item", "rating", "timestamp"),
            separator=",",
            quotes=False,
        ),
        "last",
    ),
    "amazon-reviews": FileFormat(Reading(columns=Columns("reviewerID", "asin", "overall", "unixReviewTime")), "last"),
    "movielens": FileFormat(Reading(columns=Columns("userId", "movieId", "rating", "timestamp"), quotes=False), "last"),
    "netflix": FileFormat(Reading(columns=Columns(value="rating", time="date")), "last"),
    "adjacency": FileFormat(Reading(), "sum", orders_numbers=True),
    "citeulike": FileFormat(Reading(), "sum", orders_numbers=True),
    "scipy": FileFormat(Reading(), "sum"),
}
"""All formats by name."""


def reader_of(name: FormatName) -> Callable[[Path, Reading], Iterator[Events]]:
    """Return the function that yields the raw events of a file, at once or, with `Reading.scratch`, in pieces."""
    from spherec.data.read import adjacency, amazon, delimited, json_lines, movielens, netflix, parquet, scipy_matrix

    readers: dict[FormatName, Callable[[Path, Reading], Iterator[Events]]] = {
        "json-lines": json_lines.read_json_lines,
        "parquet": parquet.read_parquet,
        "amazon-ratings": amazon.read_amazon_ratings,
        "amazon-reviews": json_lines.read_json_lines,
        "movielens": movielens.read_movielens,
        "netflix": netflix.read_netflix,
        "adjacency": adjacency.read_adjacency,
        "citeulike": partial(adjacency.read_adjacency, counted=True),
        "scipy": scipy_matrix.read_scipy,
    }
    return readers.get(name, delimited.read_delimited)


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
    max_unpacked: float | None = None,
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
            field ("book-crossing", "echonest", "amazon-ratings", "amazon-reviews", "movielens", "netflix",
            "adjacency", "citeulike", "scipy") know their own columns.
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
        max_unpacked: The largest unpacked size in GB; by default 200 times the size of the file.
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
        progress=progress,
        max_unpacked=max_unpacked,
    )
    files = list_files(path)
    data = read_interactions(files, reading, duplicates=duplicates, cut=cut, items=items, weigh=weigh)
    if name is None:
        return data
    from spherec.data.read.names import read_names_inside  # imports this file

    return data.with_item_names(read_names_inside(files, reading, name))


def read_interactions(
    path: Paths,
    reading: Reading,
    *,
    duplicates: Duplicates | None = None,
    cut: Cut | None = None,
    items: str | PathLike[str] | Iterable[Hashable] | None = None,
    weigh: bool | None = None,
    on_unread: Callable[[str], None] | None = None,
    on_uncut: Callable[[float, float], None] | None = None,
    on_merged: Callable[[int], None] | None = None,
) -> Interactions:
    """Read, merge and cut a file, or several as one; a prepared one is loaded and cut.

    Args:
        path: The file, or several; see `list_files`.
        reading: How to read it.
        duplicates: How repeated pairs are merged; by default as the format or the values suggest.
        cut: Which events count; by default all.
        items: All items, as ids or as a file of them; see `read`.
        weigh: Keep ratings or counts, to weigh pairs by them in training; by default only those of a prepared file.
        on_uncut: Called, instead of an `UncutValuesWarning`, with the lowest and the highest rating or count, if the
            format has them, but no least value was asked for.
        on_unread: Called, instead of an `UnreadValuesWarning`, with the column of ratings or counts that a table has,
            if neither that column nor a least value was asked for.
        on_merged: Called, instead of a `DuplicatePairsWarning`, with the number of repeated pairs, if neither the
            caller nor the format says how to merge them.
    """
    cut = cut or Cut()
    files = list_files(path)
    path = describe_files(files)
    if len(files) > 1 and (archive := next(filter(is_archive, files), None)):
        raise DataError(f"{archive} is prepared, and prepared files are read alone; give the files it was made of")
    if items is not None and cut.min_per_item:
        raise ArgumentError(
            f"items states items that nobody has, and min_per_item={cut.min_per_item} drops them; leave one of them out"
        )
    if reading.format == "auto" and (is_archive(path) or is_partitioned(path)):
        _refuse_column_options(reading, f"{path} is prepared and", duplicates, items)
        if is_partitioned(path):
            guest = import_module("spherec.distributed.partitions")  # the kind of folder names it
            data: Interactions = guest.PartitionedInteractions.open(path).read()
        else:
            data = Interactions.load(path, max_unpacked=reading.max_unpacked)
        if weigh and data.weights is None:
            raise DataError(f"{path} was prepared without weights; prepare it again, with weigh=True")
        data = data if cut == Cut() else data.cut(cut)
        return replace(data, weights=None) if weigh is False else data
    refuse_without_polars()
    all_items = None if items is None else _list_items(items)  # first: it fails sooner
    chosen_value = reading.columns.value
    readings = recognise_all(files, reading)
    reading = readings[0]
    events = _read_all(files, readings)
    if all_items is not None:
        events = events.with_items(all_items)
    rule = duplicates or FORMATS[reading.format].duplicates or ("sum" if weigh else None)
    rows, has_values = len(events), events.values is not None
    if weigh and not has_values:
        raise DataError(describe_no_weights(files))
    uncut = events.values if chosen_value is None and cut.min_value is None and not weigh else None
    try:
        if weigh and rule == "sum":
            events.refuse_negative_sums()
        events = events.merge(rule if rule or on_merged is None else events.default_duplicates)
        if rule is None and on_merged is not None and len(events) < rows:
            on_merged(rows - len(events))
        events = cut(events)
    except DataError as error:
        counted = cut.min_value is not None and not has_values
        hint = " (no value column was named, so events were counted)" if counted else ""
        raise DataError(f"{path}: {error}{hint}") from None
    if events.unread_value is not None and cut.min_value is None:
        (on_unread or _warn_unread(path))(events.unread_value)
    if uncut is not None and (lowest := float(uncut.min())) < (highest := float(uncut.max())):
        (on_uncut or _warn_uncut(path))(lowest, highest)
    return Interactions.from_events(events, weigh=bool(weigh))


def read_events(path: Paths, reading: Reading) -> Events:
    """Read the raw events of a file, or of several of one format, neither merged nor cut."""
    refuse_without_polars()
    files = list_files(path)
    return _read_all(files, recognise_all(files, reading))


def recognise_all(files: Sequence[Path], reading: Reading) -> list[Reading]:
    """Return how to read each file; raise a `DataError` unless all have one format.

    Of several files some may be empty; then they are read as the others, and `read_files` skips them.
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
    readings = [found.get(file, found[first]) for file in files]
    for file, other in found.items():
        if other.format != found[first].format:
            raise DataError(
                f"several files must have one format, but {first} is {found[first].format} and {file} is "
                f"{other.format}; read them apart, or name the format"
            )
    return readings


def _read_all(files: Sequence[Path], readings: Sequence[Reading]) -> Events:
    """Return the events of all files, with one step that says what they were taken for, and what they left out."""
    first, parts, sizes = readings[0], [], [0] * len(files)
    for number, part in read_files(files, readings):
        parts.append(part)
        sizes[number] = len(part)
        if first.limit is not None and sum(map(len, parts)) >= first.limit:
            break
    events = Events.concatenate(parts)
    remark_kinds(files, first)
    if FORMATS[first.format].orders_numbers:
        events = events.order_numbers()
    return events.with_step(describe_reading(files, first, sizes, dict(events.left_out)))


def read_files(files: Sequence[Path], readings: Sequence[Reading]) -> Iterator[tuple[int, Events]]:
    """Yield the number of each file and its raw events, at once or in pieces; report what it leaves out.

    Of several files those without events are skipped, and reported.
    """
    report = readings[0].report or (lambda _: None)
    empty: list[EmptyFileError] = []
    for number, (file, reading) in enumerate(zip(files, readings, strict=True)):
        try:
            for piece, events in enumerate(reader_of(reading.format)(file, reading)):
                if piece == 0 and events.left_out:
                    report(f"{file}: read without {_describe_left_out(dict(events.left_out))}")
                yield number, events
        except EmptyFileError as error:
            empty.append(error)
            if len(empty) == len(files):
                raise
            report(f"{file}: skipped, because it has no events")


def remark_kinds(files: Sequence[Path], reading: Reading) -> None:
    """Remark that events of several kinds all count as positives, if the files have kinds."""
    if not reading.kinds:
        return
    which = f"{reading.kinds} all count as positives"
    remark = f"{describe_files(files)}: {which}; if some should not, remove their rows first"
    if reading.report is not None:
        reading.report(remark)
    else:
        warnings.warn(remark, UnreadValuesWarning, stacklevel=level_of_caller())


def describe_reading(files: Sequence[Path], reading: Reading, sizes: Sequence[int], left_out: Mapping[str, int]) -> str:
    """Return the name of the first step: what the files were taken for, the events of each, and what they left out."""
    step = f"read as {reading.read_as}" if reading.read_as else "read"
    if len(sizes) > 1:
        rows = [f"{size:,} in {file.name}" for file, size in zip(files[:_MOST_FILES], sizes, strict=False)]
        more = f" and {len(sizes) - len(rows):,} more" if len(sizes) > len(rows) else ""
        step += f" from {len(sizes):,} files ({', '.join(rows)}{more})"
    return f"{step}, without {_describe_left_out(left_out)}" if left_out else step


def describe_no_weights(files: Sequence[Path]) -> str:
    """Return the message that files have nothing to weigh pairs by."""
    return f"{describe_files(files)} has no values to weigh pairs by; name their column (value, or --value-column)"


def _describe_left_out(left_out: Mapping[str, int]) -> str:
    return " and ".join(f"{number:,} {description}" for description, number in left_out.items())


def recognise(path: str | PathLike[str], reading: Reading) -> Reading:
    """Return how to read a file, with the format and the columns that its content shows; report what was recognised."""
    from spherec.data.read import recognition

    path = Path(path)
    file_format = None if reading.format == "auto" else FORMATS[reading.format]
    if file_format is not None and file_format.known is not None:
        _refuse_column_options(reading, f"format {reading.format!r}")
        return replace(file_format.known, **run_options(reading))
    found = recognition.recognise_file(path, reading)
    if found.reading.read_as and reading.report is not None:
        reading.report(f"{path}: read as {found.reading.read_as} ({found.layout})")
    return found.reading


def _list_items(items: str | PathLike[str] | Iterable[Hashable]) -> list[Hashable]:
    from spherec.data.read import names

    return list(names.read_item_ids(items)) if isinstance(items, str | PathLike) else list(items)


def detect_format(path: Path) -> FormatName:
    """Return the format that the file's first bytes or its name show; Parquet often comes without a suffix."""
    refuse_unreadable(path)
    with path.open("rb") as file:
        begin = file.read(4)
    for name, file_format in FORMATS.items():
        if file_format.magic and begin == file_format.magic:
            return name
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    for name, file_format in FORMATS.items():
        if suffixes and suffixes[-1] in file_format.suffixes:
            return name
    return "delimited"


def refuse_without_polars() -> None:
    """Raise an error where polars is not installed, or cannot be used in this process."""
    require_polars("reading raw files, unlike prepared ones,")


def _warn_unread(path: str | PathLike[str]) -> Callable[[str], None]:
    def warn(column: str) -> None:
        warnings.warn(
            f"{path}: column {column!r} is not read, and every row counts as a positive; keep only the high ones with "
            f"e.g. value={column!r}, cut=Cut(min_value=4), weigh pairs by them with value={column!r}, weigh=True, or "
            f"say that all are meant with value={column!r} alone",
            UnreadValuesWarning,
            stacklevel=level_of_caller(),
        )

    return warn


def _warn_uncut(path: str | PathLike[str]) -> Callable[[float, float], None]:
    def warn(lowest: float, highest: float) -> None:
        warnings.warn(
            f"{path}: {describe_uncut(lowest, highest)}; keep only the high ones with e.g. "
            f"cut=Cut(min_value={suggest_least(highest):g}), weigh pairs by them with weigh=True, or say that all are "
            f"meant with cut=Cut(min_value={lowest:g})",
            UncutValuesWarning,
            stacklevel=level_of_caller(),
        )

    return warn


def describe_uncut(lowest: float, highest: float) -> str:
    """Return the remark that low ratings count as likes."""
    return f"ratings or counts from {lowest:g} to {highest:g} all count as likes, the low ones too"


def suggest_least(highest: float) -> float:
    """Return a usual least value of a like: 4 of 5 stars, 7 of 10, a yes (1), or 2 of a count."""
    return 4 if 4 < highest <= 5 else 7 if 7 < highest <= 10 else 1 if highest <= 1 else 2


def _refuse_column_options(
    reading: Reading, what: str, duplicates: Duplicates | None = None, items: object = None
) -> None:
    """Raise an `ArgumentError` if columns or their layout were named where that would be ignored."""
    plain = Reading(**run_options(reading))
    given = {
        field.name: getattr(reading, field.name)
        for field in fields(reading)
        if getattr(reading, field.name) != getattr(plain, field.name)
    }
    given |= {"duplicates": duplicates} if duplicates else {}
    given |= {"items": items} if items is not None else {}
    if columns := given.pop("columns", None):
        named = {field.name: getattr(columns, field.name) for field in fields(columns)}
        given = {name: value for name, value in named.items() if value != getattr(plain.columns, name)} | given
    if given:
        options = ", ".join(f"{name}={quote(value)}" for name, value in given.items())
        raise ArgumentError(f"{what} knows its own columns; leave out {options}")
