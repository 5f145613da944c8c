"""Which settings a model is tried with: its default first, then random ones, none twice."""

import math
from typing import Any

from spherec import rng
from spherec.compare.contender import Space
from spherec.errors import ArgumentError


def draws(space: Space, trials: int, *, seed: int, name: str, fold: int) -> list[dict[str, Any]]:
    """So many settings out of all combinations of the values; all of them if they are fewer.

    What is drawn for one model and fold does not depend on any other.
    """
    if not isinstance(trials, int) or isinstance(trials, bool) or trials < 1:
        raise ArgumentError(f"trials must be a whole number >= 1, got {trials!r}")
    size = math.prod(len(values) for values in space.values())
    others = rng.stream(seed, f"settings of {name}", fold).permutation(size - 1)[: trials - 1] + 1
    return [_combination(space, int(number)) for number in (0, *others)]


def _combination(space: Space, number: int) -> dict[str, Any]:
    """The combination of this number; 0 has the first value of every setting."""
    chosen = {}
    for name, values in space.items():
        number, at = divmod(number, len(values))
        chosen[name] = values[at]
    return chosen
