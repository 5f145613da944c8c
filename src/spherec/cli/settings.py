"""Settings of a model on the command line: a TOML file, NAME=VALUE, and options, as plain nested data."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from spherec.cli.presets import PresetName
from spherec.errors import ArgumentError, DataError
from spherec.nested import nest, overlay

MODEL = "Model"
"""The panel of such options in `--help`."""

PresetToBegin = Annotated[
    PresetName, typer.Option(help="Where to begin; the options below change it.", rich_help_panel=MODEL)
]
ConfigFile = Annotated[
    Path | None, typer.Option(help="A TOML file with settings, as --set names them.", rich_help_panel=MODEL)
]


def changes(file: Path | None, settings: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """What the file, the settings and the options change, the later over the earlier; options that are None do not."""
    table = {} if file is None else _read_toml(file)
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name.strip():
            raise ArgumentError(f"--set needs NAME=VALUE, e.g. sampler.beta=0.6, got {setting!r}")
        table = overlay(table, nest(name.strip(), _value(text.strip())))
    for name, value in options.items():
        if value is not None:
            table = overlay(table, nest(name, value))
    return table


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not TOML: {error}; mend it") from None


def _value(text: str) -> Any:
    """A value as TOML has it; a word without quotes is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
