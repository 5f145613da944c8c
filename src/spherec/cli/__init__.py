"""The command line: parse, call, print."""

import io
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

import typer
from typer.core import TyperGroup

from spherec._version import __version__
from spherec.cli._output import INTERRUPTED, note
from spherec.cli.bench import bench_command
from spherec.cli.compare import compare_command
from spherec.cli.data import data_commands
from spherec.cli.demo import demo_command
from spherec.cli.evaluate import evaluate_command
from spherec.cli.export import export_command
from spherec.cli.presets import presets_command
from spherec.cli.recommend import explain_command, info_command, recommend_command, similar_command
from spherec.cli.reproduce import reproduce_command
from spherec.cli.train import train_command
from spherec.cli.tune import tune_command
from spherec.errors import SpherecError, UncheckedIndexWarning, escape_controls

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # typer names only some of its errors


class SafeGroup(TyperGroup):
    """The commands; errors about words of the command line show control characters as escapes."""

    def make_context(self, *given: Any, **more: Any) -> Any:
        """Parse the words up to the command."""
        with _escaping_words():
            return super().make_context(*given, **more)

    def invoke(self, context: Any) -> Any:
        """Parse the words of the command, and run it."""
        with _escaping_words():
            return super().invoke(context)


@contextmanager
def _escaping_words() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        error.message = escape_controls(error.message)  # type: ignore[attr-defined]
        raise


app = typer.Typer(
    name="spherec",
    cls=SafeGroup,
    help="Recommend items from implicit feedback: clicks, plays, purchases, ratings.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data_commands, name="data")
app.command("demo")(demo_command)
app.command("train")(train_command)
app.command("tune")(tune_command)
app.command("evaluate")(evaluate_command)
app.command("recommend")(recommend_command)
app.command("similar")(similar_command)
app.command("explain")(explain_command)
app.command("info")(info_command)
app.command("export")(export_command)
app.command("presets")(presets_command)
app.command("reproduce")(reproduce_command)
app.command("compare")(compare_command)
app.command("bench")(bench_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"spherec {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Show the version."),
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input ends with exit code 2 and one sentence on standard error."""
    words = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # where its encoding lacks characters of ids and names
    try:
        with _quiet_once_interrupted(), _warnings_as_notes():
            app(words, obj=words)
    except SpherecError as error:
        typer.secho(f"error: {escape_controls(str(error))}", err=True, fg="red")
        for remark in getattr(error, "__notes__", ()):
            note(remark)
        sys.exit(2)
    except (OSError, MemoryError) as error:  # of files and sizes that no check foresaw
        typer.secho(f"error: {_describe_failure(error)}", err=True, fg="red")
        sys.exit(2)
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            typer.echo("interrupted", err=True)
        raise


def _describe_failure(error: OSError | MemoryError) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory for this; give less data or smaller numbers"
    where = f"{error.filename}: " if error.filename is not None else ""
    return escape_controls(f"{where}{error.strerror or error}; check the path")


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Print spherec's own warnings as notes of one line, without the place in the code."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def print_note(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if category.__module__ == SpherecError.__module__:
                note(str(message) if issubclass(category, UncheckedIndexWarning) else f"warning: {message}")
            else:
                show(message, category, *place, **more)

        warnings.simplefilter("always", UncheckedIndexWarning)
        warnings.showwarning = print_note
        yield


@contextmanager
def _quiet_once_interrupted() -> Iterator[None]:
    """Silence, after Ctrl-C, the complaints of half-built objects that are thrown away, as late as at exit."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or current_thread() is not main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        sys.unraisablehook = lambda _: None
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
