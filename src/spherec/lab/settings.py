"""Settings of a config by dotted names, such as "sampler.beta": the notation that all searches share."""

from collections.abc import Mapping
from functools import reduce
from typing import Any

from spherec.training import Training
from spherec.training.config import nest, overlay

Settings = Mapping[str, Any]
"""Values by dotted names."""


def apply_settings(config: Training, settings: Settings) -> Training:
    """Return the config with these settings changed."""
    changes = [nest(name, value) for name, value in settings.items()]
    return config.change(reduce(overlay, changes, {}))


def read_setting(config: Training, name: str) -> Any:
    """Return the value of one setting."""
    value: Any = config.to_dict()
    for part in name.split("."):
        value = value[part]
    return value


def differing_settings(config: Training, base: Training) -> dict[str, Any]:
    """Return the settings in which a config differs from another."""
    before = flatten(base.to_dict())
    return {name: value for name, value in flatten(config.to_dict()).items() if before.get(name, ...) != value}


def flatten(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return a nested table with dotted names: {"sampler": {"beta": 1}} becomes {"sampler.beta": 1}."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        flat |= flatten(value, f"{path}{name}.") if isinstance(value, Mapping) else {f"{path}{name}": value}
    return flat
