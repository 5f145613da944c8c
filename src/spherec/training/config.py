"""Settings of a run: everything that decides what it learns, except the data."""

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
from spherec.errors import ArgumentError, quote, suggest
from spherec.geometry import Constraint
from spherec.losses import LOSSES, Hinge, Loss, UnknownLoss
from spherec.optim import Adam
from spherec.sampling import SAMPLERS, Sampling, TwoStage, UnknownSampling

_EPOCHS_BETWEEN_LOOKS, _STEPS_BETWEEN_LOOKS = 2, 500

_AUTO = "auto"  # stands in TOML, which has no null, for a value that depends on the data or on other settings
# Settings that the first records do not have, with their defaults.
_NEWER = (("reach", False), ("mainstream", 1.0), ("feature_dropout", 0.5), ("effort", 1.0))

_KINDS: dict[str, Mapping[str, Any]] = {"loss": LOSSES, "sampler": SAMPLERS, "optimizer": {"Adam": Adam}}

_NO_END = math.inf
_BOUNDS = {
    "dim": (2, _NO_END),
    "subspace_dim": (2, _NO_END),
    "mainstream": (-100, 100),
    "covariance": (0, _NO_END),
    "spread_out": (0, _NO_END),
    "balance": (0, _NO_END),
    "feature_dropout": (0, 0.99),  # at 1 no item would learn its own row
    "batch_size": (1, _NO_END),
    "epochs": (1, _NO_END),
    "effort": (1e-3, 1e3),
    "validate_every": (1, _NO_END),
    "patience": (1, _NO_END),
    "seed": (0, _NO_END),
}

_PARTS_OF: dict[object, str] = {Loss: "loss", Sampling: "sampler", Adam: "optimizer"}
_PLACEHOLDERS: dict[str, Any] = {"loss": UnknownLoss, "sampler": UnknownSampling}


