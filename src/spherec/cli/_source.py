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
from spherec.data.readers import read_events, read_interactions, read_names
from spherec.data.readers.formats import Columns, FormatName, Missing, Reading, describe_uncut, suggest_least
from spherec.data.readers.many import is_one_file, list_files
from spherec.errors import ArgumentError, DataError, quote

TABLE = "Reading a table"
CUT = "Which pairs"
NAMES = "Item names"


@dataclass(frozen=True, kw_only=True)
class NamesTable:
    """The option --names and those that say how to read that table: each field is one of them."""

    names: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Table of item names; may be DATA itself. MovieLens' movies.dat, movies.csv and u.item, LightGCN's "
            "item_list.txt and Book-Crossing's books are recognised.",
            rich_help_panel=NAMES,
        ),
    ] = None
    names_id_column: Annotated[
        str | None,
        typer.Option(help="Column of item ids in that table. By default recognised.", rich_help_panel=NAMES),
    ] = None
    names_column: Annotated[
        str | None,
        typer.Option(help="Column of item names in that table. By default recognised.", rich_help_panel=NAMES),
    ] = None
    names_header: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated names of all columns, for a table of names whose first line has none.",
            rich_help_panel=NAMES,
        ),
    ] = None
    names_separator: Annotated[
        str | None,
        typer.Option(help="Separator between columns in that table. By default recognised.", rich_help_panel=NAMES),
    ] = None
    names_encoding: Annotated[
        str | None,
        typer.Option(
            help="Encoding of that table, e.g. latin-1. By default that of --encoding, or what a recognised file has.",
            rich_help_panel=NAMES,
        ),
    ] = None

    def inside(self, source: "Source", name_column: str) -> "NamesTable":
        """Return the table of names that DATA itself is, with this column of names."""
        if given := [_option(field.name) for field in fields(self) if getattr(self, field.name) is not None]:
            raise ArgumentError(f"--name-column says that the names are in DATA; leave out {', '.join(given)}")
        return NamesTable(
            names=Path(source.data),
            names_id_column=source.item_column,
            names_column=name_column,
            names_header=source.header,
            names_separator=source.separator,
        )

    def read(self, encoding: str) -> dict[str, str]:
        """Read the table, if one is given; `encoding` is that of the events."""
        if self.names is None:
            if given := [_option(field.name) for field in fields(self) if getattr(self, field.name) is not None]:
                raise ArgumentError(f"{', '.join(given)} need --names, the table of item names")
            return {}
        return read_names(
            self.names,
            id=self.names_id_column,
            name=self.names_column,
            header=self.names_header.split(",") if self.names_header else None,
            separator=_unescape(self.names_separator),
            encoding=self.names_encoding or (None if encoding == "utf-8" else encoding),
        )


