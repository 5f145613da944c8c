"""Settings of a run: everything that decides what it learns, except the data; presets, and advice about settings."""

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache
from types import UnionType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, check_choice, quote, suggest
from spherec.geometry import Constraint, Space
from spherec.ials import Ials
from spherec.losses import LOSSES, Hinge, Loss, Softmin, UnknownLoss
from spherec.losses.softmin import temperature_for
from spherec.optim import Adam
from spherec.sampling import SAMPLERS, Popularity, Sampling, TwoStage, UnknownSampling
from spherec.start import Random, Start

_EPOCHS_BETWEEN_LOOKS, _STEPS_BETWEEN_LOOKS = 2, 500

_FAR_BELOW = 0.7  # of the temperature that comes from the data
_AUTO = "auto"  # stands in TOML, which has no null, for a value that depends on the data or on other settings
# Settings that the first records do not have, with their defaults.
_NEWER = (
    ("reach", False),
    ("mainstream", 1.0),
    ("feature_dropout", 0.5),
    ("effort", 1.0),
    ("start", {"kind": "Random"}),
)

# Of each part of the settings: its base class, its kinds by name, and what stands for one of an unknown kind.
_PARTS: dict[str, tuple[type, Mapping[str, Any], Any]] = {
    "loss": (Loss, LOSSES, UnknownLoss),
    "sampler": (Sampling, SAMPLERS, UnknownSampling),
    "optimizer": (Adam, {"Adam": Adam}, None),
    "start": (Start, {"Random": Random, "Ials": Ials}, None),
}

# The least and the largest value of a setting, where they are not 0 and infinity.
_LEAST = {"dim": 2, "subspace_dim": 2, "mainstream": -100, "effort": 1e-3}
_LEAST |= dict.fromkeys(("batch_size", "validate_every", "patience"), 1)
_MOST = {"mainstream": 100, "effort": 1e3, "feature_dropout": 0.99}  # at 1 no item would learn its own row
_TYPE_NAMES = {float: "a number", int: "a whole number", bool: "true or false", str: "text"}


