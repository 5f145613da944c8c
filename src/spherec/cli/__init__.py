"""The command line: parse, call, print."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

import typer

from spherec._version import __version__
from spherec.cli import data
from spherec.cli._output import INTERRUPTED
from spherec.cli.bench import bench
from spherec.cli.compare import compare
from spherec.cli.demo import demo
from spherec.cli.evaluate import evaluate
from spherec.cli.export import export
from spherec.cli.presets import presets
from spherec.cli.recommend import explain, info, recommend, similar
from spherec.cli.reproduce import reproduce
from spherec.cli.train import train
from spherec.cli.tune import tune
from spherec.errors import SpherecError

app = typer.Typer(
    name="spherec",
    help="Recommendations from implicit feedback: one metric space for users and items.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.app, name="data")
app.command()(demo)
app.command()(train)
app.command()(tune)
app.command()(evaluate)
app.command()(recommend)
app.command()(similar)
app.command()(explain)
app.command()(info)
app.command()(export)
app.command()(presets)
app.command()(reproduce)
app.command()(compare)
app.command()(bench)


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
    try:
        with _quiet_once_interrupted():
            app(words, obj=words)
    except SpherecError as error:
        typer.secho(f"error: {error}", err=True, fg="red")
        sys.exit(2)
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            typer.echo("interrupted", err=True)
        raise


@contextmanager
def _quiet_once_interrupted() -> Iterator[None]:
    """After Ctrl-C, silence the complaints of half-built objects that are thrown away, as late as at exit."""
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
