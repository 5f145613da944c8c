"""DATA on the command line: the argument, and the options that say how a raw file is read.

`data prepare` has all options (`RawSource`); every other command has the six that most files need (`Source`), and takes
what `data prepare` wrote for all else.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from spherec import datasets
from spherec.cli._output import counting_bar, note
from spherec.data.container import kind_of
from spherec.data.cuts import Cut
from spherec.data.events import Duplicates
from spherec.data.interactions import Interactions
from spherec.data.read import read_interactions, read_names
from spherec.data.read.formats import FORMATS, FormatName, Missing, Reading, list_files
from spherec.distributed.partitions import PartitionedInteractions
from spherec.errors import ArgumentError, DataError

_table_option = partial(typer.Option, rich_help_panel="Reading a table")
_file_option = partial(typer.Option, rich_help_panel="Unusual files")
_cut_option = partial(typer.Option, rich_help_panel="Which pairs")
_names_option = partial(typer.Option, rich_help_panel="Item names")
_ABOUT_PAIRS = ("min_", "iterate", "names")  # options that prepared data take, too


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options that say how a table of events is read: each field is one of them."""

    user_column: Annotated[str, _table_option(metavar="NAME", help="Column of users; usual names are recognised.")] = (
        "user"
    )
    item_column: Annotated[str, _table_option(metavar="NAME", help="Column of items; usual names are recognised.")] = (
        "item"
    )
    value_column: Annotated[str | None, _table_option(metavar="NAME", help="Column of ratings or counts.")] = None
    time_column: Annotated[str | None, _table_option(metavar="NAME", help="Column of times: numbers or dates.")] = None
    format: Annotated[
        FormatName,
        _table_option(
            "--format",  # typer 0.27 would call it --FORMAT
            metavar="FORMAT",
            help="Format; 'spherec data prepare --help' lists them.",
        ),
    ] = "auto"
    min_value: Annotated[
        float | None, _table_option(metavar="MIN", help="Keep pairs with at least this rating or count.")
    ] = None

    def of(self, data: Sequence[str]) -> "Source":
        """Return these options with the data that they are about."""
        return Source(data=list(data), **_values_of(TableOptions, self))


