"""The command line: parse, call, print."""

import importlib
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from spherec import errors
from spherec._version import __version__
from spherec.cli._options import Commands, PlainGroup
from spherec.cli._output import INTERRUPTED, note, print_error
from spherec.errors import ArgumentError, SpherecError

_UsageError: Any = typer.BadParameter.__mro__[1]  # typer names only some of its errors


# The first sentence of each command's help; the rest is the docstring of its function.
_COMMANDS = {
    "Train a model": {
        "demo": "Train the two-stage model on Book-Crossing, compare it with the paper's, and recommend books.",
        "data": "Prepare, describe, split and inspect interactions.",
        "train": "Train a model: one vector for each user and item; a user's nearest items are those to recommend.",
        "add-items": "Add items that nobody has yet, placed by their features, without training.",
        "update": "Learn from new events: new users, items and pairs. For a job that runs every night.",
        "remove": "Take users or items out of a model.",
        "presets": "List the presets for training; with a name, print all settings of that preset.",
    },
    "Use a model": {
        "recommend": "List the k nearest items of users, without those that they have already.",
        "similar": "List the items nearest to an item, or with --users the users nearest to a user.",
        "explain": "Explain why an item would be recommended: list the user's own items that are nearest to it.",
        "info": "Show what a model file holds: users, items, how it was trained, how well it did.",
        "serve": "Answer over HTTP from a model, and show it on a page.",
        "export": "Write a model's vectors, with ids and names, for the program that will serve them.",
    },
    "Measure and improve": {
        "evaluate": "Rank all items for every user who has test items, leave out training items, and score the lists.",
        "tune": "Search the best settings: train with many, score each, stop poor ones early.",
        "compare": "Train and test our models and baselines alike: which is best for your data, and at what cost?",
        "reproduce": "Train and test every row of the paper's table on 4 folds, and compare the figures.",
    },
}
_SENTENCES = {name: sentence for panel in _COMMANDS.values() for name, sentence in panel.items()}
_OF_SEVERAL = ("train", "evaluate")  # commands that processes of torchrun run together
_FILES = {
    "similar": "recommend",
    "explain": "recommend",
    "info": "recommend",
    "remove": "update",
}  # all others are named as their command


class LateGroup(PlainGroup):
    """The commands, each imported when it is called."""

    def resolve_command(self, context: Any, words: list[str]) -> Any:
        """Return the name of the command, the command itself in place of its entry in the list, and the words left."""
        name, entry, rest = super().resolve_command(context, words)
        processes = os.environ.get("WORLD_SIZE", "1") if "TORCHELASTIC_RUN_ID" in os.environ else "1"
        if name in _SENTENCES and name not in _OF_SEVERAL and processes != "1":
            raise ArgumentError(
                f"{name} is for one process, and torchrun has started {processes}; call it without torchrun, or from a "
                f"process of torchrun with 'env -u TORCHELASTIC_RUN_ID spherec {name}'"
            )
        return name, load_command(name) if name in _SENTENCES else entry, rest


def load_command(name: str) -> Any:
    """Import the command of that name, and return it with its parameters."""
    function = name.replace("-", "_")
    module = importlib.import_module(f"spherec.cli.{_FILES.get(name, function)}")
    if name == "data":
        return typer.main.get_command(module.data_commands)
    command, alone = getattr(module, f"{function}_command"), Commands()
    alone.add(name, command, f"{_SENTENCES[name]}\n\n{command.__doc__ or ''}")
    return typer.main.get_command(alone)


app = typer.Typer(
    name="spherec",
    cls=LateGroup,
    help="Recommend items from implicit feedback: clicks, plays, purchases, ratings.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _panel, _sentences in _COMMANDS.items():
    for _name, _sentence in _sentences.items():  # entries of the list, which `LateGroup` replaces
        app.command(_name, help=_sentence, rich_help_panel=_panel)(lambda: None)


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
        with _warnings_as_notes():
            code = app(words or ["--help"], obj=words, standalone_mode=False)
    except _UsageError as error:
        print_error(_explain(error))
        code = 2
    except (SpherecError, OSError, MemoryError) as error:
        print_error(error)
        code = 2
    if code == INTERRUPTED:
        typer.echo("interrupted", err=True)
    sys.exit(code)


def _explain(error: Any) -> ArgumentError:
    """Return an error about words of the command line with the command that has the option, or its help."""
    from spherec.cli._source import RAW_OPTIONS  # numpy is slow to import

    option = getattr(error, "option_name", None)
    if option in RAW_OPTIONS:
        has_it = f"'spherec data prepare FILE {option} … -o data.npz' has it, then give data.npz"
        return ArgumentError(f"{error.message}; {has_it}")
    command = error.ctx.command_path if error.ctx else "spherec"
    text = re.sub(r"\. D(id you mean .*\?)$", r" (d\1)", error.format_message().rstrip("."))
    if text.startswith("Missing") and error.ctx:
        example = re.search(rf"spherec (data )?{error.ctx.info_name} .*", error.ctx.command.help or "")
        text += f"; for example: {example[0]}" if example else ""
    return ArgumentError(f"{text}; see '{command} --help'")


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Print warnings as notes of one line, each once, without the place in the code."""
    said = set[str]()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in said:
            note(f"warning: {message}", everywhere=True)
        said.add(str(message))

    with warnings.catch_warnings():
        for kind in vars(errors).values():
            if isinstance(kind, type) and issubclass(kind, Warning):
                warnings.simplefilter("always", kind)
        warnings.showwarning = show
        yield
