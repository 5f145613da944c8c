"""DATA on the command line: what it may be, and the options that say how to read it."""

import functools
import inspect
import shlex
import warnings
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from spherec import datasets
from spherec.cli.display import note, progress_bar
from spherec.data.cuts import Cut
from spherec.data.events import Duplicates, Events
from spherec.data.files import is_archive
from spherec.data.interactions import Interactions
from spherec.data.reading import Columns, Format, Missing, Reading
from spherec.errors import ArgumentError, DataError, DuplicatePairsWarning
from spherec.tensor_file import is_tensor_file

_TABLE = "Reading a table"
CUT = "Cutting"


@dataclass(frozen=True, kw_only=True)
class Source:
    """The argument DATA with its options; each field is one of them."""

    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="'book-crossing' (the embedded data set), a prepared file, or a file of events: "
            "CSV, TSV or JSON lines, plain or gzipped, or Parquet.",
        ),
    ]
    user_column: Annotated[str, typer.Option(help="Column with user ids.", rich_help_panel=_TABLE)] = "user"
    item_column: Annotated[str, typer.Option(help="Column with item ids.", rich_help_panel=_TABLE)] = "item"
    value_column: Annotated[
        str | None, typer.Option(help="Column with ratings or counts, for --min-value.", rich_help_panel=_TABLE)
    ] = None
    time_column: Annotated[
        str | None, typer.Option(help="Column with times, as numbers or dates.", rich_help_panel=_TABLE)
    ] = None
    time_format: Annotated[
        str | None,
        typer.Option(help="How dates are written if not as 2004-06-01, e.g. '%m %d, %Y'.", rich_help_panel=_TABLE),
    ] = None
    format: Annotated[
        Format,
        typer.Option(help="What the file is; 'auto' goes by its name and content.", rich_help_panel=_TABLE),
    ] = "auto"
    header: Annotated[
        str | None,
        typer.Option(
            help="All column names, with commas between, for a table without names in its first line.",
            rich_help_panel=_TABLE,
        ),
    ] = None
    separator: Annotated[
        str | None,
        typer.Option(help="Between columns; a tab , ; | and :: are found by themselves.", rich_help_panel=_TABLE),
    ] = None
    quotes: Annotated[
        bool | None,
        typer.Option(
            "--quotes/--no-quotes",
            help="Whether double quotes enclose fields; if nothing is said, they do, except in tab-separated files "
            "whose header has none.",
            rich_help_panel=_TABLE,
        ),
    ] = None
    encoding: Annotated[str, typer.Option(help="Of a text file, e.g. latin-1.", rich_help_panel=_TABLE)] = "utf-8"
    missing: Annotated[
        Missing,
        typer.Option(help="Rows without user or item: refuse the file, or drop them.", rich_help_panel=_TABLE),
    ] = "error"
    duplicates: Annotated[
        Duplicates | None,
        typer.Option(
            help="Pairs that come more than once: keep the last value (what happens to ratings if nothing is said), "
            "sum the values (what happens to play counts and to events without values), or refuse.",
            rich_help_panel=_TABLE,
        ),
    ] = None
    preset: Annotated[
        Literal["book-crossing", "amazon-movies", "echonest"] | None,
        typer.Option(help="Read and cut the file as the paper did this data set.", rich_help_panel=CUT),
    ] = None
    min_value: Annotated[
        float | None, typer.Option(help="Keep pairs with at least this rating or count.", rich_help_panel=CUT)
    ] = None
    min_per_user: Annotated[
        int | None, typer.Option(help="Keep users with at least this many items.", rich_help_panel=CUT)
    ] = None
    min_per_item: Annotated[
        int | None, typer.Option(help="Keep items with at least this many users.", rich_help_panel=CUT)
    ] = None
    iterate: Annotated[
        bool, typer.Option("--iterate", help="Repeat the two until nothing falls out.", rich_help_panel=CUT)
    ] = False

    @property
    def is_embedded(self) -> bool:
        """Whether DATA is the word for the embedded data set."""
        return self.data == datasets.BOOK_CROSSING.name

    @property
    def paper(self) -> datasets.Preset | None:
        """The data set of the paper that this is."""
        if self.is_embedded and self.cut() == Cut():
            return datasets.BOOK_CROSSING
        return datasets.PRESETS[self.preset] if self.preset else None

    @property
    def format_of_file(self) -> Format:
        """The format as said, or the preset's."""
        if self.preset and self.format == "auto":
            return datasets.PRESETS[self.preset].format_of(self.data)
        return self.format

    def cut(self) -> Cut:
        """The preset's cut, if one is named, with what the options say instead."""
        is_cut_already = self.is_embedded and self.preset == datasets.BOOK_CROSSING.name
        start = datasets.PRESETS[self.preset].cut if self.preset and not is_cut_already else Cut()
        return Cut(
            min_value=start.min_value if self.min_value is None else self.min_value,
            min_per_user=start.min_per_user if self.min_per_user is None else self.min_per_user,
            min_per_item=start.min_per_item if self.min_per_item is None else self.min_per_item,
            iterate=start.iterate or self.iterate,
        )

    def options_given(self, panel: str) -> list[str]:
        """The options of a panel that were given another value than their default."""
        return [
            f"--{field.name.replace('_', '-')}"
            for field in fields(self)
            if field.default is not MISSING
            and field.type.__metadata__[0].rich_help_panel == panel  # type: ignore[union-attr]
            and getattr(self, field.name) != field.default
        ]

    def load(self, *, by_options: bool = True, shows_steps: bool = False) -> Interactions:
        """The interactions, read with a progress bar and cut.

        `by_options`: whether the command has these options; `shows_steps`: whether it shows what each step left.
        """
        prepared = self.prepared()
        if prepared is not None:
            return prepared if self.cut() == Cut() else prepared.cut(self.cut())
        from spherec.data.readers import read_interactions  # brings polars, which a machine that only trains may lack

        unread: list[str] = []
        merged: list[int] = []
        with progress_bar(f"reading {Path(self.data).name}") as progress, warnings.catch_warnings():
            warnings.simplefilter("ignore", DuplicatePairsWarning)  # a note or the steps say what was merged
            reading = replace(self._reading(), progress=progress)
            data = read_interactions(
                self.data,
                reading,
                duplicates=self.duplicates,
                cut=self.cut(),
                tell_unread=unread.append,
                tell_merged=merged.append,
            )
        how = "" if by_options else "spherec data prepare and "
        for repeats in [] if shows_steps else merged:
            note(f"{self.data}: {repeats:,} repeated pairs merged; choose how with {how}--duplicates")
        for column in unread:
            note(
                f"{self.data}: column {column!r} is not read, and every row counts as a positive; "
                f"keep only the high ones with {how}e.g. --value-column {shlex.quote(column)} --min-value 4"
            )
        return data

    def first_events(self, limit: int) -> Events:
        """The first raw events of a file that is not prepared."""
        from spherec.data.readers import read_events

        return read_events(self.data, replace(self._reading(), limit=limit))

    def prepared(self) -> Interactions | None:
        """The embedded data set or a prepared file, uncut; None for any other file."""
        if not self.is_embedded and not Path(self.data).exists():
            raise DataError(f"{self.data} does not exist; give a file, or 'book-crossing' for the embedded data set")
        if not self.is_embedded and is_tensor_file(self.data):
            raise DataError(f"{self.data} is a model, not interactions; give the data that it was trained on")
        if not self.is_embedded and not is_archive(self.data):
            return None
        if given := self.options_given(_TABLE):
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


def takes_source(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command all of DATA's options; the command itself takes one `Source` as its first argument.

    Where the command has an option of the same name, its own counts, and DATA's keeps its default.
    """
    own = list(inspect.signature(command).parameters.values())[1:]
    taken = {parameter.name for parameter in own}
    options = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.name == "data" else field.default,
            annotation=field.type,
        )
        for field in fields(Source)
        if field.name not in taken
    ]

    @functools.wraps(command)
    def wrapper(**given: Any) -> None:
        source = Source(**{option.name: given.pop(option.name) for option in options})
        command(source, **given)

    own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    wrapper.__signature__ = inspect.Signature([*options, *own])  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in (*options, *own)}
    return wrapper
