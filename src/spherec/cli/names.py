"""Names of items, from a table beside the events or from the events themselves."""

from pathlib import Path
from typing import Annotated

import typer

from spherec.cli.display import note
from spherec.cli.source import Source
from spherec.data.interactions import Interactions

_PANEL = "Item names"

NamesPath = Annotated[
    Path | None, typer.Option("--names", help="A table with item names; DATA itself will do.", rich_help_panel=_PANEL)
]
IdColumn = Annotated[str, typer.Option("--names-id-column", help="Its column with item ids.", rich_help_panel=_PANEL)]
NameColumn = Annotated[str, typer.Option("--names-column", help="Its column with names.", rich_help_panel=_PANEL)]


def load_with_names(
    source: Source, names: Path | None, id_column: str, name_column: str, *, shows_steps: bool = False
) -> Interactions:
    """What the options say, with the names in a table if one is given; `shows_steps` as for `Source.load`."""
    found = {} if names is None else _read(source, names, id_column, name_column)  # first: it fails sooner
    data = source.load(shows_steps=shows_steps)
    if names is None:
        return data
    data = data.with_item_names({one: found[str(one)] for one in data.item_ids if str(one) in found})
    note(f"{sum(map(bool, data.item_names or ())):,} of {data.n_items:,} items have a name in {names}")
    return data


def _read(source: Source, path: Path, id_column: str, name_column: str) -> dict[str, str]:
    from spherec.data.readers import read_book_crossing_names, read_names

    if source.format_of_file == "book-crossing":
        return read_book_crossing_names(path)
    return read_names(path, id=id_column, name=name_column, encoding=source.encoding)
