"""Settings of a model: `spherec presets`, and options of other commands: a preset, a TOML file, --set NAME=VALUE."""

import tomllib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import typer

from spherec.cli._options import group, option
from spherec.cli._output import grid, note, show
from spherec.data.input_files import read_text_file
from spherec.errors import ArgumentError, DataError, quote
from spherec.training import Training
from spherec.training.config import PRESETS, change_default, find_preset, overlay

model_option = partial(option, panel="Model (by default as in the preset)")


@group
class ModelSettings:
    """Options that name settings."""

    preset: str | None = model_option("Preset; 'spherec presets' lists them. Default: fast.", "PRESET")
    config: Path | None = model_option("TOML file of settings, named as in --set.", "FILE")
    settings: list[str] | None = model_option(
        "Any setting, such as sampler.beta=0.6. May be repeated.", "NAME=VALUE", "--set"
    )

    def training(self, **options: Any) -> Training:
        """Return the settings, with those of the options last."""
        table = read_settings(self.config, self.settings or [])
        for name, value in options.items():
            table = table if value is None else overlay(table, {name: value})
        return change_default(table) if self.preset is None else find_preset(self.preset).change(table)


def read_settings(file: Path | None, settings: Sequence[str]) -> dict[str, Any]:
    """Merge the settings of a TOML file and of --set NAME=VALUE; later ones win."""
    try:
        table = {} if file is None else tomllib.loads(read_text_file(file))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError(f"{file} is not TOML: {error}; correct it") from None
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name.strip():
            raise ArgumentError(f"--set needs NAME=VALUE, e.g. sampler.beta=0.6, got {quote(setting)}")
        table = overlay(table, {name.strip(): _parse_value(text.strip())})
    return table


def _parse_value(text: str) -> Any:
    """Parse a value as TOML; a word without quotes is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


def presets_command(
    name: str | None = typer.Argument(None, help="Preset whose settings to print, as TOML. Default: list all presets."),
) -> None:
    """Print a preset to a file, edit a line, and train with the file, to change it:

    - spherec presets two-stage > run.toml
    - spherec train DATA --config run.toml -o my.spherec
    """
    if name is not None:
        typer.echo(find_preset(name).to_toml())
        return
    rows = []
    for known, preset in PRESETS.items():
        loss, sampler = (type(part).__name__ for part in (preset.training.loss, preset.training.sampler))
        rows.append((known, loss, sampler, preset.what))
    show(grid(("preset", "loss", "sampler", "description"), rows, left=4))
    note("spherec presets NAME prints all settings of one")
