"""Ids on the command line, and answers to print."""

import csv
import json
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from spherec.cli.display import note, show
from spherec.data.ids import IdMap
from spherec.errors import ArgumentError, DataError, UnknownIdError

if TYPE_CHECKING:
    from spherec.recommender import Results  # brings torch, which takes a while

Format = Literal["table", "json", "csv"]

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `spherec train` wrote.")]
Count = Annotated[int, typer.Option("-k", help="Length of a list.")]
IndexPath = Annotated[
    Path | None,
    typer.Option(
        "--index",
        metavar="FILE",
        help="Answer through an index of the items that `spherec export MODEL -o FILE.usearch` wrote: sooner where "
        "there are hundreds of thousands of items, and nearly the same lists. --only is answered without it.",
    ),
]
AsFormat = Annotated[Format, typer.Option("--format", help="What to print.")]
AsJson = Annotated[bool, typer.Option("--json", help="The same as --format json.")]


def ids_from(texts: Iterable[str], known: IdMap, remedy: str = "check the id") -> list[Hashable]:
    """The known ids that words stand for: @FILE is a file with an id in each line, and words may stand for numbers.

    `remedy` is what to do about an unknown one; without any, unknown ones are passed over.
    """
    words: list[str] = []
    for text in texts:
        words += _lines(Path(text[1:])) if text.startswith("@") and text not in known else [text]
    ids: list[Hashable] = [*words]
    if any(word not in known for word in words):
        by_text = {str(one): one for one in known}
        ids = [by_text.get(word, word) for word in words]
    if not remedy:
        return [one for one in ids if one in known]
    try:
        known.index_of(ids)
    except UnknownIdError as error:
        raise UnknownIdError(f"{error}; {remedy}") from None
    return ids


def listed(text: str | None, known: IdMap, remedy: str) -> list[Hashable] | None:
    """The ids in an option: with commas between, or @FILE."""
    if text is None:
        return None
    words = [text] if text.startswith("@") or text in known else [word.strip() for word in text.split(",")]
    return ids_from((word for word in words if word), known, remedy)


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; check the path") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text in UTF-8; save it as UTF-8, with an id in each line") from None
    return [line.strip() for line in lines if line.strip()]


def print_answer(answer: "Results[Any]", format: Format, by: Sequence[str], title: Callable[[Any], str]) -> None:
    """Print the records as JSON, as CSV, or as a table for each list.

    Records that agree in the fields `by` are one list; its `title` goes by its first record.
    """
    if format == "json":
        typer.echo(json.dumps(answer.as_dicts(), default=str))
    elif format == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows(answer)
    elif not answer:
        note("nothing to list: no id is known, or no item is left")
    else:
        names = [name for name in answer.columns if name not in by]
        for _, group in groupby(answer, key=lambda record: [getattr(record, name) for name in by]):
            records = list(group)
            rows = [[getattr(record, name) for name in names] for record in records]
            _print_table(title(records[0]), names, rows)


def chosen_format(format: Format, as_json: bool) -> Format:
    """The format that the two options ask for."""
    if as_json and format == "csv":
        raise ArgumentError("--json and --format csv exclude each other; give one of them")
    return "json" if as_json else format


def _print_table(title: str, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    shown = [place for place, name in enumerate(names) if name != "name" or any(row[place] for row in rows)]
    table = Table(*(names[place] for place in shown))
    for row in rows:
        table.add_row(*(_cell(row[place]) for place in shown))
    for column in table.columns:
        if column.header in ("rank", "score"):
            column.justify, column.no_wrap = "right", True
    show(title, table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)