@dataclass(frozen=True)
class Training:
    """Settings of a run.

    The defaults are those of the preset `two-stage`: the paper's loss, dimensions, margin and batch size, with the
    two-stage sampler as it works best on live vectors, a learning rate ten times the paper's (it trains as well, in a
    tenth of the time) and no penalty.
    """

    dim: int = 128
    "D, dimensions of the space."
    subspace_dim: int | None = None
    "Dimensions of a subspace, at most: D is divided into as few equal ones as that takes, by default one."
    constraint: Constraint = "sphere"
    "Space of the vectors: the unit sphere, or (the original CML) the unit ball."
    reach: bool = False
    """True gives each item one more number in each subspace, its reach b, which adds λτb to all its scores. Training
    draws λ from 0 to 1 for each pair, so that the model suits every place of this dial. Only on the sphere."""
    mainstream: float = 1.0
    "λ of lists by default: 1 the most popular ones, 0 none of the reach, below 0 the long tail."
    loss: Loss = field(default_factory=Hinge)
    "Loss to minimise."
    sampler: Sampling = field(default_factory=TwoStage)
    "Sampler of negatives."
    optimizer: Adam = field(default_factory=Adam)
    "Optimiser of the rows."
    start: Start = field(default_factory=Random)
    "First vectors: random, or factors in closed form."
    covariance: float = 0.0
    "Weight of the covariance penalty of the original CML."
    spread_out: float = 0.0
    "λ_g, weight of the global orthogonal regularisation (equation 3 of the paper)."
    balance: float = 0.0
    "ρ: the loss of a pair weighs n^−ρ for n items of its user. 0 counts all pairs alike, 1 all users, as metrics do."
    feature_dropout: float = 0.5
    "Share of the items with features that a step places by these alone, as it will those that nobody has."
    batch_size: int = 256
    "B, positive pairs in a step."
    epochs: int | None = None
    """Passes over the pairs, at most; 0 leaves the start as it is. By default 100, or enough for 10,000 steps; with
    softmin 30, or 3,000 steps."""
    effort: float = 1.0
    "Share of the default epochs to train for. It does nothing if epochs are given."
    validate_every: int | None = None
    """Epochs between two validations; the last epoch is always validated. By default 2, or enough for 500 steps. With a
    schedule, only the last one: before it the rate is still high."""
    patience: int = 10
    "Validations without a new best after which training ends; the best vectors are kept."
    seed: int = 0
    "Seed of everything random."

    def __post_init__(self) -> None:
        for name, hint in _hints_of(Training).items():
            value = _check_type(getattr(self, name), hint, name)
            least, most = _LEAST.get(name, 0), _MOST.get(name, math.inf)
            if isinstance(value, int | float) and not least <= value <= most:
                bounds = f">= {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
                raise ArgumentError(f"{name} must be {bounds}, got {quote(value)}")
            object.__setattr__(self, name, value)
        if left := self.dim % self.subspaces:
            raise ArgumentError(
                f"dim {self.dim} cannot be divided into {self.subspaces} equal subspaces of at most "
                f"{self.subspace_dim} dimensions; give a dim of {self.dim - left + self.subspaces}, or another "
                "subspace_dim"
            )
        if self.reach and self.constraint != "sphere":
            raise ArgumentError("reach needs constraint 'sphere'; in the ball an item's length plays its part")
        if self.epochs == 0 and isinstance(self.start, Random):
            raise ArgumentError(
                "epochs is 0, and random vectors know nothing; give at least 1, or start={'kind': 'Ials'}"
            )
        for name, (base, kinds, _) in _PARTS.items():
            kind = type(part := getattr(self, name))
            if not isinstance(part, base) or kinds.get(kind.__name__, kind) is not kind:
                raise ArgumentError(
                    f"{name} must be {' or '.join(kinds)} or an object of your own subclass of {base.__module__}."
                    f"{base.__name__} with another name, got {quote(part)}"
                )

    @property
    def subspaces(self) -> int:
        """P, number of subspaces."""
        return -(-self.dim // self.subspace_dim) if self.subspace_dim else 1

    @property
    def space(self) -> Space:
        """The space of the vectors."""
        return Space(self.constraint, self.dim, self.mainstream, self.loss.distance_scale if self.reach else None)

    def resolve(self, data: Interactions) -> "Training":
        """Return the settings with those of the loss filled in that come from the data."""
        return replace(self, loss=self.loss.resolve(data, self.dim))

    def plan(self, pairs: int) -> "Plan":
        """Return the length of a run on this many pairs, with every default filled in."""
        steps = -(-pairs // self.batch_size)  # in an epoch
        usual_epochs = max(self.loss.default_epochs, -(-self.loss.default_steps // steps))
        epochs = (
            math.ceil(self.effort * self.loss.lengthen(self.dim) * usual_epochs) if self.epochs is None else self.epochs
        )
        usual_looks = max(_EPOCHS_BETWEEN_LOOKS, -(-_STEPS_BETWEEN_LOOKS // steps))
        return Plan(
            epochs=epochs,
            validate_every=self.validate_every or (usual_looks if self.optimizer.schedule == "constant" else epochs),
            steps=epochs * steps,
        )

    def change(self, changes: Mapping[str, Any]) -> "Training":
        """Return a copy with nested changes: `{"dim": 64, "sampler": {"kind": "Uniform", "negatives": 5}}`.

        A part that changes its kind begins from the defaults of the new kind. An unknown name, a value of another type
        or an unknown kind is an `ArgumentError`.
        """
        changed: Training = _change(Training, self, changes, "")
        return changed

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain data, each part with the name of its class as `kind`."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: _part_to_dict(value) if name in _PARTS else value for name, value in values.items()}

    def to_record(self) -> dict[str, Any]:
        """Return the settings as files and records hold them: without newer ones at their defaults."""
        return {name: value for name, value in self.to_dict().items() if (name, value) not in _NEWER}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "Training":
        """Return the settings that `to_dict` wrote; fields that are missing have their defaults.

        A loss or sampler of a class of the user's own becomes a placeholder; training with it asks for the class.
        """
        made: Training = _change(cls, None, settings, "")
        return made

    def to_toml(self) -> str:
        """Return the settings as TOML, which `spherec train --config` reads."""
        lines: list[str] = []
        # Tables come after all scalars. JSON writes numbers, strings, booleans and lists as TOML does.
        for name, value in sorted(self.to_dict().items(), key=lambda setting: isinstance(setting[1], dict)):
            lines += [f"\n[{name}]"] if isinstance(value, dict) else []
            part = value if isinstance(value, dict) else {name: value}
            lines += [f"{key} = {json.dumps(_AUTO if one is None else one)}" for key, one in part.items()]
        return "\n".join(lines)


class Plan(NamedTuple):
    """Length of a run."""

    epochs: int
    "Passes over the pairs, at most."
    validate_every: int
    "Epochs between two validations."
    steps: int
    "Steps, at most."

    def is_due(self, epoch: int) -> bool:
        """Tell whether an epoch, counted from 0, ends with a validation."""
        return (epoch + 1) % self.validate_every == 0 or epoch + 1 == self.epochs


def _part_to_dict(part: Loss | Sampling | Adam) -> dict[str, Any]:
    if isinstance(part, UnknownLoss | UnknownSampling):
        return {"kind": part.kind, **part.settings}
    values = asdict(part) if is_dataclass(part) and not isinstance(part, type) else vars(part)
    return {"kind": type(part).__name__, **{name: _plain(value) for name, value in values.items()}}


def _plain(value: Any) -> Any:
    """Return a value as JSON reads it back; what JSON has no form for, by its name or as its repr."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return getattr(value, "__qualname__", None) or repr(value)


def _change(cls: Any, base: Any, changes: Mapping[str, Any], path: str) -> Any:
    """Return a dataclass with changes to its defaults or to `base`; `path` is its dotted name, for messages."""
    hints, values = _hints_of(cls), {}
    for name, value in changes.items():
        where = f"{path}{name}"
        if name not in hints:
            kinds = _PARTS[path.rstrip(".")][1] if path else {}
            having = [kind for kind, other in kinds.items() if name in _hints_of(other)]
            hint = f", but of {', '.join(having)}; choose {path}kind, or a preset that has it" if having else ""
            hint = hint or suggest(name, hints) or f"; it has {', '.join(hints)}"
            raise ArgumentError(f"{where} is not a field of {cls.__name__}{hint}")
        is_part = where in _PARTS and isinstance(value, Mapping)
        part = None if base is None else getattr(base, name)
        values[name] = _change_part(part, value, name) if is_part else _check_type(value, hints[name], where)
    return cls(**values) if base is None else replace(base, **values)


def _change_part(part: Any, changes: Mapping[str, Any], where: str) -> Any:
    """Return the loss, sampler or optimiser with changes, among which may be its kind.

    Without a part to change, the settings are those of a file: an unknown kind becomes a placeholder.
    """
    settings, (_, kinds, placeholder) = dict(changes), _PARTS[where]
    kind = settings.pop("kind", None)
    if part is not None and kind in (None, type(part).__name__):
        if not is_dataclass(part) or isinstance(part, UnknownLoss | UnknownSampling):
            raise ArgumentError(f"the fields of {where} cannot be changed by name; pass an object of its class instead")
        return _change(type(part), part, settings, f"{where}.")
    if isinstance(kind, str) and kind in kinds:
        return _change(kinds[kind], None, settings, f"{where}.")
    if part is None and isinstance(kind, str) and placeholder:
        return placeholder(kind, settings)
    raise ArgumentError(f"{where}.kind must be one of {', '.join(kinds)}, got {quote(kind)}")


@cache
def _hints_of(cls: Any) -> dict[str, Any]:
    """Return the type of each field."""
    hints = get_type_hints(cls)
    return {one.name: hints[one.name] for one in fields(cls)}


def _check_type(value: Any, hint: Any, where: str) -> Any:
    """Return a setting, which must have the type of its field; NumPy's numbers become Python's, whole ones floats.

    "auto" is None, where that is allowed.
    """
    value = value.item() if isinstance(value, np.generic) else value
    wanted, or_auto = (get_args(hint)[0], " or 'auto'") if isinstance(hint, UnionType) else (hint, "")  # int | None
    if or_auto and (value is None or (isinstance(value, str) and value == _AUTO)):
        return None
    if get_origin(wanted) is Literal:
        check_choice(where, value, get_args(wanted))
    elif wanted in _TYPE_NAMES:
        is_number = type(value) in (int, float) and abs(value) <= sys.float_info.max
        if not (is_number if wanted is float else type(value) is wanted):
            raise ArgumentError(f"{where} must be {_TYPE_NAMES[wanted]}{or_auto}, got {quote(value)}")
        return wanted(value)
    return value


def overlay(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `changes` laid over it, table by table; {"a.b": 1} is {"a": {"b": 1}}."""
    result = dict(base)
    for path, value in changes.items():
        name, _, rest = path.partition(".")
        inner, change = result.get(name), {rest: value} if rest else value
        inner = inner if isinstance(inner, Mapping) else {}
        result[name] = overlay(inner, change) if isinstance(change, Mapping) else change
    return result


@dataclass(frozen=True)
class Preset:
    """Settings, and a sentence about their purpose."""

    training: Training
    what: str


_ACCURATE = Training(
    dim=1024,
    subspace_dim=256,
    reach=True,
    mainstream=0.6,
    loss=Softmin(),
    sampler=Popularity(negatives=2000, beta=0.5, shared=True),
    optimizer=Adam(learning_rate=3e-3, schedule="cosine"),
    balance=0.25,
    batch_size=1024,
)
_FAST = replace(
    _ACCURATE,
    dim=512,
    subspace_dim=None,
    start=Ials(),
    effort=0.2,
    batch_size=512,
    sampler=Popularity(negatives=250, beta=0.5, shared=True),
)
_QUICK = replace(
    _FAST,
    mainstream=0.75,
    epochs=0,
    optimizer=Adam(learning_rate=1e-3, schedule="cosine"),  # of updates: a higher rate destroys the start
)

PRESETS = {
    "fast": Preset(_FAST, "the default: a few epochs of softmin with reach, from a start in closed form"),
    "accurate": Preset(_ACCURATE, "the best lists: 30 epochs from random vectors, in four subspaces of 256 dimensions"),
    "quick": Preset(_QUICK, "good lists in seconds: the start of 'fast' alone, without training"),
    "two-stage": Preset(Training(), "the paper's method: hinge with two-stage sampling on live vectors, tuned"),
}
"""The only list of presets: help texts, documentation and comparisons are made from it."""

DEFAULT_PRESET = "fast"
"""The preset of `CML()` and `spherec train`."""


def find_preset(name: str) -> Training:
    """Return the settings of the preset of this name."""
    check_choice("preset", name, PRESETS)
    return PRESETS[name].training


def change_default(changes: Mapping[str, Any]) -> Training:
    """Return the settings of the default preset with changes.

    With a loss or sampler of another kind, or an object, they are those of the paper's method, "two-stage".
    """
    parts = [changes[name] for name in ("loss", "sampler") if name in changes]
    is_other = any(not isinstance(part, Mapping) or "kind" in part for part in parts)
    return find_preset("two-stage" if is_other else DEFAULT_PRESET).change(changes)


def advise(config: Training, data: Interactions) -> list[str]:
    """Return one sentence for each setting that has no effect, or that is likely better changed on this data."""
    advice, loss = find_idle_settings(config, data), config.loss
    given = loss.temperature if isinstance(loss, Softmin) else None
    if given is not None and given < _FAR_BELOW * (likely := temperature_for(data, config.dim)):
        advice.append(f"a temperature near {likely:g} is likely better here; leave loss.temperature out to get it")
    return advice


def find_idle_settings(config: Training, data: Interactions) -> list[str]:
    """Return one sentence for each setting that has no effect next to the others, or on this data."""
    advice, sampler, drawable = [], config.sampler, int(np.count_nonzero(data.users_per_item))
    if isinstance(sampler, TwoStage) and drawable <= sampler.candidates and not sampler.replacement:
        advice.append(
            f"all {drawable:,} items are candidates in every batch, so the sampler's beta has no effect; "
            "CML.preset('accurate') (--preset accurate) is likely better on so few"
        )
    if config.mainstream != 1 and not config.reach:
        advice.append("mainstream has no effect without reach; set reach, or train a preset that has it")
    is_biased = sampler.gives_log_q and bool(np.ptp(sampler.law(data)) > 0)
    if config.loss.bias_correction not in (None, 1) and not is_biased:
        advice.append(f"gamma has no effect with {type(sampler).__name__}; it undoes the bias of Popularity")
    return advice
