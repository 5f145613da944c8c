"""A config from plain data, such as a TOML file or options give: every key is known, every value of its type."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from spherec.errors import ArgumentError, suggest
from spherec.losses import Loss
from spherec.sampling import Sampling
from spherec.training.config import Training

KINDS: dict[str, dict[str, type]] = {
    "loss": {kind.__name__: kind for kind in get_args(Loss)},
    "sampler": {kind.__name__: kind for kind in get_args(Sampling)},
}
"""The parts of a config that come in several kinds, by name."""

AUTO = "auto"
"""What stands in TOML, which has no word for nothing, for a value that goes by the data or by others."""

_Config = TypeVar("_Config", bound=Any)


def configured(base: Training, changes: Mapping[str, Any]) -> Training:
    """`base` with nested changes: `{"dim": 64, "sampler": {"kind": "Uniform", "negatives": 5}}`.

    A part that changes its kind begins from that kind's defaults.
    """
    return _changed(base, changes, "")


def _changed(base: _Config, changes: Mapping[str, Any], path: str) -> _Config:
    hints = get_type_hints(type(base))
    names = [field.name for field in fields(base)]
    values = {}
    for name, value in changes.items():
        where = f"{path}{name}"
        if name not in names:
            other = _of_other_kinds(path.rstrip("."), name)
            told = other or suggest(name, names) or f"; it has {', '.join(names)}"
            raise ArgumentError(f"{where} is not a field of {type(base).__name__}{told}")
        part = getattr(base, name)
        if is_dataclass(part):
            if not isinstance(value, Mapping):
                first = f"{where}.{fields(part)[0].name}"
                raise ArgumentError(
                    f"{where} has fields of its own, got {value!r}; set {where}.kind, {first} and so on"
                )
            rest = {key: one for key, one in value.items() if key != "kind"}
            values[name] = _changed(_of_kind(part, value.get("kind"), where), rest, f"{where}.")
        else:
            values[name] = _checked(value, hints[name], where)
    return replace(base, **values)


def _of_kind(part: Any, kind: object, where: str) -> Any:
    """The part itself, or the defaults of another kind."""
    if kind is None or kind == type(part).__name__:
        return part
    kinds = KINDS.get(where, {type(part).__name__: type(part)})
    if not isinstance(kind, str) or kind not in kinds:
        raise ArgumentError(f"{where}.kind must be one of {', '.join(kinds)}, got {kind!r}")
    return kinds[kind]()


def _checked(value: Any, hint: Any, where: str) -> Any:
    """The value, if it is what the field's type asks for."""
    or_auto = ""
    if isinstance(hint, UnionType):  # int | None
        if value in (None, AUTO):
            return None
        hint, or_auto = get_args(hint)[0], f" or {AUTO!r}"
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise ArgumentError(f"{where} must be one of {', '.join(map(repr, get_args(hint)))}, got {value!r}")
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        kind = {int: "a whole number", float: "a number", bool: "true or false"}[hint]
        raise ArgumentError(f"{where} must be {kind}{or_auto}, got {value!r}")
    return value


def _of_other_kinds(part: str, name: str) -> str:
    """Which kinds of the part have such a field."""
    having = [kind for kind, of_it in KINDS.get(part, {}).items() if name in {field.name for field in fields(of_it)}]
    return f", but of {', '.join(having)}; choose {part}.kind, or a preset that has it" if having else ""
