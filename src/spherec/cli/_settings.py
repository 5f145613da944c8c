"""Options that several commands share: a model's settings, the device, files to write."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from spherec.data.input_files import find_kind, read_text_file
from spherec.errors import ArgumentError, DataError, quote

model_option = partial(typer.Option, rich_help_panel="Model (by default as in the preset)")
run_option = partial(typer.Option, rich_help_panel="Run")
_LARGEST_CONFIG = 1 << 20  # bytes

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file from 'spherec train'.")]
StartingPreset = Annotated[
    str,
    model_option("--preset", metavar="PRESET", help="Preset; 'spherec presets' lists them."),  # 0.27: --PRESET
]
ConfigFile = Annotated[Path | None, model_option(metavar="FILE", help="TOML file of settings, named as in --set.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
Dial = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Share of popularity that counts, for a model with reach: 1 gives the most popular lists, 0 counts none, "
        "below 0 lists the long tail. Default: as in the model.",
    ),
]
Device = Annotated[Literal["auto", "cpu", "cuda"], run_option(help="auto takes the GPU if there is one.")]


def read_settings(file: Path | None, settings: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the settings of a TOML file, of --set NAME=VALUE and of options; later ones win, None is skipped."""
    from spherec.training.config import nest, overlay

    table = {} if file is None else _read_toml(file)
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name.strip():
            raise ArgumentError(f"--set needs NAME=VALUE, e.g. sampler.beta=0.6, got {quote(setting)}")
        table = overlay(table, nest(name.strip(), _value(text.strip())))
    for name, value in options.items():
        if value is not None:
            table = overlay(table, nest(name, value))
    return table


def refuse_existing(output: Path, force: bool) -> None:
    """Raise an `ArgumentError` if there is a file already that the command would replace without --force."""
    if not force and find_kind(output) == "file":
        raise ArgumentError(f"{output} exists already; name another file, or replace it with --force")


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text_file(path, _LARGEST_CONFIG))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError(f"{path} is not TOML: {error}; correct it") from None


def _value(text: str) -> Any:
    """Parse a value as TOML; a word without quotes is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
