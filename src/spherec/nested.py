"""Settings as plain nested data: {"sampler": {"beta": 0.6}}."""

from collections.abc import Mapping
from typing import Any


def merged(one: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """The first with the second laid over it, table by table."""
    both = dict(one)
    for name, value in over.items():
        inner = both.get(name)
        both[name] = merged(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
    return both


def nested(path: str, value: Any) -> dict[str, Any]:
    """{"a": {"b": value}} for "a.b"."""
    *outer, last = path.split(".")
    table = {last: value}
    for part in reversed(outer):
        table = {part: table}
    return table
