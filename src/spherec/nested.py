"""Settings as plain nested tables: {"sampler": {"beta": 0.6}}."""

from collections.abc import Mapping
from typing import Any


def overlay(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `changes` laid over it, table by table."""
    result = dict(base)
    for name, value in changes.items():
        inner = result.get(name)
        result[name] = overlay(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
    return result


def nest(path: str, value: Any) -> dict[str, Any]:
    """Return {"a": {"b": value}} for the path "a.b"."""
    *outer, last = path.split(".")
    table = {last: value}
    for name in reversed(outer):
        table = {name: table}
    return table