@dataclass(frozen=True, kw_only=True)
class Source(TableOptions):
    """The argument DATA and its options: each field is one of them."""

    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA",
            help="'book-crossing' (the embedded data set), what 'spherec data prepare' wrote, or files of events.",
        ),
    ]

    @property
    def is_embedded(self) -> bool:
        """True if DATA is the word for the embedded data set."""
        return self.data == [datasets.BOOK_CROSSING.name]

    @property
    def is_prepared(self) -> bool:
        """True if DATA is the embedded data set or prepared, as a file or as a folder of partitions."""
        return self.is_embedded or self.is_partitioned or (len(self.data) == 1 and kind_of(self.data[0]) is not None)

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

    def words(self) -> list[str]:
        """Return the words of the command line that stand for this."""
        words = list(self.data)
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "data" and value != field.default:
                words += [_option(field.name), str(value)]
        return words

    def cut(self) -> Cut:
        """Return what the options keep."""
        return Cut(min_value=self.min_value)

    def load(self, *, cut: Cut | None = None, **options: Any) -> Interactions:
        """Load the interactions; `cut` instead of that of the options, and further options of the reader."""
        cut = self.cut() if cut is None else cut
        if self.is_embedded:
            self._refuse_options(datasets.BOOK_CROSSING.name)
            if options.get("weigh"):
                raise DataError("book-crossing has no weights; leave out --weigh")
            data = datasets.book_crossing()
            return data if cut == Cut() else data.cut(cut)
        remarks: list[str] = []
        try:
            with counting_bar(f"reading {Path(self.data[0]).name}", "bytes") as progress:
                reading = replace(self.reading(), cut=cut, progress=progress, report=remarks.append, **options)
                data = read_interactions(self.data, reading)
        except DataError as error:
            if not set(re.findall(r"--[a-z-]+", str(error))) <= {_option(field.name) for field in fields(self)}:
                raise DataError(f"{error}; 'spherec data prepare' has these options") from None
            raise
        for remark in remarks:
            note(remark)
        return data

    def load_parts(self, test: Sequence[str], *, has_lists: bool = False) -> tuple[Interactions, Interactions]:
        """Load DATA as the train part, and `test` as the test part, read alike.

        Options are for whichever part is not prepared, or for a table of lists where the command `has_lists`.
        """
        parts = [self, replace(self, data=list(test))]
        if has_lists or not all(part.is_prepared for part in parts):
            plain: dict[str, Any] = {
                field.name: field.default for field in fields(TableOptions) if field.name != "min_value"
            }
            parts = [replace(part, **plain) if part.is_prepared else part for part in parts]
        return parts[0].load(), parts[1].load()

    def open_partitions(self, *, weigh: bool | None) -> PartitionedInteractions:
        """Open a partitioned data set, of which each process reads what it holds."""
        self._refuse_options(self.data[0])
        if self.min_value is not None:
            raise ArgumentError(f"{self.data[0]} is prepared already; prepare it again with --min-value")
        data = PartitionedInteractions.open(self.data[0])
        if weigh and not data.is_weighed:
            raise DataError(f"{self.data[0]} was prepared without weights; prepare it again with --weigh")
        return replace(data, is_weighed=False) if weigh is False else data

    def reading(self) -> Reading:
        """Return how the options say that files are read."""
        columns = {"user": self.user_column, "item": self.item_column, "value": self.value_column}
        return Reading(**columns, time=self.time_column, format=self.format, cut=self.cut())  # type: ignore[arg-type]

    def _refuse_options(self, title: str) -> None:
        """Raise an `ArgumentError` if options of raw files were given for prepared data."""
        given = [
            _option(field.name)
            for field in fields(self)
            if field.name != "data" and not field.name.startswith(_ABOUT_PAIRS)
            if getattr(self, field.name) != field.default
        ]
        if given:
            raise ArgumentError(f"{title} is prepared already; leave out {', '.join(given)}")


