"""DATA on the command line: the argument, and the options that say how a raw file is read.

`data prepare` has all options (`RawSource`); every other command has the six that most files need (`Source`), and takes
what `data prepare` wrote for all else.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Literal

import typer

from spherec import datasets
from spherec.cli._options import group, option
from spherec.cli._output import counting_bar, note
from spherec.data.container import kind_of
from spherec.data.cuts import Cut
from spherec.data.events import Duplicates
from spherec.data.interactions import Interactions
from spherec.data.read import read_interactions, read_names
from spherec.data.read.formats import FORMATS, FormatName, Missing, Reading, list_files
from spherec.distributed.partitions import PartitionedInteractions
from spherec.errors import ArgumentError, DataError

_table_option = partial(option, panel="Reading a table")
_plain_option = partial(_table_option, show_default=False)
_file_option = partial(option, panel="Unusual files")
_cut_option = partial(option, panel="Which pairs")
_names_option = partial(option, panel="Item names")
_ABOUT_PAIRS = ("min_", "iterate", "names")  # options that prepared data take, too
PaperCut = Literal["book-crossing", "amazon-movies", "echonest"]
_FLAGS = ("--quotes", "--no-quotes", "--weigh", "--no-weigh", "--iterate")  # options about reading without a value


@group
class TableOptions:
    """Options that say how a table of events is read."""

    user_column: str = _plain_option("Column of users, by default recognised.", "NAME", default="user")
    item_column: str = _plain_option("Column of items, by default recognised.", "NAME", default="item")
    value_column: str | None = _table_option("Column of ratings or counts.", "NAME")
    time_column: str | None = _table_option("Column of times: numbers or dates.", "NAME")
    format: FormatName = _plain_option("Format, by default recognised.", "FORMAT", "--format", default="auto")
    min_value: float | None = _table_option("Keep pairs with at least this rating or count.", "MIN")

    def of(self, data: Sequence[str]) -> "Source":
        """Return these options with the data that they are about."""
        return Source(data=list(data), **{field.name: getattr(self, field.name) for field in fields(TableOptions)})


@group
class Source(TableOptions):
    """The argument DATA and its options."""

    data: list[str] = typer.Argument(
        ..., metavar="DATA", help="'book-crossing', a file of 'spherec data prepare', or events."
    )

    @property
    def is_embedded(self) -> bool:
        """True if DATA is the word for the embedded data set."""
        return self.data == [datasets.BOOK_CROSSING.name]

    @property
    def is_prepared(self) -> bool:
        """True if DATA is the embedded data set or prepared, as a file or as a folder of partitions."""
        return self.is_embedded or (len(self.data) == 1 and kind_of(self.data[0]) is not None)

    @property
    def is_partitioned(self) -> bool:
        """True if DATA is the folder of a partitioned data set."""
        return len(self.data) == 1 and kind_of(self.data[0]) == "spherec-partitions"

    @property
    def files(self) -> list[Path]:
        """The files that DATA stands for; none for the embedded data set."""
        return [] if self.is_embedded else list_files(self.data)

    @property
    def paper(self) -> datasets.PaperDataset | None:
        """The data set of the paper that this is, if any."""
        return datasets.BOOK_CROSSING if self.is_embedded and self.cut() == Cut() else None

    def list_changes(self) -> dict[str, str]:
        """Return the options that differ from their defaults, with their values."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "data"}
        defaults = {field.name: field.default for field in fields(self)}
        return {_option(name): str(value) for name, value in values.items() if value != defaults[name]}

    def words(self) -> list[str]:
        """Return the words of the command line that stand for this."""
        return [*self.data, *(word for pair in self.list_changes().items() for word in pair)]

    def cut(self) -> Cut:
        """Return what the options keep."""
        return Cut(min_value=self.min_value)

    def reading(self) -> Reading:
        """Return how the options say that files are read."""
        columns = {"user": self.user_column, "item": self.item_column, "value": self.value_column}
        return Reading(**columns, time=self.time_column, format=self.format, cut=self.cut())  # type: ignore[arg-type]

    def load(self, *, weigh: bool | None = None) -> Interactions:
        """Load the interactions, with weights if `weigh` says so."""
        reading = self.reading()
        reading = reading if weigh is None else replace(reading, weigh=weigh)
        if self.is_embedded:
            self._refuse_options()
            if reading.weigh:
                raise DataError("book-crossing has no weights; leave out --weigh")
            data = datasets.book_crossing()
            return data if reading.cut == Cut() else data.cut(reading.cut)
        remarks: list[str] = []
        try:
            with counting_bar(f"reading {Path(self.data[0]).name}", "bytes") as progress:
                data = read_interactions(self.data, replace(reading, progress=progress, report=remarks.append))
        except DataError as error:
            raise self._with_command(error) from None
        for remark in remarks:
            note(remark)
        return data

    def load_parts(self, test: Sequence[str]) -> tuple[Interactions, Interactions]:
        """Load DATA as the train part, and `test` as the test part; options are for whichever is not prepared."""
        plain = {field.name: field.default for field in fields(TableOptions) if field.name != "min_value"}
        parts = [self, replace(self, data=list(test))]
        train, held_out = (replace(part, **plain) if part.is_prepared else part for part in parts)  # type: ignore[arg-type]
        return train.load(), held_out.load()

    def open_partitions(self, *, weigh: bool | None) -> PartitionedInteractions:
        """Open a partitioned data set, of which each process reads what it holds."""
        self._refuse_options()
        if self.min_value is not None:
            raise ArgumentError(f"{self.data[0]} is prepared already; prepare it again with --min-value")
        data = PartitionedInteractions.open(self.data[0])
        if weigh and not data.is_weighed:
            raise DataError(f"{self.data[0]} was prepared without weights; prepare it again with --weigh")
        return replace(data, is_weighed=False) if weigh is False else data

    def _refuse_options(self) -> None:
        """Raise an `ArgumentError` if options of raw files were given for prepared data."""
        about_pairs = tuple(map(_option, _ABOUT_PAIRS))
        if given := [name for name in self.list_changes() if not name.startswith(about_pairs)]:
            raise ArgumentError(f"{self.data[0]} is prepared already; leave out {', '.join(given)}")

    def _with_command(self, error: DataError) -> DataError:
        """Return the error with the command that prepares the file, if its remedy is an option which only that has."""
        named = re.findall(r"\((--[a-z-]+)([^)]*)\)", str(error))  # options in brackets, some with values
        missing = [(name, value) for name, value in named if name in RAW_OPTIONS - list_options(type(self))]
        if not missing or self.is_prepared:
            return error
        name, value = missing[0]
        output = f"{Path(self.data[0]).name.partition('.')[0]}.npz"
        command = f"{shlex.join(['spherec', 'data', 'prepare', *self.words()])} {name}"
        command += value or ("" if name in _FLAGS else " …")
        return DataError(f"{error}; for that run '{command} -o {output}', and give {output} instead")


