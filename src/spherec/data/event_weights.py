"""Weights of events: by kind (view, cart, purchase), by age, and kinds that take an earlier event back.

A pair weighs the sum over its events of kind weight × 2^(−age / half-life), at most a cap. Age counts from the newest
event of all. Pairs of which nothing is left, because all was taken back, are no pairs; those below 0 are dislikes.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherec.data.events import Events, pair_keys, refuse_two_units
from spherec.data.ids import is_missing
from spherec.errors import ArgumentError, DataError, check_number, quote

_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365.25 * 86_400}
_SPAN = re.compile(rf"(\d+(?:\.\d*)?) *({'|'.join(_UNITS)})")
_MILLISECONDS = 1e11  # since 1970: in 1973; as seconds they were in the year 5138
_MOST_KINDS = 5  # named in a record


@dataclass(frozen=True)
class EventWeights:
    """Weight of each kind of event, kinds that take another back, half-life and cap."""

    event: str | None = None
    "Column of kinds."
    weights: Mapping[str, float] | None = None
    "Weight of each kind that counts, e.g. {'view': 1, 'purchase': 10}; below 0 a dislike. None: each event weighs 1."
    cancels: Mapping[str, str] | None = None
    "Kinds that take back the latest earlier event of another kind, e.g. {'refund': 'purchase'}."
    half_life: str | float | None = None
    "Age at which an event weighs half: '90d' (s, min, h, d, w, y), or a number in the unit of the times."
    max_weight: float | None = None
    "Largest weight of a pair."

    def __post_init__(self) -> None:
        kinds, cancels = self.weights or {}, self.cancels or {}
        if (self.event is None) is not (self.weights is None):
            raise ArgumentError(
                "event= (--event-column) and weights= (--event-weights) go together; name the column of kinds, and the "
                "weight of each that counts, such as {'view': 1, 'purchase': 10}"
            )
        for kind, weight in kinds.items():
            check_number(f"the weight of {quote(kind)}", weight, -1e9, 1e9, "1")
        if kinds and not any(weight > 0 for weight in kinds.values()):
            raise ArgumentError("weights= needs a kind that weighs more than 0, such as {'purchase': 10}")
        for kind, other in cancels.items():
            if kind in kinds or other not in kinds:
                wanted = f"a kind without a weight, and one of {', '.join(map(quote, kinds)) or 'weights='}"
                raise ArgumentError(f"cancels needs {wanted}, got {quote(kind)}: {quote(other)}")
        check_number("max_weight", 1 if self.max_weight is None else self.max_weight, 1e-9, 1e9, "50")
        self._span(0.0)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "EventWeights | None":
        """Return the weights that some of the settings name, beside which no other may weigh; None where none does."""
        own = {field.name: settings.get(field.name) for field in fields(cls)}
        if all(value is None for value in own.values()):
            return None
        if others := [name for name in ("value", "duplicates") if settings.get(name) is not None]:
            raise ArgumentError(f"the kinds and ages of events weigh pairs; leave out {' and '.join(others)}")
        return cls(**own)

    @property
    def names(self) -> tuple[str, ...]:
        """All kinds that are read; a kind's place here is its number."""
        return (*map(str, self.weights or ()), *map(str, self.cancels or ()))

    def select(self, events: Events, column: Iterable[Hashable]) -> Events:
        """Return the events of kinds that count, by their kinds (E,)."""
        place = {name: number for number, name in enumerate(self.names)}
        texts = ["" if is_missing(kind) else str(kind) for kind in column]
        numbers = np.array([place.get(text, -1) for text in texts], dtype=np.int16)  # (E,)
        others = describe_kinds(Counter(text for text in texts if text not in place))
        if not np.any(numbers >= 0):
            raise DataError(f"no event is of kind {', '.join(self.names)}, but there are {others}; name others")
        return replace(events, kinds=numbers).filter(numbers >= 0, f"without {others}" if others else "")

    def __call__(self, events: Events) -> Events:
        """Return one event a pair that weighs more than 0, by user, then item, its weight as value; and the dislikes.

        Equal times are in the order of the file, and so are all events if there are no times.
        """
        times = events.times
        if times is not None:
            refuse_two_units(float(times.min()), float(times.max()))
        elif self.half_life is not None:
            raise DataError("half_life= needs times; name their column with time= (--time-column)")
        keys = pair_keys(events.users, events.items, len(events.item_ids))  # (E,)
        order = np.argsort(keys, kind="stable") if times is None else np.lexsort((times, keys))
        keys = keys[order]
        first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))  # (P,) of each pair
        weights = np.ones(len(events))
        if events.kinds is not None:
            of_kind = np.array([*(self.weights or {}).values(), *(0 for _ in self.cancels or ())], dtype=np.float64)
            kinds = events.kinds[order]
            weights = of_kind[kinds]
            weights[self._taken_back(keys, kinds)] = 0
        counts = weights != 0  # (E,)
        if times is not None:
            times = times[order]
            if self.half_life is not None:
                weights *= np.exp2((times - times.max()) / self._span(float(times.max())))
            times = np.maximum.reduceat(np.where(counts, times, -np.inf), first)  # (P,) of the last that counts
        sums = np.add.reduceat(weights, first)  # (P,)
        sums = sums if self.max_weight is None else np.minimum(sums, self.max_weight)
        n_gone, liked, disliked = int(np.count_nonzero(sums == 0)), sums > 0, order[first[sums < 0]]
        users, items = events.users[order[first[liked]]], events.items[order[first[liked]]]
        rest = {"values": sums[liked], "times": None if times is None else times[liked], "kinds": None}
        pairs = np.stack([events.users[disliked], events.items[disliked]], 1) if len(disliked) else None  # (D, 2)
        found = replace(events, users=users, items=items, disliked=pairs, **rest)  # type: ignore[arg-type]
        if not len(users):
            raise DataError(
                f"nothing is left of {len(events):,} events: no pair weighs more than 0; change the weights"
            )
        told = [f"{n_gone:,} that weigh nothing"] * bool(n_gone) + [f"{len(disliked):,} dislikes"] * bool(len(disliked))
        how = f"{self}, in order of {'time' if times is not None else 'the file'}"
        return found.with_step(f"weigh pairs ({how})" + (f", without {' and '.join(told)}" if told else ""))

    def _taken_back(self, keys: NDArray[np.int64], kinds: NDArray[np.int16]) -> list[int]:
        """Return the places of events that a later one of their pair takes back; pairs (E,) and times ascend."""
        names = self.names
        target = {names.index(str(one)): names.index(str(other)) for one, other in (self.cancels or {}).items()}
        concerned = np.isin(kinds, [*target, *target.values()])
        concerned &= np.isin(keys, keys[np.isin(kinds, [*target])])
        open_events: dict[tuple[int, int], list[int]] = {}  # by pair and kind, those that nothing took back yet
        gone: list[int] = []
        places = np.flatnonzero(concerned)
        for place, key, kind in zip(places.tolist(), keys[places].tolist(), kinds[places].tolist(), strict=True):
            if kind not in target:
                open_events.setdefault((key, kind), []).append(place)
            elif earlier := open_events.get((key, target[kind])):
                gone.append(earlier.pop())
        return gone

    def _span(self, newest: float) -> float:
        """Return the half-life in the unit of times of which this is the newest: seconds, or milliseconds."""
        if isinstance(self.half_life, str):
            found = _SPAN.fullmatch(self.half_life)
            if found and float(found[1]) > 0:
                return float(found[1]) * _UNITS[found[2]] * (1000 if newest >= _MILLISECONDS else 1)
        elif self.half_life is None or (not isinstance(self.half_life, bool) and self.half_life > 0):
            return self.half_life or 1.0
        raise ArgumentError(
            f"half_life must be a time such as '90d' ({', '.join(_UNITS)}), got {quote(self.half_life)}"
        )

    def __str__(self) -> str:
        parts = [", ".join(f"{kind} {weight:g}" for kind, weight in (self.weights or {"event": 1}).items())]
        parts += [f"{kind} cancels {other}" for kind, other in (self.cancels or {}).items()]
        parts += [] if self.half_life is None else [f"half-life {self.half_life}"]
        parts += [] if self.max_weight is None else [f"at most {self.max_weight:g}"]
        return "; ".join(parts)


EVENT_RULES = [field.name for field in fields(EventWeights)]


def describe_kinds(left_out: Counter[str]) -> str:
    """Return the kinds that were left out, and how many events of each."""
    common = left_out.most_common(_MOST_KINDS)
    rest = left_out.total() - sum(number for _, number in common)
    shown = [f"{number:,} events of {f'kind {quote(kind)}' if kind else 'no kind'}" for kind, number in common]
    return " and ".join(shown + [f"{rest:,} of other kinds"] * bool(rest))
