"""Settings by dotted names, such as "sampler.beta", and the values among which a search looks.

sampler.beta=0.1..1.0                    from … to, both included
optimizer.learning_rate=1e-4..1e-2:log   as likely between 1e-4 and 1e-3 as between 1e-3 and 1e-2
dim=32..256:32                           in steps
dim=64,128,256                           one of these; numbers, words (constraint=sphere,ball), true and false
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np

from spherec.errors import ArgumentError, quote
from spherec.lab.records import Settings
from spherec.losses import Hinge, Loss, Softmin
from spherec.sampling import Hard, Popularity, Sampling, SemiHard, TwoStage
from spherec.training import Training
from spherec.training.config import nest, overlay

SettingValue = bool | int | float | str

_NUMBER = r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"  # not .5, because 2...5 would be 2.. .5
_RANGE = re.compile(rf"(?P<low>{_NUMBER})\.\.(?P<high>{_NUMBER})(?::(?P<how>log|{_NUMBER}))?")
_WORD = re.compile(r"[A-Za-z][\w-]*")
_FORMS = "write A..B, A..B:log, A..B:STEP, or comma-separated choices"
_GRID = 5  # values of a range in a grid


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, both included."""

    low: int | float
    high: int | float
    log: bool = False
    "True if values are spread evenly over the logarithm."
    step: int | float | None = None
    "Distance of neighbours; by default 1 for fields with whole numbers, any number elsewhere."

    def __post_init__(self) -> None:
        conditions = {
            "have finite ends": abs(self.low) < float("inf") and abs(self.high) < float("inf"),
            "begin below its end": self.low < self.high,
            "begin above 0, because of :log": not self.log or self.low > 0,
            "have :log or a step, not both": not self.log or self.step is None,
            "have a step above 0": self.step is None or 0 < self.step < float("inf"),
        }
        conditions["be a whole number of steps long"] = (
            not all(conditions.values()) or self.step is None or not self._steps_to(self.high) % 1
        )
        if broken := [condition for condition, holds in conditions.items() if not holds]:
            raise ArgumentError(f"a range must {broken[0]}, got {self}")

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | float) or isinstance(value, bool) or not self.low <= value <= self.high:
            return False
        return self.step is None or not self._steps_to(value) % 1

    def __str__(self) -> str:
        how = ":log" if self.log else "" if self.step is None else f":{self.step!r}"
        return f"{self.low!r}..{self.high!r}{how}"

    def grid(self) -> tuple[SettingValue, ...]:
        """Return a few values spread over the range, for a search that takes only a list."""
        if self.step is not None:
            steps = np.linspace(0, int(self._steps_to(self.high)), _GRID).round()
            return tuple(dict.fromkeys(self.low + int(step) * self.step for step in steps))
        values = (np.geomspace if self.log else np.linspace)(self.low, self.high, _GRID)
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

    base: Training
    "Config with the values of all settings that are not searched."
    domains: Mapping[str, Domain]
    "Domains by dotted names; sorted, so that draws do not depend on the order in which they were given."

    @classmethod
    def build(cls, base: Training, searches: Mapping[str, Domain]) -> "SearchSpace":
        """Check all settings against the config, and give numbers the type of their field."""
        if not searches:
            raise ArgumentError("there is nothing to search; name at least one field, e.g. sampler.beta=0.1..1.0")
        domains: dict[str, Domain] = {}
        for kinds in _combinations_of_kinds(searches):
            config = apply_settings(base, kinds)
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
    if value is None:
        return "auto"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def _parse_domain(text: str) -> Domain:
    if ".." in text:
        match = _RANGE.fullmatch(text.replace(" ", ""))
        if match is None:
            raise ArgumentError(f"{quote(text)} is not a range of numbers; {_FORMS}")
        how = match["how"]
        low, high = _parse_number(match["low"]), _parse_number(match["high"])
        return Range(low, high, how == "log", _parse_number(how) if how and how != "log" else None)
    return Choices(tuple(_parse_value(choice.strip()) for choice in text.split(",")))


def _parse_value(text: str) -> SettingValue:
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(_NUMBER, text):
        return _parse_number(text)
    if not _WORD.fullmatch(text):
        raise ArgumentError(f"{quote(text)} is neither a number nor a word; {_FORMS}")
    return text


def _parse_number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)


def _combinations_of_kinds(searches: Mapping[str, Domain]) -> Iterator[dict[str, Any]]:
    """Return the settings of each combination of kinds; empty ones where no kind is searched."""
    names = [name for name in searches if name.endswith(".kind")]
    choices = [domain.values if isinstance(domain := searches[name], Choices) else (domain,) for name in names]
    for kinds in itertools.product(*choices):
        yield {name: str(kind) for name, kind in zip(names, kinds, strict=True)}


def _convert_domain(config: Training, name: str, domain: Domain) -> Domain:
    """Return the domain in the type of its field."""
    if isinstance(domain, Choices):
        return Choices(tuple(_convert_value(config, name, value) for value in domain.values))
    low, high = (_convert_value(config, name, end) for end in (domain.low, domain.high))
    step = domain.step
    if isinstance(low, float) and step is not None:
        step = float(step)
    if isinstance(low, int) and not isinstance(step, int | None):
        raise ArgumentError(f"{name} has whole numbers, so its step must be one, got {domain}")
    return Range(low, high, domain.log, step)


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
