"""Output in the terminal: tables, remarks, progress bars, results."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from spherec.errors import FailedProcessError, SpherecError, escape_controls

if TYPE_CHECKING:
    from spherec.recommender import Results  # torch takes a second or two to import

INTERRUPTED = 130  # the exit code after Ctrl-C, as shells have it


class SafeConsole(Console):
    """A console that shows control characters of ids, names and paths as escapes; line breaks in texts stay."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Return the text without control characters, styled."""
        return super().render_str("\n".join(map(escape_controls, text.split("\n"))), **options)


def grid(columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1, **style: Any) -> Table:
    """Return a table whose columns are justified to the right, but the first `left` ones."""
    table = Table(title_justify="left", **style)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < left else "right")
    for row in rows:
        table.add_row(*row)
    return table


def show(*parts: Table | str) -> None:
    """Print to standard output."""
    console = SafeConsole(markup=False, emoji=False, highlight=False)  # ids and names may look like markup
    for part in parts:
        console.print(part)


def note(text: str, *, everywhere: bool = False) -> None:
    """Print a remark to standard error, in one line; under torchrun in process 0, or `everywhere`."""
    if everywhere or _speaks():
        typer.secho(escape_controls(text), err=True, dim=True)


def print_error(error: SpherecError | OSError | MemoryError) -> None:
    """Print an error to standard error, in one line; under torchrun in the first process that fails."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        from spherec.distributed.group import is_first_to_fail  # torch takes a second or two to import

        if isinstance(error, FailedProcessError) or not is_first_to_fail():
            return
    text = str(error)
    if isinstance(error, MemoryError):
        text = "there is not enough memory for this; give less data or smaller numbers"
    elif isinstance(error, OSError):  # which no check foresaw
        where = f"{error.filename}: " if error.filename is not None else ""
        text = f"{where}{error.strerror or error}; check the path"
    typer.secho(f"error: {escape_controls(text)}", err=True, fg="red")
    for remark in getattr(error, "__notes__", ()):
        note(remark, everywhere=True)


def _speaks() -> bool:
    """Tell whether this process is the only one, or process 0 of torchrun."""
    return "TORCHELASTIC_RUN_ID" not in os.environ or os.environ["RANK"] == "0"


@contextmanager
def counting_bar(label: str, unit: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Show a bar over bytes, users or runs, on standard error, which vanishes when done and is absent elsewhere.

    Call what is yielded with the number done, and perhaps the total and another label.
    """
    console = SafeConsole(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)
    count = (DownloadColumn(),) if unit == "bytes" else (MofNCompleteColumn(), TextColumn(unit))
    columns: list[Any] = [TextColumn("{task.description}", markup=False), BarColumn(), *count, TimeRemainingColumn()]
    with Progress(*columns, console=console, transient=True, disable=not (console.is_terminal and _speaks())) as bar:
        task = bar.add_task(escape_controls(label), total=total)

        def update(done: int | None, total: int | None = None, label: str | None = None) -> None:
            bar.update(task, completed=done, total=total, description=label)

        yield update


def print_results(results: "Results[Any]", as_json: bool, by: Sequence[str], title: Callable[[Any], str]) -> None:
    """Print records as JSON, which keeps ids and names exactly, or as one table for each list.

    Records that agree in the fields `by` form one list; `title` is called with its first record.
    """
    if as_json:
        typer.echo(json.dumps(results.as_dicts(), default=str))
    elif not results:
        note("nothing to list: no id is known, or no item is left")
    else:
        names = [name for name in results.columns if name not in by]
        for _, group in groupby(results, key=lambda record: [getattr(record, name) for name in by]):
            records = list(group)
            shown = [name for name in names if name != "name" or any(record.name for record in records)]
            rows = ([format_cell(getattr(record, name)) for name in shown] for record in records)
            show(escape_controls(title(records[0])), grid(shown, rows, left=len(shown)))


def format_cell(value: Any, digits: str = ".4f") -> str:
    """Return a value as tables show it, floats with these digits."""
    if value is None:
        return ""
    return format(value, digits) if isinstance(value, float) else escape_controls(str(value))
