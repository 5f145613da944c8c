"""Settings by dotted names, such as "sampler.beta", and the values among which a search looks.

sampler.beta=0.1..1.0                    from … to, both included
optimizer.learning_rate=1e-4..1e-2:log   as likely between 1e-4 and 1e-3 as between 1e-3 and 1e-2
dim=32..256:32                           in steps
dim=64,128,256                           one of these; numbers, words (constraint=sphere,ball), true and false
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from spherec.errors import ArgumentError, quote
from spherec.lab.records import Settings
from spherec.losses import Hinge, Loss, Softmin
from spherec.sampling import Hard, Popularity, Sampling, SemiHard, TwoStage
from spherec.training import Training
from spherec.training.config import overlay

SettingValue = bool | int | float | str


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, both included."""

    low: int | float
    high: int | float
    log: bool = False  # spread evenly over the logarithm
    step: int | float | None = None  # by default 1 for fields with whole numbers, any number elsewhere

    def __post_init__(self) -> None:
        in_order = -math.inf < self.low < self.high < math.inf and (self.low > 0 or not self.log)
        if not in_order or (self.step is not None and (self.log or not 0 < self.step < math.inf)):
            raise ArgumentError(
                f"a range must have finite ends, the lower one first, above 0 with :log, or a step above 0, got {self}"
            )

    def __contains__(self, value: Any) -> bool:
        steps = 0 if self.step is None else (value - self.low) / self.step
        return bool(self.low <= value <= self.high) and math.isclose(steps, round(steps), rel_tol=1e-9, abs_tol=1e-9)

    def __str__(self) -> str:
        how = ":log" if self.log else "" if self.step is None else f":{self.step!r}"
        return f"{self.low!r}..{self.high!r}{how}"


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


Domain = Range | Choices
"""The values that a setting may have."""


@dataclass(frozen=True)
class SearchSpace:
    """The configs that a search may find."""

    base: Training  # the values of all settings that are not searched
    domains: Mapping[str, Domain]  # by sorted names: draws do not depend on the order in which they were given

    @classmethod
    def build(cls, config: Any, searches: Sequence[str] | Mapping[str, "Domain"] | None = None) -> "SearchSpace":
        """Check all searches against a `Training` or a `CML`, and give numbers the type of their field."""
        base = getattr(config, "config", config)
        if not isinstance(base, Training):
            raise ArgumentError(f"config must be a Training or a CML, got {quote(config)}")
        if searches is None:
            searches = default_search(base)
        searches = searches if isinstance(searches, Mapping) else parse_searches(searches)
        if not searches:
            raise ArgumentError("there is nothing to search; name at least one field, e.g. sampler.beta=0.1..1.0")
        domains: dict[str, Domain] = {}
        for name in sorted(searches):
            try:
                domains[name] = _convert(searches[name], base, name)
            except ArgumentError as error:
                raise ArgumentError(f"cannot search {name}={searches[name]}: {error}") from None
        return cls(base, domains)

    def config(self, values: Settings) -> Training:
        return apply_settings(self.base, values)

    def start(self) -> dict[str, SettingValue] | None:
        """Return the values of the base itself, or None if the search cannot find it."""
        values = {name: read_setting(self.base, name) for name in self.domains}
        known = all(values[name] is not None and values[name] in domain for name, domain in self.domains.items())
        return values if known else None


def _convert(domain: Domain, config: Training, name: str) -> Domain:
    """Return the domain with values of the type that this field of the config has."""
    given = domain.values if isinstance(domain, Choices) else (domain.low, domain.high)
    values = tuple(read_setting(apply_settings(config, {name: value}), name) for value in given)
    if isinstance(domain, Choices):
        return Choices(values)
    low, high = values
    return Range(low, high, domain.log, None if domain.step is None else type(low)(domain.step))


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
    searches = {"optimizer.learning_rate": "0.0003..0.01:log"}
    for part, kind in (("loss", type(config.loss)), ("sampler", type(config.sampler))):
        searches |= {f"{part}.{name}": values for name, values in SEARCHED.get(kind, {}).items()}
    if isinstance(config.loss, Softmin):
        searches.pop("sampler.beta", None)
    if isinstance(config.sampler, TwoStage) and config.sampler.vectors == "frozen":
        del searches["sampler.sharpness"]
    return parse_searches([f"{name}={values}" for name, values in searches.items()])


def parse_searches(searches: Sequence[str]) -> dict[str, Domain]:
    """Return the domain that each NAME=RANGE or NAME=CHOICES asks for, by the name of the field."""
    domains: dict[str, Domain] = {}
    for search in searches:
        name, _, text = (part.strip() for part in search.partition("="))
        try:
            domains[name] = _parse_domain(text)
        except ValueError as error:
            raise ArgumentError(
                f"cannot search {search}: {error}; write NAME=A..B, NAME=A..B:log, NAME=A..B:STEP, or NAME= and "
                "comma-separated choices"
            ) from None
    return domains


def format_value(value: SettingValue | None) -> str:
    """Return a value as searches write it; None, which depends on the data, is "auto"."""
    return "auto" if value is None else value if isinstance(value, str) else json.dumps(value)


def _parse_domain(text: str) -> Domain:
    if ".." not in text:
        return Choices(tuple(_parse_value(choice.strip()) for choice in text.split(",")))
    low, _, rest = text.partition("..")
    high, _, how = rest.partition(":")
    is_log = how.strip() == "log"
    return Range(_parse_number(low), _parse_number(high), is_log, _parse_number(how) if how and not is_log else None)


def _parse_number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _parse_value(text: str) -> SettingValue:
    """Return a number, true or false as JSON writes it; anything else is a word."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text


def apply_settings(config: Training, settings: Settings) -> Training:
    return config.change(overlay({}, settings))


def read_setting(config: Training, name: str) -> Any:
    return reduce(lambda value, part: value[part], name.split("."), config.to_dict())


def flatten(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return a nested table with dotted names: {"sampler": {"beta": 1}} becomes {"sampler.beta": 1}."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        flat |= flatten(value, f"{path}{name}.") if isinstance(value, Mapping) else {f"{path}{name}": value}
    return flat
