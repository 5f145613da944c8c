"""`read`: files of events become `Interactions`. Importing this brings no polars."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec

import numpy as np

from spherec.data.container import import_guest, kind_of
from spherec.data.cuts import Cut
from spherec.data.events import Events
from spherec.data.interactions import Interactions
from spherec.data.read.formats import FORMATS, Input, Paths, Reading, list_inputs, refuse_without_polars
from spherec.errors import DataError, check_choice

if TYPE_CHECKING:
    from spherec.data.read.collector import Collector  # brings polars

_Settings = ParamSpec("_Settings")


def read_interactions(path: Paths, reading: Reading) -> Interactions:
    """Read, merge and cut a file, or several as one (see `list_files`); a prepared one is loaded and cut."""
    check_choice("format", reading.format, ("auto", *FORMATS))
    files = list_inputs(path, reading.query)
    known = (file for file in files if isinstance(file, Path) and kind_of(file) and reading.format == "auto")
    if prepared := next(known, None):
        if len(files) > 1:
            raise DataError(f"{prepared} is prepared, and prepared files are read alone; give the files it was made of")
        return _load_prepared(str(prepared), reading)
    refuse_without_polars()
    found, events, names = _collect(files, reading)
    values = None if events.values is None else (float(events.values.min()), float(events.values.max()))
    with found.merging(values) as rule:
        events = reading.cut(events.merge(rule) if found.weigher is None else found.weigher(events))
    found.warn_of_values(values)
    weigh = bool(reading.weigh) if found.weigher is None else reading.weigh is not False
    data = Interactions.from_events(events, weigh=weigh)
    return data if reading.name is None else data.with_item_names(names)


def read_events(path: Paths, reading: Reading) -> Events:
    """Read the raw events of a file, or of several of one format, neither merged nor cut."""
    refuse_without_polars()
    return _collect(list_inputs(path, reading.query), reading)[1]


def _take_settings(make: Callable[_Settings, Reading]) -> Callable[Concatenate[Paths, _Settings], Interactions]:
    """Return `read`, which takes the settings of `Reading` as keywords, and documents them."""

    def read(path: Paths, *words: _Settings.args, **settings: _Settings.kwargs) -> Interactions:
        return read_interactions(path, make(*words, **settings))

    first = inspect.Parameter("path", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Paths)
    parameters = [first, *inspect.signature(make).parameters.values()]
    read.__signature__ = inspect.Signature(parameters, return_annotation=Interactions)  # type: ignore[attr-defined]
    read.__qualname__ = "read"
    read.__doc__ = f"""Read interactions: a table with a column of users and one of items, or a known format.

    Args:
        path: CSV, TSV or JSON lines, plain or gzipped; Parquet; what
            `Interactions.save` or `save_partitions` wrote. A folder, a pattern such as "plays/part-*.csv" (both sorted
            by name) or a list of paths stands for several files of one format, which are read as one: equal ids are
            the same user or item.{str(Reading.__doc__).partition("Args:")[2]}
    Raises:
        DataError: The file cannot be used; the message names the line or column, the value and the remedy.
    """
    return read  # type: ignore[return-value]  # `path` is a keyword, too


read = _take_settings(Reading)


def _collect(files: Sequence[Input], reading: Reading) -> "tuple[Collector, Events, dict[object, str]]":
    """Return the events of all files, with a step that says what they were taken for, and the names of items."""
    from spherec.data.read.collector import Collector, Piece

    pieces: list[Piece] = []
    found = Collector(files, reading, pieces.append)
    users, items = found.read()
    user, item, values, times, kinds = (
        None if part[0] is None else np.concatenate(part) for part in zip(*pieces, strict=True)
    )
    del pieces[:]
    events = Events(
        users.place[user],
        items.place[item],
        users.ids,
        items.ids,
        values=values,
        times=None if found.lacks_times else times,
        kinds=kinds,
    )
    return found, events.with_step(found.step), found.names(items)


def _load_prepared(path: str, reading: Reading) -> Interactions:
    reading.refuse_layout(
        f"{path} is prepared and",
        "missing",
        "duplicates",
        "name",
        "event",
        "weights",
        "cancels",
        "half_life",
        "max_weight",
    )
    if (kind := kind_of(path)) == "spherec-partitions":
        data: Interactions = import_guest(kind).PartitionedInteractions.open(path).read()
    else:
        data = Interactions.load(path)
    if reading.weigh and data.weights is None:
        raise DataError(f"{path} was prepared without weights; prepare it again, with weigh=True (--weigh)")
    data = data if reading.cut == Cut() else data.cut(reading.cut)
    return replace(data, weights=None) if reading.weigh is False else data