@dataclass(frozen=True, kw_only=True)
class RawSource(Source):
    """DATA with all options for reading raw files: each field is one of them."""

    format: Annotated[
        FormatName,
        _table_option(
            "--format",
            metavar="FORMAT",
            help=f"Format; auto recognises: {', '.join(FORMATS)}.",
        ),
    ] = "auto"
    weigh: Annotated[bool | None, _table_option("--weigh/--no-weigh", help="Keep ratings or counts, to weigh by.")] = (
        None
    )
    duplicates: Annotated[
        Duplicates | None,
        _table_option(
            metavar="RULE",
            help="Repeated pairs: last (default for ratings) keeps the last value, sum (default otherwise) adds up, "
            "error refuses them.",
        ),
    ] = None
    min_per_user: Annotated[int, _cut_option(metavar="N", help="Keep users with at least N items.")] = 0
    min_per_item: Annotated[int, _cut_option(metavar="N", help="Keep items with at least N users.")] = 0
    iterate: Annotated[bool, _cut_option("--iterate", help="Repeat these two until nothing more is dropped.")] = False
    items_file: Annotated[
        Path | None, _cut_option(metavar="FILE", help="File of all items, to keep those that nobody has.")
    ] = None
    paper_cut: Annotated[
        Literal["book-crossing", "amazon-movies", "echonest"] | None,
        _cut_option(metavar="NAME", help="Cut of the paper: book-crossing, amazon-movies, echonest."),
    ] = None
    missing: Annotated[
        Missing, _file_option(metavar="RULE", help="Rows without user or item: error refuses, drop skips them.")
    ] = "error"
    time_format: Annotated[
        str | None, _file_option(metavar="PATTERN", help="Format of dates, if not 2004-06-01: '%m %d, %Y'.")
    ] = None
    header: Annotated[
        str | None, _file_option(metavar="NAMES", help="Comma-separated column names, if the file has none.")
    ] = None
    separator: Annotated[
        str | None, _file_option(metavar="TEXT", help="Separator between columns, by default recognised.")
    ] = None
    quotes: Annotated[
        bool | None, _file_option("--quotes/--no-quotes", help="Double quotes enclose fields; by default recognised.")
    ] = None
    encoding: Annotated[str, _file_option(metavar="NAME", help="Encoding of a text file, e.g. latin-1.")] = "utf-8"
    names: Annotated[
        Path | None, _names_option(metavar="FILE", help="Table of item names; dumps of public data are recognised.")
    ] = None
    name_column: Annotated[str | None, _names_option(metavar="NAME", help="Column of item names in DATA itself.")] = (
        None
    )
    names_id_column: Annotated[str | None, _names_option(metavar="NAME", help="Column of ids in --names.")] = None
    names_column: Annotated[str | None, _names_option(metavar="NAME", help="Column of names in --names.")] = None
    names_header: Annotated[str | None, _names_option(metavar="NAMES", help="Like --header, for --names.")] = None
    names_separator: Annotated[str | None, _names_option(metavar="TEXT", help="Like --separator, for --names.")] = None
    names_encoding: Annotated[str | None, _names_option(metavar="NAME", help="Like --encoding, for --names.")] = None

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
        plain = super().reading()
        is_papers = self.paper_cut is not None and self.format == "auto"
        return replace(
            plain,
            format=datasets.PAPER_DATASETS[self.paper_cut].format_of(self.data[0]) if is_papers else self.format,  # type: ignore[index]
            time_format=self.time_format,
            name=self.name_column,
            header=tuple(self.header.split(",")) if self.header else None,
            separator=_unescape(self.separator),
            quotes=self.quotes,
            encoding=self.encoding,
            missing=self.missing,
            duplicates=self.duplicates,
            items=self.items_file,
            weigh=self.weigh,
        )

    def load(self, *, cut: Cut | None = None, **options: Any) -> Interactions:
        """Load the interactions with the item names that the options ask for."""
        names = self.read_names()  # first: it fails sooner
        data = super().load(cut=cut, **options)
        if self.name_column is not None:
            report_names(sum(map(bool, data.item_names or ())), data.n_items, self.named_in)
        return data if names is None else add_names(data, names, self.named_in)

    def read_names(self) -> dict[str, str] | None:
        """Read the names of items by id from the table of names; None if there is none."""
        about_names = ("names_id_column", "names_column", "names_header", "names_separator", "names_encoding")
        given = [_option(name) for name in about_names if getattr(self, name) is not None]
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

    @property
    def named_in(self) -> str:
        """The table or column of the items' names."""
        return str(self.names or f"column {self.name_column}")


def add_names(data: Interactions, names: Mapping[str, str], where: str) -> Interactions:
    """Return the interactions with these names of items, and print how many have one."""
    data = data.with_item_names({item: names[str(item)] for item in data.item_ids if str(item) in names})
    report_names(sum(map(bool, data.item_names or ())), data.n_items, where)
    return data


def report_names(n_named: int, n_items: int, where: str) -> None:
    """Print how many items have a name."""
    note(f"{n_named:,} of {n_items:,} items have a name in {where}")


def takes_source(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameters of the types above by the options in them.

    typer reads a command's options from its signature and annotations. The function returned here has the fields of
    these classes in both, followed by the command's own options, and builds what the command receives.
    """
    own = inspect.signature(command).parameters
    taken = {name: option.annotation for name, option in own.items() if option.annotation in _GROUPS}

    @wraps(command)
    def with_options(**given: Any) -> None:
        built = {
            name: kind(**{field.name: given.pop(field.name) for field in fields(kind)}) for name, kind in taken.items()
        }
        command(**built, **given)

    parameters: list[inspect.Parameter] = []
    for name, option in own.items():
        if name in taken:
            parameters += inspect.signature(taken[name]).parameters.values()
        else:
            parameters.append(option.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


_GROUPS = (TableOptions, Source, RawSource)


def _values_of(kind: type[Any], options: Any) -> dict[str, Any]:
    return {field.name: getattr(options, field.name) for field in fields(kind)}


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _unescape(separator: str | None) -> str | None:
    """Return a separator with real tabs: a shell hands over backslash and t."""
    return separator and separator.replace("\\t", "\t")