@group
class RawSource(Source):
    """DATA with all options for reading raw files."""

    format: FormatName = _plain_option(
        f"Format; auto recognises: {', '.join(FORMATS)}.", "FORMAT", "--format", default="auto"
    )
    weigh: bool | None = _table_option("Keep ratings or counts, to weigh by.", None, "--weigh/--no-weigh")
    duplicates: Duplicates | None = _table_option(
        "Repeated pairs: last (default for ratings) keeps the last value, sum (default otherwise) adds up, error "
        "refuses them.",
        "RULE",
    )
    min_per_user: int = _cut_option("Keep users with at least N items.", "N", default=0)
    min_per_item: int = _cut_option("Keep items with at least N users.", "N", default=0)
    iterate: bool = _cut_option("Repeat these two until nothing more is dropped.", None, "--iterate", default=False)
    items_file: Path | None = _cut_option("File of all items, to keep those that nobody has.", "FILE")
    paper_cut: PaperCut | None = _cut_option(f"Cut of the paper: {', '.join(datasets.PAPER_DATASETS)}.", "NAME")
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
    names_header: str | None = _names_option("Like --header, for --names.", "NAMES")
    names_separator: str | None = _names_option("Like --separator, for --names.", "TEXT")
    names_encoding: str | None = _names_option("Like --encoding, for --names.", "NAME")

    @property
    def paper(self) -> datasets.PaperDataset | None:
        """The data set of the paper that this is, if any."""
        return datasets.PAPER_DATASETS[self.paper_cut] if self.paper_cut else super().paper

    def cut(self) -> Cut:
        """Return what the options keep."""
        options = {name: getattr(self, name) for name in ("min_value", "min_per_user", "min_per_item", "iterate")}
        if self.paper_cut is None:
            return Cut(**options)
        if any(options.values()):
            raise ArgumentError("--paper-cut is a whole cut; leave out --min-value, --min-per-user and the like")
        return datasets.PAPER_DATASETS[self.paper_cut].cut

    def reading(self) -> Reading:
        """Return how the options say that files are read."""
        plain, paper = super().reading(), datasets.PAPER_DATASETS[self.paper_cut] if self.paper_cut else None
        return replace(
            plain,
            format=paper.format_of(self.data[0]) if paper and self.format == "auto" else self.format,
            name=self.name_column,
            header=tuple(self.header.split(",")) if self.header else None,
            separator=_unescape(self.separator),
            items=self.items_file,
            **{
                name: getattr(self, name)
                for name in ("time_format", "quotes", "encoding", "missing", "duplicates", "weigh")
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
        given = [name for name in self.list_changes() if name.startswith("--names-")]
        if given and self.names is None:
            raise ArgumentError(f"{', '.join(given)} need --names, the table of item names")
        if self.name_column is not None and self.names is not None:
            raise ArgumentError("--name-column says that the names are in DATA; leave out --names")
        if self.names is None:
            return None
        return read_names(
            self.names,
            id=self.names_id_column,
            name=self.names_column,
            header=self.names_header.split(",") if self.names_header else None,
            separator=_unescape(self.names_separator),
            encoding=self.names_encoding or (None if self.encoding == "utf-8" else self.encoding),
        )

    def report_names(self, n_named: int, n_items: int) -> None:
        """Print how many items have a name, if the options ask for names."""
        if self.names is not None or self.name_column is not None:
            note(f"{n_named:,} of {n_items:,} items have a name in {self.names or f'column {self.name_column}'}")


def list_options(kind: type[TableOptions]) -> set[str]:
    """Return the options that are fields of a group, those that switch something off included."""
    names = {_option(field.name) for field in fields(kind)}
    return names | {flag for flag in _FLAGS if flag.replace("--no-", "--") in names}


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _unescape(separator: str | None) -> str | None:
    """Return a separator with real tabs: a shell hands over backslash and t."""
    return separator and separator.replace("\\t", "\t")


RAW_OPTIONS = list_options(RawSource)
