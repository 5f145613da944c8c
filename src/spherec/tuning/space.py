"""What is searched, checked against the config that it changes: every name known, every value of its field's type."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spherec.errors import ArgumentError
from spherec.nested import nest, overlay
from spherec.training import Training
from spherec.tuning.search import Choices, Domain, Range, Value


@dataclass(frozen=True)
class Space:
    """The configs that a search may come to."""

    base: Training
    "What every config has where nothing is searched."
    domains: Mapping[str, Domain]
    "What each field may be, by its dotted name; in the order of names, so that draws do not depend on how it was said."

    @classmethod
    def of(cls, base: Training, searches: Mapping[str, Domain]) -> "Space":
        """All fields checked; numbers of the field's own type."""
        if not searches:
            raise ArgumentError("there is nothing to search; name at least one field, e.g. sampler.beta=0.1..1.0")
        domains: dict[str, Domain] = {}
        for kinds in _kinds(searches):
            of_kind = base.change(kinds)
            domains = {name: _typed(of_kind, name, searches[name]) for name in sorted(searches)}
        return cls(base, domains)

    def config(self, values: Mapping[str, Value]) -> Training:
        """The config with these values."""
        changes: dict[str, Any] = {}
        for name, value in values.items():
            changes = overlay(changes, nest(name, value))
        return self.base.change(changes)

    def start(self) -> dict[str, Value] | None:
        """The values of the base itself, if it is one of the configs that may be found."""
        values = {name: value_at(self.base, name) for name in self.domains}
        return values if all(values[name] in domain for name, domain in self.domains.items()) else None


def value_at(config: Training, name: str) -> Any:
    """The value of a field by its dotted name."""
    value: Any = config.to_dict()
    for part in name.split("."):
        value = value[part]
    return value


def _kinds(searches: Mapping[str, Domain]) -> Iterator[dict[str, Any]]:
    """The changes that lead to each combination of kinds; none where no kind is searched."""
    names = [name for name in searches if name.endswith(".kind")]
    choices = [domain.values if isinstance(domain := searches[name], Choices) else (domain,) for name in names]
    for kinds in itertools.product(*choices):
        changes: dict[str, Any] = {}
        for name, kind in zip(names, kinds, strict=True):
            changes = overlay(changes, nest(name, kind if isinstance(kind, str) else str(kind)))
        yield changes


def _typed(config: Training, name: str, domain: Domain) -> Domain:
    """The domain in the field's own type."""
    if isinstance(domain, Choices):
        return Choices(tuple(_at_field(config, name, value) for value in domain.values))
    low, high = (_at_field(config, name, end) for end in (domain.low, domain.high))
    step = domain.step
    if isinstance(low, float) and step is not None:
        step = float(step)
    if isinstance(low, int) and not isinstance(step, int | None):
        raise ArgumentError(f"{name} has whole numbers, so its step must be one, got {domain}")
    return Range(low, high, domain.log, step)


def _at_field(config: Training, name: str, value: Value) -> Any:
    """The value as the field has it; an error where it cannot be."""
    try:
        return value_at(config.change(nest(name, value)), name)
    except ArgumentError as error:
        raise ArgumentError(f"cannot search {name}: {error}") from None
