"""DATA on the command line: the argument, the options that say how to read it, and item names."""

import inspect
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import Field, dataclass, fields, replace
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from spherec import datasets
from spherec.cli._output import counting_bar, note
from spherec.data import splits
from spherec.data.archive import is_archive, is_partitioned, is_tensor_file
from spherec.data.cuts import Cut
from spherec.data.events import Duplicates, Events
from spherec.data.input_files import find_kind
from spherec.data.interactions import Interactions
from spherec.data.read import read_events, read_interactions, read_names
from spherec.data.read.formats import describe_uncut, suggest_least
from spherec.data.read.names import read_names_inside
from spherec.data.read.options import Columns, FormatName, Missing, Reading, is_one_file, list_files
from spherec.distributed.partitions import PartitionedInteractions, save_partitions
from spherec.distributed.preparation import prepare_partitions
from spherec.errors import ArgumentError, DataError, quote

TABLE = "Reading a table"
CUT = "Which pairs"
NAMES = "Item names"
_names_option = partial(typer.Option, rich_help_panel=NAMES)
_table_option = partial(typer.Option, rich_help_panel=TABLE)
_cut_option = partial(typer.Option, rich_help_panel=CUT)
_SHOWN = 3  # files named in a remark


@dataclass(frozen=True, kw_only=True)
class NamesTable:
    """Options about item names: those of --names, and --name-column for names in DATA itself. Each field is one."""

    names: Annotated[
        Path | None,
        _names_option(
            metavar="FILE",
            help="Table of item names; may be DATA itself. MovieLens' movies.dat, movies.csv and u.item, LightGCN's "
            "item_list.txt and Book-Crossing's books are recognised.",
        ),
    ] = None
    names_id_column: Annotated[
        str | None, _names_option(help="Column of item ids in that table. By default recognised.")
    ] = None
    names_column: Annotated[
        str | None, _names_option(help="Column of item names in that table. By default recognised.")
    ] = None
    names_header: Annotated[
        str | None,
        _names_option(help="Comma-separated names of all columns, for a table of names whose first line has none."),
    ] = None
    names_separator: Annotated[
        str | None, _names_option(help="Separator between columns in that table. By default recognised.")
    ] = None
    names_encoding: Annotated[
        str | None,
        _names_option(
            help="Encoding of that table, e.g. latin-1. By default that of --encoding, or what a recognised file has."
        ),
    ] = None

    name_column: Annotated[
        str | None, _names_option(help="Column of item names in DATA itself, instead of --names.")
    ] = None

    def read(self, source: "Source") -> dict[str, str]:
        """Read the names of items by id, from the table or from DATA; none if neither is asked for."""
        given = [option for option in self.options_given() if option != "--name-column"]
        if self.name_column is not None:
            if given:
                raise ArgumentError(f"--name-column says that the names are in DATA; leave out {', '.join(given)}")
            return read_names_inside(source.files, source.reading(), self.name_column)
        if self.names is None:
            if given:
                raise ArgumentError(f"{', '.join(given)} need --names, the table of item names")
            return {}
        encoding = source.encoding
        return read_names(
            self.names,
            id=self.names_id_column,
            name=self.names_column,
            header=self.names_header.split(",") if self.names_header else None,
            separator=_unescape(self.names_separator),
            encoding=self.names_encoding or (None if encoding == "utf-8" else encoding),
        )

    def options_given(self) -> list[str]:
        """Return the options that were given."""
        return [_option(name) for name in _names_of(self) if getattr(self, name) is not None]

    def add(self, data: Interactions, known: Mapping[str, str]) -> Interactions:
        """Return the interactions with the names that `read` returned, and print how many items have one."""
        if self.names is None and self.name_column is None:
            return data
        data = data.with_item_names({item: known[str(item)] for item in data.item_ids if str(item) in known})
        self.report(sum(map(bool, data.item_names or ())), data.n_items)
        return data

    def report(self, n_named: int, n_items: int) -> None:
        """Print how many items have a name."""
        note(f"{n_named:,} of {n_items:,} items have a name in {self.names or f'column {self.name_column}'}")


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options that say how files of events are read and cut: each field is one of them."""

    user_column: Annotated[
        str, _table_option(help="Column of user ids; usual names such as userId are recognised.")
    ] = "user"
    item_column: Annotated[
        str, _table_option(help="Column of item ids; usual names such as movieId are recognised.")
    ] = "item"
    value_column: Annotated[
        str | None, _table_option(help="Column of ratings or counts, for --min-value and --weigh.")
    ] = None
    weigh: Annotated[
        bool | None,
        _table_option(
            "--weigh/--no-weigh",
            help="Weigh pairs in training by their ratings or counts: ln(1 + value), 1 on average for each user. "
            "By default only if DATA is prepared with weights.",
        ),
    ] = None
    time_column: Annotated[str | None, _table_option(help="Column of times: numbers or dates.")] = None
    time_format: Annotated[
        str | None, _table_option(help="Format of dates that are not written like 2004-06-01, e.g. '%m %d, %Y'.")
    ] = None
    format: Annotated[
        FormatName,
        _table_option(
            "--format",  # typer 0.27 would call it --FORMAT
            metavar="FORMAT",
            help=f"Format of the file: {', '.join(get_args(FormatName))}; 'auto' goes by its content.",
        ),
    ] = "auto"
    header: Annotated[
        str | None, _table_option(help="Comma-separated names of all columns, for a table whose first line has none.")
    ] = None
    separator: Annotated[
        str | None,
        _table_option(help="Separator between columns; tab, comma, semicolon, |, :: and space are recognised."),
    ] = None
    quotes: Annotated[
        bool | None,
        _table_option(
            "--quotes/--no-quotes",
            help="Treat double quotes as enclosing fields. By default they do, except in tab-separated files whose "
            "header has none.",
        ),
    ] = None
    encoding: Annotated[str, _table_option(help="Encoding of a text file, e.g. latin-1.")] = "utf-8"
    missing: Annotated[Missing, _table_option(help="Rows without user or item: refuse the file, or drop the rows.")] = (
        "error"
    )
    duplicates: Annotated[
        Duplicates | None,
        _table_option(
            help="Pairs that occur more than once: keep the last value (default for ratings), sum the values (default "
            "for play counts and for events without values), or refuse the file."
        ),
    ] = None
    items_file: Annotated[
        Path | None,
        _table_option(
            metavar="FILE",
            help="File of all items, to keep those that nobody has: a table, item names, or one id a line.",
        ),
    ] = None
    max_unpacked: Annotated[
        float | None,
        _table_option(metavar="GB", help="Largest unpacked size of the file. Default: 200 times its size."),
    ] = None
    paper_cut: Annotated[
        Literal["book-crossing", "amazon-movies", "echonest"] | None,
        _cut_option(
            metavar="NAME",
            help="Read and cut the file as the paper did for this data set: book-crossing, amazon-movies or echonest.",
        ),
    ] = None
    min_value: Annotated[float | None, _cut_option(help="Keep pairs with a rating or count of at least this.")] = None
    min_per_user: Annotated[int | None, _cut_option(help="Keep users with at least this many items.")] = None
    min_per_item: Annotated[int | None, _cut_option(help="Keep items with at least this many users.")] = None
    iterate: Annotated[
        bool, _cut_option("--iterate", help="Repeat --min-per-user and --min-per-item until nothing more is dropped.")
    ] = False

    def of(self, data: Sequence[str]) -> "Source":
        """Return these options with the data that they are about."""
        return Source(data=list(data), **{name: getattr(self, name) for name in _names_of(ReadOptions)})

    def options_given(self, panel: str) -> list[str]:
        """Return the options of a panel whose values differ from their defaults."""
        return [_option(field.name) for field in _fields_in(panel) if getattr(self, field.name) != field.default]


@dataclass(frozen=True, kw_only=True)
class Source(ReadOptions):
    """The argument DATA and its options: each field is one of them."""

    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA",
            help="'book-crossing' (the embedded data set), what 'spherec data prepare' wrote, or a file of events: "
            "CSV, TSV, JSON lines or lists, plain or gzipped, Parquet, or a sparse matrix of scipy. Several files, a "
            "folder, or a pattern such as 'part-*.csv' are read as one.",
        ),
    ]

    @property
    def title(self) -> str:
        """DATA in messages: the path, or the first of several."""
        return self.data[0] if len(self.data) == 1 else f"{self.data[0]} and {len(self.data) - 1} more"

    @property
    def is_embedded(self) -> bool:
        """True if DATA is the word for the embedded data set."""
        return self.data == [datasets.BOOK_CROSSING.name]

    @property
    def is_prepared(self) -> bool:
        """True if DATA is the embedded data set or prepared, as a file or as a folder of partitions."""
        if self.is_embedded or self.is_partitioned:
            return True
        return len(self.data) == 1 and is_one_file(self.data[0]) and is_archive(self.data[0])

    @property
    def is_partitioned(self) -> bool:
        """True if DATA is the folder of a partitioned data set."""
        return len(self.data) == 1 and is_partitioned(self.data[0])

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
            return datasets.PAPER_DATASETS[self.paper_cut].format_of(self.data[0])
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

    def words(self) -> list[str]:
        """Return DATA and its options as words of a command line that reads the same."""
        words = list(self.data)
        for field in fields(ReadOptions):
            value = getattr(self, field.name)
            if isinstance(value, bool) and value != field.default:
                words.append(_option(field.name) if value else _option(f"no_{field.name}"))
            elif value != field.default:
                words += [_option(field.name), str(value)]
        return words

    def load(self, *, by_options: bool = True, shows_steps: bool = False, cut: Cut | None = None) -> Interactions:
        """Read the interactions with a progress bar, and cut them.

        `by_options`: whether the command has these options; `shows_steps`: whether it shows what each step left; `cut`
        instead of that of the options.
        """
        cut = self.cut() if cut is None else cut
        prepared = self.load_prepared()
        if prepared is not None:
            self._refuse_no_weights(prepared.weights is not None)
            try:
                data = prepared if cut == Cut() else prepared.cut(cut)
            except DataError as error:
                raise DataError(f"{self.title}: {error}") from None
            return replace(data, weights=None) if self.weigh is False else data
        how = "" if by_options else "spherec data prepare and "
        merged: list[int] = []
        with self._reading_files(how) as (files, options):
            options |= {"items": self.items_file, "weigh": bool(self.weigh)}
            data = read_interactions(files, cut=cut, on_merged=merged.append, **options)
        for repeats in [] if shows_steps else merged:
            pairs = "pair" if repeats == 1 else "pairs"
            note(f"{self.title}: {repeats:,} repeated {pairs} merged; choose how with {how}--duplicates")
        return data

    @contextmanager
    def _reading_files(self, how: str) -> Iterator[tuple[list[Path], dict[str, Any]]]:
        """Yield raw files and the options of their reader, with a progress bar; then print the reader's remarks.

        `how` says in remarks which command has the options, if it is not this one.
        """
        files = self.files
        if len(files) > 1:
            shown = ", ".join(map(str, files[:_SHOWN]))
            more = f" and {len(files) - _SHOWN:,} more" if len(files) > _SHOWN else ""
            note(f"{len(files):,} files are read as one: {shown}{more}")
        notes: list[str] = []
        unread: list[str] = []
        uncut: list[tuple[float, float]] = []
        with counting_bar(f"reading {Path(self.title).name}", "bytes") as progress:
            yield (
                files,
                {
                    "reading": replace(self.reading(), progress=progress, report=notes.append),
                    "duplicates": self.duplicates,
                    "on_unread": unread.append,
                    "on_uncut": lambda lowest, highest: uncut.append((lowest, highest)),
                },
            )
        for remark in notes:
            note(remark)
        for column in unread:
            self._note_unread(column, how)
        for lowest, highest in uncut:
            self._note_uncut(lowest, highest, how)

    def save_partitions(self, output: Path, partitions: int, names: NamesTable) -> PartitionedInteractions:
        """Read, merge and cut, and write a partitioned data set; raw files need not fit into memory together."""
        known = names.read(self)  # first: it fails sooner
        self._refuse_no_data()
        if self.is_prepared or self.items_file is not None:
            save_partitions(names.add(self.load(shows_steps=True), known), output, partitions)
        else:
            with self._reading_files("") as (files, options):
                options |= {"cut": self.cut(), "names": known or None, "weigh": bool(self.weigh)}
                made = prepare_partitions(files, output=output, partitions=partitions, **options)
            if names.options_given():
                names.report(made.n_named_items, made.n_items)
        return PartitionedInteractions.open(output)

    def load_with_names(self, names: NamesTable, *, shows_steps: bool = False) -> Interactions:
        """Load the interactions with the item names that the options ask for."""
        known = names.read(self)  # first: it fails sooner
        return names.add(self.load(shows_steps=shows_steps), known)

    def load_parts(self, test: Sequence[str], *, has_lists: bool = False) -> tuple[Interactions, Interactions]:
        """Load DATA as the train part, and `test` as the test part, read alike.

        The least value of a cut holds for both parts. The least numbers of pairs are counted in the train part, and the
        test part keeps the users and items that are left. Options of tables are for whichever part is not prepared, or
        for a table of lists where the command `has_lists`.
        """
        parts = [self, replace(self, data=list(test))]
        if has_lists or not all(part.is_prepared for part in parts):
            plain: dict[str, Any] = {field.name: field.default for field in _fields_in(TABLE)}
            plain["weigh"] = None if self.weigh is not False else False  # holds for prepared parts, too
            parts = [replace(part, **plain) if part.is_prepared else part for part in parts]
        cut = self.cut()
        train, tested = parts[0].load(cut=cut), parts[1].load(cut=cut.of_values)
        if cut == cut.of_values:
            return train, tested
        known = splits.keep_known(tested, train)
        note(
            f"{len(known):,} of {len(tested):,} test pairs have a user and an item that the cut left in the train part"
        )
        return train, known

    def first_events(self, limit: int) -> Events:
        """Read the first raw events of a file that is not prepared, with the remarks that `load` makes."""
        events = read_events(self.files, replace(self.reading(), limit=limit, report=note))
        how = "prepare or train and "
        if events.unread_value is not None:
            self._note_unread(events.unread_value, how)
        values = events.values
        if values is not None and self.value_column is None and (lowest := float(values.min())) < values.max():
            self._note_uncut(lowest, float(values.max()), how)
        return events

    def _note_unread(self, column: str, how: str) -> None:
        note(
            f"{self.title}: column {quote(column)} is not read, and every row counts as a positive; "
            f"keep only the high ones with {how}e.g. --value-column {shlex.quote(column)} --min-value 4, or weigh "
            "pairs by them with --weigh"
        )

    def _note_uncut(self, lowest: float, highest: float, how: str) -> None:
        note(
            f"{self.title}: {describe_uncut(lowest, highest)}; keep only the high ones with {how}e.g. "
            f"--min-value {suggest_least(highest):g}, or weigh pairs by them with --weigh"
        )

    def load_prepared(self) -> Interactions | None:
        """Load the embedded data set or a prepared file, uncut; return None for any other file."""
        self._refuse_no_data()
        if not self.is_prepared:
            return None
        if given := [option for option in self.options_given(TABLE) if option != "--weigh"]:
            raise ArgumentError(f"{self.title} is prepared already; leave out {', '.join(given)}")
        if self.is_partitioned:
            return PartitionedInteractions.open(self.data[0]).read()
        return datasets.book_crossing() if self.is_embedded else Interactions.load(self.data[0])

    def _refuse_no_data(self) -> None:
        """Raise a `DataError` for a path that is not there, or that is a model."""
        for path in () if self.is_embedded else self.data:
            if is_one_file(path) and find_kind(path) == "nothing":
                raise DataError(f"{path} does not exist; give a file, or 'book-crossing' for the embedded data set")
            if is_tensor_file(path):
                raise DataError(f"{path} is a model, not interactions; give the data that it was trained on")

    def open_partitions(self, names: NamesTable) -> PartitionedInteractions:
        """Open a partitioned data set, of which each process reads what it holds."""
        given = [*self.options_given(TABLE), *self.options_given(CUT), *names.options_given()]
        if given := [option for option in given if option != "--weigh"]:
            raise ArgumentError(f"{self.title} is prepared already; leave out {', '.join(given)}")
        data = PartitionedInteractions.open(self.data[0])
        self._refuse_no_weights(data.is_weighed)
        return replace(data, is_weighed=False) if self.weigh is False else data

    def _refuse_no_weights(self, is_weighed: bool) -> None:
        """Raise a `DataError` if --weigh was given for prepared data that has no weights."""
        if self.weigh and not is_weighed:
            raise DataError(f"{self.title} was prepared without weights; prepare it again with --weigh")

    def reading(self) -> Reading:
        """Return how the options say that files are read."""
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
    """Replace a command's parameters of the types `Source`, `ReadOptions` and `NamesTable` by the options in them.

    typer reads a command's options from its signature and annotations. The function returned here has the fields of
    these classes in both, followed by the command's own options, and builds what the command receives.
    """
    groups = (Source, ReadOptions, NamesTable)
    own = inspect.signature(command).parameters
    taken = {name: option.annotation for name, option in own.items() if option.annotation in groups}

    @wraps(command)
    def with_options(**given: Any) -> None:
        built = {
            name: kind(**{option: given.pop(option) for option in _names_of(kind)}) for name, kind in taken.items()
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


def _unescape(separator: str | None) -> str | None:
    """Return a separator with real tabs: a shell hands over backslash and t."""
    return separator and separator.replace("\\t", "\t")


def _names_of(options: Any) -> list[str]:
    return [field.name for field in fields(options)]


def _fields_in(panel: str) -> list[Field[Any]]:
    return [field for field in fields(ReadOptions) if field.type.__metadata__[0].rich_help_panel == panel]  # type: ignore[union-attr]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
