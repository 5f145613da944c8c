"""What to search, as people write it.

sampler.beta=0.1..1.0                    from … to, both included
optimizer.learning_rate=1e-4..1e-2:log   as likely between 1e-4 and 1e-3 as between 1e-3 and 1e-2
dim=32..256:32                           in steps
dim=64,128,256                           one of these; numbers, words (constraint=sphere,ball), true and false
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from spherec.errors import ArgumentError

Value = bool | int | float | str

_NUMBER = r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"  # no .5, for 2...5 would be 2.. .5
_RANGE = re.compile(rf"(?P<low>{_NUMBER})\.\.(?P<high>{_NUMBER})(?::(?P<how>log|{_NUMBER}))?")
_WORD = re.compile(r"[A-Za-z][\w-]*")
_FORMS = "write A..B, A..B:log, A..B:STEP, or choices with commas between"


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, both included."""

    low: int | float
    high: int | float
    log: bool = False
    "Whether the logarithm is spread evenly, instead of the number."
    step: int | float | None = None
    "Between two neighbours; if nothing is said, whole numbers where the field has them, any number elsewhere."

    def __post_init__(self) -> None:
        if not abs(self.low) < float("inf") or not abs(self.high) < float("inf"):
            raise ArgumentError(f"a range must have finite ends, got {self}")
        if not self.low < self.high:
            raise ArgumentError(f"a range must begin below its end, got {self}")
        if self.log and not self.low > 0:
            raise ArgumentError(f"a range with :log must begin above 0, got {self}")
        if self.step is not None:
            if self.log:
                raise ArgumentError(f"a range has :log or a step, not both, got {self}")
            if not 0 < self.step < float("inf"):
                raise ArgumentError(f"a step must be > 0, got {self}")
            if self._steps_to(self.high) % 1:
                raise ArgumentError(f"a range must be a whole number of steps long, got {self}")

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | float) or isinstance(value, bool) or not self.low <= value <= self.high:
            return False
        return self.step is None or not self._steps_to(value) % 1

    def __str__(self) -> str:
        how = ":log" if self.log else "" if self.step is None else f":{self.step!r}"
        return f"{self.low!r}..{self.high!r}{how}"

    def _steps_to(self, value: float) -> Decimal:
        """From low; in decimals, for 0.1 is no binary number."""
        return (Decimal(repr(value)) - Decimal(repr(self.low))) / Decimal(repr(self.step))


@dataclass(frozen=True)
class Choices:
    """One of a few values."""

    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if len(self.values) < 2:
            raise ArgumentError(f"there must be at least two choices, got {self}; a fixed value goes to --set")
        if len({str(value) for value in self.values}) < len(self.values):
            raise ArgumentError(f"choices must differ, got {self}")

    def __contains__(self, value: object) -> bool:
        return any(type(value) is type(one) and value == one for one in self.values)

    def __str__(self) -> str:
        return ",".join(shown(value) for value in self.values)


Domain = Range | Choices


def parsed(searches: Sequence[str]) -> dict[str, Domain]:
    """What each of `NAME=RANGE` and `NAME=CHOICES` asks to search, by the name of the field."""
    found: dict[str, Domain] = {}
    for search in searches:
        name, equals, text = (part.strip() for part in search.partition("="))
        if not equals or not name or not text:
            raise ArgumentError(
                f"--search needs NAME=RANGE or NAME=CHOICES, e.g. sampler.beta=0.1..1.0, got {search!r}"
            )
        if name in found:
            raise ArgumentError(f"{name} is searched twice, as {found[name]} and as {text}; give it once")
        try:
            found[name] = _domain(text)
        except ArgumentError as error:
            raise ArgumentError(f"--search {name}: {error}") from None
    return found


def shown(value: Value | None) -> str:
    """A value as it is written; None goes by the data."""
    if value is None:
        return "auto"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def _domain(text: str) -> Domain:
    if ".." in text:
        match = _RANGE.fullmatch(text.replace(" ", ""))
        if match is None:
            raise ArgumentError(f"{text!r} is not a range of numbers; {_FORMS}")
        how = match["how"]
        low, high = _number(match["low"]), _number(match["high"])
        return Range(low, high, how == "log", _number(how) if how and how != "log" else None)
    return Choices(tuple(_value(part.strip()) for part in text.split(",")))


def _value(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(_NUMBER, text):
        return _number(text)
    if not _WORD.fullmatch(text):
        raise ArgumentError(f"{text!r} is neither a number nor a word; {_FORMS}")
    return text


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
