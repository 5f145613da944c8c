"""DATA on the command line: the argument, the options that say how to read it, and item names."""

import functools
import inspect
import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from spherec import datasets
from spherec.cli._output import counting_bar, note
from spherec.data.cuts import Cut
from spherec.data.events import Duplicates, Events
from spherec.data.files import find_kind, is_archive, is_tensor_file
from spherec.data.interactions import Interactions
from spherec.data.readers import read_book_crossing_names, read_events, read_interactions, read_names
from spherec.data.readers.formats import Columns, FormatName, Missing, Reading
from spherec.data.readers.many import is_one_file, list_files
from spherec.errors import ArgumentError, DataError, quote

TABLE = "Reading a table"
CUT = "Which pairs"
NAMES = "Item names"

NamesPath = Annotated[
    Path | None,
    typer.Option("--names", metavar="FILE", help="Table of item names; may be DATA itself.", rich_help_panel=NAMES),
]
NamesIdColumn = Annotated[str, typer.Option(help="Column of item ids in that table.", rich_help_panel=NAMES)]
NamesColumn = Annotated[str, typer.Option(help="Column of item names in that table.", rich_help_panel=NAMES)]


@dataclass(frozen=True, kw_only=True)
class Source:
    """The argument DATA and its options: each field is one of them."""

    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="'book-crossing' (the embedded data set), a file from 'spherec data prepare', or a file of events: "
            "CSV, TSV or JSON lines, plain or gzipped, or Parquet. A folder or a quoted pattern such as 'part-*.csv' "
            "stands for the files in it, which are read as one.",
        ),
    ]
    user_column: Annotated[str, typer.Option(help="Column of user ids.", rich_help_panel=TABLE)] = "user"
    item_column: Annotated[str, typer.Option(help="Column of item ids.", rich_help_panel=TABLE)] = "item"
    value_column: Annotated[
        str | None, typer.Option(help="Column of ratings or counts, for --min-value.", rich_help_panel=TABLE)
    ] = None
    time_column: Annotated[
        str | None, typer.Option(help="Column of times: numbers or dates.", rich_help_panel=TABLE)
    ] = None
    time_format: Annotated[
        str | None,
        typer.Option(
            help="Format of dates that are not written like 2004-06-01, e.g. '%m %d, %Y'.", rich_help_panel=TABLE
        ),
    ] = None
    format: Annotated[
        FormatName,
        typer.Option(
            metavar="FORMAT",
            help=f"Format of the file: {', '.join(get_args(FormatName))}; 'auto' goes by its name and content.",
            rich_help_panel=TABLE,
        ),
    ] = "auto"
    header: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated names of all columns, for a table whose first line has none.", rich_help_panel=TABLE
        ),
    ] = None
    separator: Annotated[
        str | None,
        typer.Option(
            help="Separator between columns; tab, comma, semicolon, | and :: are recognised.", rich_help_panel=TABLE
        ),
    ] = None
    quotes: Annotated[
        bool | None,
        typer.Option(
            "--quotes/--no-quotes",
            help="Treat double quotes as enclosing fields. By default they do, except in tab-separated files whose "
            "header has none.",
            rich_help_panel=TABLE,
        ),
    ] = None
    encoding: Annotated[str, typer.Option(help="Encoding of a text file, e.g. latin-1.", rich_help_panel=TABLE)] = (
        "utf-8"
    )
    missing: Annotated[
        Missing,
        typer.Option(help="Rows without user or item: refuse the file, or drop the rows.", rich_help_panel=TABLE),
    ] = "error"
    duplicates: Annotated[
        Duplicates | None,
        typer.Option(
            help="Pairs that occur more than once: keep the last value (default for ratings), sum the values (default "
            "for play counts and for events without values), or refuse the file.",
            rich_help_panel=TABLE,
        ),
    ] = None
    paper_cut: Annotated[
        Literal["book-crossing", "amazon-movies", "echonest"] | None,
        typer.Option(
            metavar="NAME",
            help="Read and cut the file as the paper did for this data set: book-crossing, amazon-movies or echonest.",
            rich_help_panel=CUT,
        ),
    ] = None
    min_value: Annotated[
        float | None, typer.Option(help="Keep pairs with a rating or count of at least this.", rich_help_panel=CUT)
    ] = None
    min_per_user: Annotated[
        int | None, typer.Option(help="Keep users with at least this many items.", rich_help_panel=CUT)
    ] = None
    min_per_item: Annotated[
        int | None, typer.Option(help="Keep items with at least this many users.", rich_help_panel=CUT)
    ] = None
    iterate: Annotated[
        bool,
        typer.Option(
            "--iterate",
            help="Repeat --min-per-user and --min-per-item until nothing more is dropped.",
            rich_help_panel=CUT,
        ),
    ] = False

    @property
    def is_embedded(self) -> bool:
        """True if DATA is the word for the embedded data set."""
        return self.data == datasets.BOOK_CROSSING.name

    @property
    def files(self) -> list[Path]:
        """The files that DATA stands for; none for the embedded data set."""
        return [] if self.is_embedded else list_files(self.data)

    @property
    def paper(self) -> datasets.PaperDataset | None:
        """The data set of the paper that this is, if any."""
        if self.is_embedded and self.cut() == Cut():
            return datasets.BOOK_CROSSING
        return datasets.PAPER_DATASETS[self.paper_cut] if self.paper_cut else None

    @property
    def format_of_file(self) -> FormatName:
        """The format that --format or --paper-cut says."""
        if self.paper_cut and self.format == "auto":
            return datasets.PAPER_DATASETS[self.paper_cut].format_of(self.data)
        return self.format

    def cut(self) -> Cut:
        """Return the cut of the options, which go before that of --paper-cut."""
        is_cut_already = self.is_embedded and self.paper_cut == datasets.BOOK_CROSSING.name
        start = datasets.PAPER_DATASETS[self.paper_cut].cut if self.paper_cut and not is_cut_already else Cut()
        return Cut(
            min_value=start.min_value if self.min_value is None else self.min_value,
            min_per_user=start.min_per_user if self.min_per_user is None else self.min_per_user,
            min_per_item=start.min_per_item if self.min_per_item is None else self.min_per_item,
            iterate=start.iterate or self.iterate,
        )

    def options_given(self, panel: str) -> list[str]:
        """Return the options of a panel whose values differ from their defaults."""
        return [
            _option(field.name)
            for field in fields(self)
            if field.type.__metadata__[0].rich_help_panel == panel  # type: ignore[union-attr]
            and getattr(self, field.name) != field.default
        ]

    def words(self) -> list[str]:
        """Return DATA and its options as words of a command line that reads the same."""
        words = [self.data]
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if isinstance(value, bool) and value != field.default:
                words.append(_option(field.name) if value else _option(f"no_{field.name}"))
            elif value != field.default:
                words += [_option(field.name), str(value)]
        return words

    def load(self, *, by_options: bool = True, shows_steps: bool = False) -> Interactions:
        """Read the interactions with a progress bar, and cut them.

        `by_options`: whether the command has these options; `shows_steps`: whether it shows what each step left.
        """
        prepared = self.load_prepared()
        if prepared is not None:
            return prepared if self.cut() == Cut() else prepared.cut(self.cut())
        unread: list[str] = []
        merged: list[int] = []
        with counting_bar(f"reading {Path(self.data).name}", "bytes") as progress:
            reading = replace(self._reading(), progress=progress)
            data = read_interactions(
                self.data,
                reading,
                duplicates=self.duplicates,
                cut=self.cut(),
                on_unread=unread.append,
                on_merged=merged.append,
            )
        how = "" if by_options else "spherec data prepare and "
        for repeats in [] if shows_steps else merged:
            pairs = "pair" if repeats == 1 else "pairs"
            note(f"{self.data}: {repeats:,} repeated {pairs} merged; choose how with {how}--duplicates")
        for column in unread:
            note(
                f"{self.data}: column {quote(column)} is not read, and every row counts as a positive; "
                f"keep only the high ones with {how}e.g. --value-column {shlex.quote(column)} --min-value 4"
            )
        return data

    def load_with_names(
        self, names: Path | None, id_column: str, name_column: str, *, shows_steps: bool = False
    ) -> Interactions:
        """Load the interactions with the item names in a table, if one is given."""
        known = {} if names is None else self._read_names(names, id_column, name_column)  # first: it fails sooner
        data = self.load(shows_steps=shows_steps)
        if names is None:
            return data
        data = data.with_item_names({item: known[str(item)] for item in data.item_ids if str(item) in known})
        note(f"{sum(map(bool, data.item_names or ())):,} of {data.n_items:,} items have a name in {names}")
        return data

    def first_events(self, limit: int) -> Events:
        """Read the first raw events of a file that is not prepared."""
        return read_events(self.data, replace(self._reading(), limit=limit))

    def load_prepared(self) -> Interactions | None:
        """Load the embedded data set or a prepared file, uncut; return None for any other file."""
        if not self.is_embedded and not is_one_file(self.data):
            return None
        if not self.is_embedded and find_kind(self.data) == "nothing":
            raise DataError(f"{self.data} does not exist; give a file, or 'book-crossing' for the embedded data set")
        if not self.is_embedded and is_tensor_file(self.data):
            raise DataError(f"{self.data} is a model, not interactions; give the data that it was trained on")
        if not self.is_embedded and not is_archive(self.data):
            return None
        if given := self.options_given(TABLE):
            raise ArgumentError(f"{self.data} is prepared already; leave out {', '.join(given)}")
        return datasets.book_crossing() if self.is_embedded else Interactions.load(self.data)

    def _reading(self) -> Reading:
        columns = Columns(self.user_column, self.item_column, self.value_column, self.time_column, self.time_format)
        return Reading(
            format=self.format_of_file,
            columns=columns,
            header=tuple(self.header.split(",")) if self.header else None,
            separator=self.separator and self.separator.replace("\\t", "\t"),  # a shell hands over backslash and t
            quotes=self.quotes,
            encoding=self.encoding,
            missing=self.missing,
        )

    def _read_names(self, path: Path, id_column: str, name_column: str) -> dict[str, str]:
        if self.format_of_file == "book-crossing":
            return read_book_crossing_names(path)
        return read_names(path, id=id_column, name=name_column, encoding=self.encoding)


def takes_source(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's first parameter, `source`, by DATA and all its options.

    typer reads a command's options from its signature and annotations. The function returned here has the fields of
    `Source` in both, followed by the command's own options, and builds the `Source` that the command receives.
    """
    options = inspect.signature(Source).parameters
    own = list(inspect.signature(command).parameters.values())[1:]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        command(Source(**{name: given.pop(name) for name in options}), **given)

    parameters = [*options.values(), *(option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in own)]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