@dataclass(frozen=True)
class Training:
    """Settings of a run.

    The defaults are the paper's loss, dimensions, margin and batch size, with the two-stage sampler as it works best on
    live vectors, a learning rate ten times the paper's (it trains as well, in a tenth of the time) and no penalty.
    """

    dim: int = 128
    "D, dimensions of the space."
    subspace_dim: int | None = None
    """Dimensions of a subspace, at most: D is divided into as few equal ones as that takes. They learn from the same
    batches, each by itself, and a squared distance is the mean of theirs: an average of several models that is one
    space. By default there is one."""
    constraint: Constraint = "sphere"
    "Space of the vectors: the unit sphere, or (the original CML) the unit ball."
    reach: bool = False
    """True gives each item one more number, its reach b, which adds λτb to all its scores: an item can be near many
    people without lying between them. Training draws λ from 0 to 1 for each pair, so that the model suits every place
    of this dial. In several subspaces an item has a reach in each. Only on the sphere."""
    mainstream: float = 1.0
    """λ of lists by default: 1 the most popular lists that were learned, 0 none of the reach, below 0 the long tail. It
    can be changed for each list. It does nothing without reach."""
    loss: Loss = field(default_factory=Hinge)
    "Loss to minimise."
    sampler: Sampling = field(default_factory=TwoStage)
    "Sampler of negatives."
    optimizer: Adam = field(default_factory=Adam)
    "Optimiser of the rows."
    covariance: float = 0.0
    "Weight of the covariance penalty of the original CML."
    spread_out: float = 0.0
    "λ_g, weight of the global orthogonal regularisation (equation 3 of the paper)."
    balance: float = 0.0
    """ρ: the loss of a pair weighs n^−ρ, with n the number of items that its user has, scaled to 1 on average. 0 counts
    all pairs alike, 1 all users, as the metrics do."""
    feature_dropout: float = 0.5
    """Share of the items whose own rows are left out in a step, if items have features: so the features alone learn to
    place an item, and can place one that nobody has. It does nothing without features."""
    batch_size: int = 256
    "B, positive pairs in a step."
    epochs: int | None = None
    """Passes over the training pairs, at most. By default 100, or enough for 10,000 steps; with softmin 30, or enough
    for 3,000."""
    effort: float = 1.0
    "Share of the default epochs to train for. It does nothing if epochs are given."
    validate_every: int | None = None
    """Epochs between two validations, if there is a validation part; the last epoch is always validated. By default 2,
    or enough for 500 steps, because a new model has learned nothing within fewer. Under a schedule only the last epoch
    is validated by default: before it the rate is still high, and fewer epochs under their own schedule would be
    another run."""
    patience: int = 10
    "Validations without a new best after which training ends; the best vectors are kept."
    seed: int = 0
    "Seed of everything random."

    def __post_init__(self) -> None:
        for name, hint in _hints_of(Training).items():
            value = check_type(getattr(self, name), hint, name)
            least, most = _BOUNDS.get(name, (-_NO_END, _NO_END))
            if isinstance(value, int | float) and not least <= value <= most:
                bounds = f">= {least:g}" if most == _NO_END else f"from {least:g} to {most:g}"
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
        for name, own in (("loss", LOSSES), ("sampler", SAMPLERS)):
            if type(part := getattr(self, name)) is not own.get(type(part).__name__, type(part)):
                kind = type(part).__name__
                raise ArgumentError(f"{name} is of a class named {kind}, as one of spherec's own; give it another name")

    @property
    def subspaces(self) -> int:
        """P, number of subspaces."""
        return -(-self.dim // self.subspace_dim) if self.subspace_dim else 1

    def resolve(self, data: Interactions) -> "Training":
        """Return the settings with those of the loss filled in that come from the data."""
        return replace(self, loss=self.loss.resolve(data))

    def plan(self, pairs: int) -> "Plan":
        """Return the length of a run on this many pairs, with every default filled in."""
        steps = -(-pairs // self.batch_size)  # in an epoch
        usual_epochs = max(self.loss.default_epochs, -(-self.loss.default_steps // steps))
        epochs = self.epochs or math.ceil(self.effort * usual_epochs)
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
        return {name: _part_to_dict(value) if name in _KINDS else _plain(value) for name, value in values.items()}

    def to_record(self) -> dict[str, Any]:
        """Return the settings as files and records hold them: as `to_dict`, without newer ones at their defaults.

        So a run without them has the record that it always had.
        """
        return {name: value for name, value in self.to_dict().items() if (name, value) not in _NEWER}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "Training":
        """Return the settings that `to_dict` wrote; fields that are missing have their defaults.

        A loss or sampler of an unknown kind, a class of the user's own, becomes a placeholder that keeps its kind and
        settings. A model with it answers; training with it raises an `ArgumentError` that asks for the class.
        """
        made: Training = _change(cls, None, settings, "")
        return made

    def to_toml(self) -> str:
        """Return the settings as TOML, which `spherec train --config` reads."""
        # JSON writes numbers, strings, booleans and lists as TOML does. Tables come after all scalars.
        settings = self.to_dict()
        tables = {"": {name: value for name, value in settings.items() if not isinstance(value, dict)}}
        tables |= {f"\n[{name}]\n": part for name, part in settings.items() if isinstance(part, dict)}
        return "\n".join(
            title
            + "\n".join(f"{name} = {json.dumps(_AUTO if value is None else value)}" for name, value in part.items())
            for title, part in tables.items()
        )


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
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return getattr(value, "__qualname__", None) or repr(value)


def _change(cls: Any, base: Any, changes: Mapping[str, Any], path: str) -> Any:
    """Return a dataclass with changes to its defaults or to `base`; `path` is its dotted name, for messages."""
    hints = _hints_of(cls)
    values = {}
    for name, value in changes.items():
        where = f"{path}{name}"
        if name not in hints:
            hint = _kinds_having(path.rstrip("."), name) or suggest(name, hints) or f"; it has {', '.join(hints)}"
            raise ArgumentError(f"{where} is not a field of {cls.__name__}{hint}")
        if name in _KINDS and not path:
            values[name] = _change_part(None if base is None else getattr(base, name), value, where)
        else:
            values[name] = check_type(value, hints[name], where)
    return cls(**values) if base is None else replace(base, **values)


def _change_part(part: Any, changes: object, where: str) -> Any:
    """Return the loss, sampler or optimiser with changes, among which may be its kind; or another object as it is.

    Without a part to change, the settings are those of a file: an unknown kind becomes a placeholder.
    """
    if not isinstance(changes, Mapping):
        return changes
    settings, kinds = dict(changes), _KINDS[where]
    kind = settings.pop("kind", None)
    if part is not None and kind in (None, type(part).__name__):
        if not settings:
            return part
        if not is_dataclass(part) or isinstance(part, UnknownLoss | UnknownSampling):
            raise ArgumentError(f"the fields of {where} cannot be changed by name; pass an object of its class instead")
        return _change(type(part), part, settings, f"{where}.")
    if isinstance(kind, str) and kind in kinds:
        return _change(kinds[kind], None, settings, f"{where}.")
    if part is None and isinstance(kind, str) and where in _PLACEHOLDERS:
        return _PLACEHOLDERS[where](kind, settings)
    raise ArgumentError(f"{where}.kind must be one of {', '.join(kinds)}, got {quote(kind)}")


@cache
def _hints_of(cls: Any) -> dict[str, Any]:
    """Return the type of each field."""
    hints = get_type_hints(cls)
    return {one.name: hints[one.name] for one in fields(cls)}


def check_type(value: Any, hint: Any, where: str) -> Any:
    """Return a setting, which must have the type of its field; NumPy's numbers become Python's, whole ones floats.

    "auto" is None, where that is allowed.
    """
    value = value.item() if isinstance(value, np.generic) else value
    wanted, or_auto = hint, ""
    if isinstance(hint, UnionType):  # int | None
        if value is None or (isinstance(value, str) and value == _AUTO):
            return None
        wanted, or_auto = get_args(hint)[0], f" or {quote(_AUTO)}"
    if get_origin(wanted) is Literal:
        is_right, name = isinstance(value, str) and value in get_args(wanted), "one of " + ", ".join(get_args(wanted))
    elif wanted is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_right, name = is_number and abs(value) <= sys.float_info.max, "a number"
    elif wanted in (int, bool, str):
        names = {int: "a whole number", bool: "true or false", str: "text"}
        is_right, name = type(value) is wanted, names[wanted]
    elif wanted in _PARTS_OF:
        name = " or ".join(
            (*_KINDS[_PARTS_OF[wanted]], f"an object of your own subclass of {wanted.__module__}.{wanted.__name__}")
        )
        is_right = isinstance(value, wanted) and not isinstance(value, type)
    else:
        return value
    if not is_right:
        raise ArgumentError(f"{where} must be {name}{or_auto}, got {quote(value)}")
    return float(value) if wanted is float else value


def _kinds_having(part: str, name: str) -> str:
    """Return a hint at the kinds of the loss or sampler that have a field of this name; empty if none has."""
    having = [kind for kind, cls in _KINDS.get(part, {}).items() if name in _hints_of(cls)]
    return f", but of {', '.join(having)}; choose {part}.kind, or a preset that has it" if having else ""


def overlay(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `changes` laid over it, table by table."""
    result = dict(base)
    for name, value in changes.items():
        inner = result.get(name)
        result[name] = overlay(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
    return result


def nest(path: str, value: Any) -> dict[str, Any]:
    """Return {"a": {"b": value}} for the path "a.b"."""
    *outer, last = path.split(".")
    table = {last: value}
    for name in reversed(outer):
        table = {name: table}
    return table
