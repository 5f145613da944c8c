"""DATA on the command line: the argument, and the options that say how a raw file is read.

`data prepare` has all options (`RawSource`). Every other command has the five that most files need (`Source`), and for
all else takes what `data prepare` wrote.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from importlib import resources
from pathlib import Path

import typer

from spherec import datasets
from spherec.cli._options import group, option
from spherec.cli._output import counting_bar, note
from spherec.data.container import kind_of
from spherec.data.cuts import Cut
from spherec.data.events import Duplicates
from spherec.data.interactions import Interactions
from spherec.data.read import read_interactions, read_names
from spherec.data.read.database import hide_password
from spherec.data.read.formats import FORMATS, FormatName, Missing, Reading
from spherec.errors import ArgumentError, DataError

_table_option = partial(option, panel="Reading a table")
_file_option = partial(option, panel="Unusual files")
_event_option = partial(option, panel="Kinds of events")
_cut_option = partial(option, panel="Which pairs")
_names_option = partial(option, panel="Item names")
_FLAGS = ("--no-quotes", "--weigh")  # remedies in errors that are options without a value


@group
class TableOptions:
    """Options that say how a table of events is read."""

    user_column: str = _table_option(
        "Column of users, by default recognised.", "NAME", default="user", show_default=False
    )
    item_column: str = _table_option(
        "Column of items, by default recognised.", "NAME", default="item", show_default=False
    )
    value_column: str | None = _table_option("Column of ratings or counts.", "NAME")
    time_column: str | None = _table_option("Column of times: numbers or dates.", "NAME")
    min_value: float | None = _table_option("Keep pairs with at least this rating or count.", "MIN")


@group
class Source(TableOptions):
    """The argument DATA and its options."""

    data: list[str] = typer.Argument(
        ..., metavar="DATA", help="'book-crossing', a prepared file, events, or a database."
    )

    @property
    def paths(self) -> list[str]:
        """The files, or that of the embedded data for its name."""
        embedded = resources.files(datasets) / "book_crossing.safetensors.gz"
        return [str(embedded)] if self.data == [datasets.BOOK_CROSSING.name] else self.data

    @property
    def name(self) -> str:
        """Name of the file or the database."""
        return Path(hide_password(self.data[0])).name

    @property
    def kind(self) -> str | None:
        """Kind of a prepared file or folder; None for raw files."""
        return kind_of(self.paths[0]) if len(self.data) == 1 else None

    def words(self) -> list[str]:
        """Return the words of the command line that stand for this."""
        given = ((field, getattr(self, field.name)) for field in fields(self) if field.name != "data")
        changed = ((_option(field.name), str(value)) for field, value in given if value != field.default)
        return [*map(hide_password, self.data), *(word for pair in changed for word in pair)]

    def cut(self) -> Cut:
        """Return what the options keep."""
        return Cut(min_value=self.min_value)

    def reading(self) -> Reading:
        """Return how the options say that files are read."""
        columns = {"user": self.user_column, "item": self.item_column, "value": self.value_column}
        return Reading(**columns, time=self.time_column, cut=self.cut())  # type: ignore[arg-type]

    def load(self, *, weigh: bool | None = None) -> Interactions:
        """Load the interactions, with weights if `weigh` says so."""
        reading = self.reading()
        reading = reading if weigh is None else replace(reading, weigh=weigh)
        try:
            with counting_bar(f"reading {self.name}", "bytes") as progress:
                return read_interactions(self.paths, replace(reading, progress=progress, report=note))
        except DataError as error:
            raise self._with_command(error) from None

    def load_parts(self, test: Sequence[str]) -> tuple[Interactions, Interactions]:
        """Load DATA as the train part, and `test` as the test part; options are for whichever is not prepared."""
        parts = [self, replace(self, data=list(test))]
        train, held_out = (
            part if part.kind is None else Source(data=part.data, min_value=part.min_value) for part in parts
        )
        return train.load(), held_out.load()

    def _with_command(self, error: DataError) -> DataError:
        """Return the error with the command that prepares the file, if its remedy is an option which only that has."""
        named = re.findall(r"\((--[a-z-]+)([^)]*)\)", str(error))  # options in brackets, some with values
        own = {_option(field.name) for field in fields(self)}
        missing = [(name, value) for name, value in named if name not in own]
        if not missing or self.kind is not None or isinstance(self, RawSource):
            return error
        name, value = missing[0]
        output = f"{re.split('[.?]', self.name)[0]}.npz"
        command = f"{shlex.join(['spherec', 'data', 'prepare', *self.words()])} {name}"
        command += value or ("" if name in _FLAGS else " …")
        return DataError(f"{error}; for that run '{command} -o {output}', and give {output} instead")


@group
class RawSource(Source):
    """DATA with all options for reading raw files."""

    query: str | None = _table_option("What to ask a database.", "SQL")
    format: FormatName = _table_option(
        f"Format; auto recognises: {', '.join(FORMATS)}.", "FORMAT", "--format", default="auto", show_default=False
    )
    weigh: bool | None = _table_option("Keep ratings or counts, to weigh by.", None, "--weigh/--no-weigh")
    duplicates: Duplicates | None = _table_option(
        "Repeated pairs: last (default for ratings) keeps the last value, sum (default otherwise) adds up.",
        "RULE",
    )
    event_column: str | None = _event_option("Column with the kind of each event.", "NAME")
    event_weights: str | None = _event_option(
        "Weight of each kind that counts: view=1,cart=3,purchase=10. Pairs below 0 are dislikes.", "KIND=N,…"
    )
    cancels: str | None = _event_option("Kinds that take back the latest other: refund=purchase.", "KIND=KIND,…")
    half_life: str | None = _event_option("Age at which an event weighs half: 90d, 12h.", "AGE")
    max_weight: float | None = _event_option("Largest weight of a pair.", "MAX")
    max_per_user: int | None = _cut_option("Leave out users with more than N items, such as bots.", "N")
    min_per_user: int = _cut_option("Keep users with at least N items.", "N", default=0)
    min_per_item: int = _cut_option("Keep items with at least N users.", "N", default=0)
    iterate: bool = _cut_option("Repeat these two until nothing more is dropped.", None, "--iterate", default=False)
    missing: Missing = _file_option("Rows without user or item: error refuses, drop skips.", "RULE", default="error")
    time_format: str | None = _file_option("Format of dates, if not 2004-06-01: '%m %d, %Y'.", "PATTERN")
    header: str | None = _file_option("Comma-separated column names, if the file has none.", "NAMES")
    separator: str | None = _file_option("Separator between columns, by default recognised.", "TEXT")
    quotes: bool | None = _file_option(
        "Double quotes enclose fields; by default recognised.", None, "--quotes/--no-quotes"
    )
    encoding: str = _file_option("Encoding of a text file, e.g. latin-1.", "NAME", default="utf-8")
    names: Path | None = _names_option("Table of item names; dumps of public data are recognised.", "FILE")
    name_column: str | None = _names_option("Column of item names in DATA itself.", "NAME")
    names_id_column: str | None = _names_option("Column of ids in --names.", "NAME")
    names_column: str | None = _names_option("Column of names in --names.", "NAME")

    def cut(self) -> Cut:
        """Return what the options keep."""
        return Cut(**{field.name: getattr(self, field.name) for field in fields(Cut)})

    def reading(self) -> Reading:
        """Return how the options say that files are read."""
        return replace(
            super().reading(),
            format=self.format,
            name=self.name_column,
            header=tuple(self.header.split(",")) if self.header else None,
            event=self.event_column,
            weights=read_kind_weights(self.event_weights),
            cancels=read_pairs("--cancels", self.cancels),
            separator=self.separator and self.separator.replace("\\t", "\t"),  # a shell hands over backslash and t
            **{
                name: getattr(self, name)
                for name in (
                    "time_format",
                    "quotes",
                    "encoding",
                    "missing",
                    "duplicates",
                    "weigh",
                    "half_life",
                    "max_weight",
                    "query",
                )
            },
        )

    def load(self, *, weigh: bool | None = None) -> Interactions:
        """Load the interactions with the item names that the options ask for."""
        names = self.read_names()  # first: it fails sooner
        data = super().load(weigh=weigh)
        if names is not None:
            data = data.with_item_names({item: names[str(item)] for item in data.item_ids if str(item) in names})
        self.report_names(sum(map(bool, data.item_names or ())), data.n_items)
        return data

    def read_names(self) -> Mapping[str, str] | None:
        """Read the names of items by id from the table of names; None if there is none."""
        if self.names is None:
            return None
        return read_names(
            self.names,
            id=self.names_id_column,
            name=self.names_column,
            encoding=None if self.encoding == "utf-8" else self.encoding,
        )

    def report_names(self, n_named: int, n_items: int) -> None:
        """Print how many items have a name, if the options ask for names."""
        if self.names is not None or self.name_column is not None:
            note(f"{n_named:,} of {n_items:,} items have a name in {self.names or f'column {self.name_column}'}")


def read_pairs(option: str, text: str | None) -> dict[str, str] | None:
    """Return what `KIND=VALUE,KIND=VALUE` says."""
    pairs = [pair.rpartition("=") for pair in text.split(",")] if text is not None else []
    if any(not (kind and value) for kind, _, value in pairs):
        raise ArgumentError(f"{option} needs KIND=VALUE, with commas between several, got {text!r}")
    return {kind: value for kind, _, value in pairs} or None


def read_kind_weights(text: str | None) -> dict[str, float] | None:
    pairs = read_pairs("--event-weights", text)
    try:
        return pairs and {kind: float(value) for kind, value in pairs.items()}  # type: ignore[return-value]
    except ValueError:
        raise ArgumentError(f"--event-weights needs a number for each kind, got {text!r}") from None


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


RAW_OPTIONS = {_option(field.name) for field in fields(RawSource)}
