"""Settings by dotted names, such as "sampler.beta", and the values among which a search looks.

sampler.beta=0.1..1.0                    from … to, both included
optimizer.learning_rate=1e-4..1e-2:log   as likely between 1e-4 and 1e-3 as between 1e-3 and 1e-2
dim=32..256:32                           in steps
dim=64,128,256                           one of these; numbers, words (constraint=sphere,ball), true and false
"""

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any, cast

import numpy as np

from spherec.errors import ArgumentError, quote
from spherec.lab.records import Settings
from spherec.losses import Hinge, Loss, Softmin
from spherec.sampling import Hard, Popularity, Sampling, SemiHard, TwoStage
from spherec.training import Training
from spherec.training.config import nest, overlay

SettingValue = bool | int | float | str

_WORD = re.compile(r"[A-Za-z][\w-]*")
_FORMS = "write A..B, A..B:log, A..B:STEP, or comma-separated choices"


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, both included."""

    low: int | float
    high: int | float
    log: bool = False  # spread evenly over the logarithm
    step: int | float | None = None  # by default 1 for fields with whole numbers, any number elsewhere

    def __post_init__(self) -> None:
        ends = -math.inf < self.low < self.high < math.inf and (self.low > 0 or not self.log)
        steps = self.step is None or (not self.log and 0 < self.step < math.inf)
        if not ends or not steps or (self.step is not None and self._steps_to(self.high) % 1):
            raise ArgumentError(
                "a range must have finite ends, the lower one first, above 0 with :log, and a step of which it is a "
                f"multiple, or :log, or neither, got {self}"
            )

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | float) or isinstance(value, bool) or not self.low <= value <= self.high:
            return False
        return self.step is None or not self._steps_to(value) % 1

    def __str__(self) -> str:
        how = ":log" if self.log else "" if self.step is None else f":{self.step!r}"
        return f"{self.low!r}..{self.high!r}{how}"

    def grid(self) -> tuple[SettingValue, ...]:
        """Return five values spread over the range, for a search that takes only a list."""
        values = (np.geomspace if self.log else np.linspace)(self.low, self.high, 5)
        if isinstance(self.low, int):
            return tuple(dict.fromkeys(int(value) for value in values.round()))
        return tuple(float(f"{value:.4g}") for value in values)

    def _steps_to(self, value: float) -> Decimal:
        """Return the number of steps from low, in decimals: 0.1 is no binary number."""
        return (Decimal(repr(value)) - Decimal(repr(self.low))) / Decimal(repr(self.step))


@dataclass(frozen=True)
class Choices:
    """One of a few values."""

    values: tuple[SettingValue, ...]

    def __post_init__(self) -> None:
        if len({str(value) for value in self.values}) < max(len(self.values), 2):
            raise ArgumentError(f"there must be two choices or more, all different, got {self}")

    def __contains__(self, value: object) -> bool:
        return any(type(value) is type(choice) and value == choice for choice in self.values)

    def __str__(self) -> str:
        return ",".join(format_value(value) for value in self.values)

    def grid(self) -> tuple[SettingValue, ...]:
        """Return all choices."""
        return self.values


Domain = Range | Choices
"""The values that a setting may have."""


@dataclass(frozen=True)
class SearchSpace:
    """The configs that a search may find."""

    base: Training  # the values of all settings that are not searched
    domains: Mapping[str, Domain]  # by sorted names: draws do not depend on the order in which they were given

    @classmethod
    def build(cls, base: Training, searches: Mapping[str, Domain]) -> "SearchSpace":
        """Check all settings against the config, and give numbers the type of their field."""
        if not searches:
            raise ArgumentError("there is nothing to search; name at least one field, e.g. sampler.beta=0.1..1.0")
        domains: dict[str, Domain] = {}
        kinds = {name: domain for name, domain in searches.items() if name.endswith(".kind")}
        choices = [domain.values if isinstance(domain, Choices) else (domain,) for domain in kinds.values()]
        for chosen in itertools.product(*choices):
            config = apply_settings(base, dict(zip(kinds, map(str, chosen), strict=True)))
            domains = {name: _convert_domain(config, name, searches[name]) for name in sorted(searches)}
        return cls(base, domains)

    def config(self, values: Mapping[str, SettingValue]) -> Training:
        """Return the config with these values."""
        return apply_settings(self.base, values)

    def start(self) -> dict[str, SettingValue] | None:
        """Return the values of the base itself, or None if the search cannot find it."""
        values = {name: read_setting(self.base, name) for name in self.domains}
        return values if all(values[name] in domain for name, domain in self.domains.items()) else None


SEARCHED: Mapping[type[Loss | Sampling], Mapping[str, str]] = {
    Hinge: {"margin": "0.25..2.0"},
    Softmin: {"temperature": "0.03..1.0:log"},
    Popularity: {"beta": "0.0..1.0"},
    TwoStage: {"beta": "0.0..1.0", "sharpness": "0.005..0.1:log"},
    Hard: {"candidates": "2..50:log"},
    SemiHard: {"candidates": "2..50:log"},
}
"""Fields of the losses and samplers that are searched by default."""


def default_search(config: Training) -> dict[str, Domain]:
    """Return the search that suits the config's loss and sampler; of your own ones, nothing is searched.

    Dimensions, negatives and batch size are not searched: more of them are mostly better and always slower, so the
    answer would be the largest allowed. Neither are softmin's γ and the β of its negatives: they decide how popular
    lists are, which is a matter of taste.
    """
    loss, sampler = config.loss, config.sampler
    searches = {"optimizer.learning_rate": "0.0003..0.01:log"}
    searches |= {f"loss.{name}": values for name, values in SEARCHED.get(type(loss), {}).items()}
    searches |= {f"sampler.{name}": values for name, values in SEARCHED.get(type(sampler), {}).items()}
    if isinstance(loss, Softmin):
        searches.pop("sampler.beta", None)
    if isinstance(sampler, TwoStage) and sampler.vectors == "frozen":
        del searches["sampler.sharpness"]
    return parse_searches([f"{name}={values}" for name, values in searches.items()])


def parse_searches(searches: Sequence[str]) -> dict[str, Domain]:
    """Return the domain that each NAME=RANGE or NAME=CHOICES asks for, by the name of the field."""
    domains: dict[str, Domain] = {}
    for search in searches:
        name, _, text = (part.strip() for part in search.partition("="))
        if not name or not text or name in domains:
            raise ArgumentError(
                f"each --search must be NAME=RANGE or NAME=CHOICES, e.g. sampler.beta=0.1..1.0, with another name, got "
                f"{quote(search)}"
            )
        try:
            domains[name] = _parse_domain(text)
        except ArgumentError as error:
            raise ArgumentError(f"--search {name}: {error}") from None
    return domains


def format_value(value: SettingValue | None) -> str:
    """Return a value as searches write it; None, which depends on the data, is "auto"."""
    return "auto" if value is None else value if isinstance(value, str) else json.dumps(value)


def _parse_domain(text: str) -> Domain:
    if ".." not in text:
        return Choices(tuple(_parse_value(choice.strip()) for choice in text.split(",")))
    low, _, rest = text.replace(" ", "").partition("..")
    high, _, how = rest.partition(":")
    numbers = [_parse_value(number) for number in (low, high, *([how] if how not in ("", "log") else []))]
    if not all(type(number) in (int, float) for number in numbers):
        raise ArgumentError(f"{quote(text)} is not a range of numbers; {_FORMS}")
    first, last, *step = cast("list[float]", numbers)
    return Range(first, last, how == "log", step[0] if step else None)


def _parse_value(text: str) -> SettingValue:
    """Return a number, true or false as JSON writes it; anything else is a word."""
    with suppress(ValueError):
        value = json.loads(text)
        if isinstance(value, bool | int | float):
            return value
    if not _WORD.fullmatch(text):
        raise ArgumentError(f"{quote(text)} is neither a number nor a word; {_FORMS}")
    return text


def _convert_domain(config: Training, name: str, domain: Domain) -> Domain:
    """Return the domain in the type of its field."""
    if isinstance(domain, Choices):
        return Choices(tuple(_convert_value(config, name, value) for value in domain.values))
    low, high = (_convert_value(config, name, end) for end in (domain.low, domain.high))
    if isinstance(low, int) and not isinstance(domain.step, int | None):
        raise ArgumentError(f"{name} has whole numbers, so its step must be one, got {domain}")
    return Range(low, high, domain.log, None if domain.step is None else type(low)(domain.step))


def _convert_value(config: Training, name: str, value: SettingValue) -> Any:
    try:
        return read_setting(apply_settings(config, {name: value}), name)
    except ArgumentError as error:
        raise ArgumentError(f"cannot search {name}: {error}") from None


def apply_settings(config: Training, settings: Settings) -> Training:
    """Return the config with these settings changed."""
    changes = [nest(name, value) for name, value in settings.items()]
    return config.change(reduce(overlay, changes, {}))


def read_setting(config: Training, name: str) -> Any:
    """Return the value of one setting."""
    return reduce(lambda value, part: value[part], name.split("."), config.to_dict())


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
