"""Settings of a model on the command line: a preset, a TOML file, --set NAME=VALUE, and options of their own."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from spherec.cli._options import group, option
from spherec.data.input_files import read_text_file
from spherec.errors import ArgumentError, DataError, quote
from spherec.training import Training
from spherec.training.config import find_preset, nest, overlay

model_option = partial(option, panel="Model (by default as in the preset)")


@group
class ModelSettings:
    """Options that name settings."""

    preset: str = model_option("Preset; 'spherec presets' lists them.", "PRESET", "--preset", default="two-stage")
    config: Path | None = model_option("TOML file of settings, named as in --set.", "FILE")
    settings: list[str] | None = model_option(
        "Any setting, such as sampler.beta=0.6. May be repeated.", "NAME=VALUE", "--set"
    )

    def training(self, **options: Any) -> Training:
        """Return the settings, with those of the options last."""
        return find_preset(self.preset).change(read_settings(self.config, self.settings or [], options))


def read_settings(file: Path | None, settings: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the settings of a TOML file, of --set NAME=VALUE and of options; later ones win, None is skipped."""
    table = {} if file is None else _read_toml(file)
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name.strip():
            raise ArgumentError(f"--set needs NAME=VALUE, e.g. sampler.beta=0.6, got {quote(setting)}")
        table = overlay(table, nest(name.strip(), _parse_value(text.strip())))
    for name, value in options.items():
        if value is not None:
            table = overlay(table, nest(name, value))
    return table


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text_file(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError(f"{path} is not TOML: {error}; correct it") from None


def _parse_value(text: str) -> Any:
    """Parse a value as TOML; a word without quotes is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