@dataclass(frozen=True, kw_only=True)
class Source:
    """The argument DATA and its options: each field is one of them."""

    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="'book-crossing' (the embedded data set), a file from 'spherec data prepare', or a file of events: "
            "CSV, TSV, JSON lines or lists, plain or gzipped, Parquet, or a sparse matrix of scipy. A folder or a "
            "quoted pattern such as 'part-*.csv' stands for the files in it, which are read as one.",
        ),
    ]
    user_column: Annotated[
        str,
        typer.Option(help="Column of user ids; usual names such as userId are recognised.", rich_help_panel=TABLE),
    ] = "user"
    item_column: Annotated[
        str,
        typer.Option(help="Column of item ids; usual names such as movieId are recognised.", rich_help_panel=TABLE),
    ] = "item"
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
            help=f"Format of the file: {', '.join(get_args(FormatName))}; 'auto' goes by its content.",
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
            help="Separator between columns; tab, comma, semicolon, |, :: and space are recognised.",
            rich_help_panel=TABLE,
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
    items_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File of all items, to keep those that nobody has: a table, item names, or one id a line.",
            rich_help_panel=TABLE,
        ),
    ] = None
    max_unpacked: Annotated[
        float | None,
        typer.Option(
            metavar="GB",
            help="Largest unpacked size of the file. Default: 200 times its size, or 0.27 if that is more.",
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
        notes: list[str] = []
        unread: list[str] = []
        merged: list[int] = []
        uncut: list[tuple[float, float]] = []
        with counting_bar(f"reading {Path(self.data).name}", "bytes") as progress:
            data = read_interactions(
                self.data,
                replace(self._reading(), progress=progress, report=notes.append),
                duplicates=self.duplicates,
                cut=self.cut(),
                items=self.items_file,
                on_unread=unread.append,
                on_uncut=lambda lowest, highest: uncut.append((lowest, highest)),
                on_merged=merged.append,
            )
        how = "" if by_options else "spherec data prepare and "
        for remark in notes:
            note(remark)
        for repeats in [] if shows_steps else merged:
            pairs = "pair" if repeats == 1 else "pairs"
            note(f"{self.data}: {repeats:,} repeated {pairs} merged; choose how with {how}--duplicates")
        for column in unread:
            self._note_unread(column, how)
        for lowest, highest in uncut:
            self._note_uncut(lowest, highest, how)
        return data

    def load_with_names(self, names: NamesTable, *, shows_steps: bool = False) -> Interactions:
        """Load the interactions with the item names in a table, if one is given."""
        known = names.read(self.encoding)  # first: it fails sooner
        data = self.load(shows_steps=shows_steps)
        if names.names is None:
            return data
        data = data.with_item_names({item: known[str(item)] for item in data.item_ids if str(item) in known})
        note(f"{sum(map(bool, data.item_names or ())):,} of {data.n_items:,} items have a name in {names.names}")
        return data

    def first_events(self, limit: int) -> Events:
        """Read the first raw events of a file that is not prepared, with the remarks that `load` makes."""
        events = read_events(self.data, replace(self._reading(), limit=limit, report=note))
        how = "prepare or train and "
        if events.unread_value is not None:
            self._note_unread(events.unread_value, how)
        if events.values is not None and self.value_column is None:
            self._note_uncut(float(events.values.min()), float(events.values.max()), how)
        return events

    def _note_unread(self, column: str, how: str) -> None:
        note(
            f"{self.data}: column {quote(column)} is not read, and every row counts as a positive; "
            f"keep only the high ones with {how}e.g. --value-column {shlex.quote(column)} --min-value 4"
        )

    def _note_uncut(self, lowest: float, highest: float, how: str) -> None:
        least = f"--min-value {suggest_least(highest):g}"
        note(f"{self.data}: {describe_uncut(lowest, highest)}; keep only the high ones with {how}e.g. {least}")

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
            separator=_unescape(self.separator),
            quotes=self.quotes,
            encoding=self.encoding,
            missing=self.missing,
            max_unpacked=self.max_unpacked,
        )


def takes_source(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameters `source` and `names` by DATA, its options and those of the table of names.

    typer reads a command's options from its signature and annotations. The function returned here has the fields of
    `Source` (and of `NamesTable`) in both, followed by the command's own options, and builds what the command receives.
    """
    groups = {"source": Source, "names": NamesTable}
    own = inspect.signature(command).parameters
    taken = {name: kind for name, kind in groups.items() if name in own}

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        built = {
            name: kind(**{option: given.pop(option) for option in inspect.signature(kind).parameters})
            for name, kind in taken.items()
        }
        command(**built, **given)

    parameters = [*inspect.signature(Source).parameters.values()]
    for name, option in own.items():
        if name in taken:
            parameters += inspect.signature(taken[name]).parameters.values() if name != "source" else ()
        else:
            parameters.append(option.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def _unescape(separator: str | None) -> str | None:
    """Return a separator with real tabs: a shell hands over backslash and t."""
    return separator and separator.replace("\\t", "\t")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
