"""Settings of a run: everything that decides what it learns, except the data."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, check_number, quote, suggest
from spherec.geometry import Constraint, check_mainstream
from spherec.losses import LOSSES, Hinge, Loss, UnknownLoss
from spherec.optim import Adam
from spherec.sampling import SAMPLERS, Sampling, TwoStage, UnknownSampling

_EPOCHS_BETWEEN_LOOKS, _STEPS_BETWEEN_LOOKS = 2, 500

_AUTO = "auto"  # stands in TOML, which has no null, for a value that depends on the data or on other settings
_BY_SIZE = "by the size of the data"
_MEANING_OF_AUTO = {
    "subspace_dim": "as dim: one space",
    "epochs": _BY_SIZE,
    "validate_every": _BY_SIZE,
    "loss.temperature": "by the density of the data",
}

# Settings that the first records do not have, with their defaults.
_NEWER = (("reach", False), ("mainstream", 1.0), ("feature_dropout", 0.5), ("effort", 1.0))

_KINDS: dict[str, Mapping[str, Any]] = {"loss": LOSSES, "sampler": SAMPLERS, "optimizer": {"Adam": Adam}}

_Part = TypeVar("_Part", bound=Any)


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
        optional = {"subspace_dim": 2, "epochs": 1, "validate_every": 1}
        for name, bound in {"dim": 2, "batch_size": 1, "patience": 1, "seed": 0, **optional}.items():
            value = getattr(self, name)
            if value is None and name in optional:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < bound:
                or_none = ", or None" if name in optional else ""
                raise ArgumentError(f"{name} must be a whole number >= {bound}{or_none}, got {quote(value)}")
        if left := self.dim % self.subspaces:
            raise ArgumentError(
                f"dim {self.dim} cannot be divided into {self.subspaces} equal subspaces of at most "
                f"{self.subspace_dim} dimensions; give a dim of {self.dim - left + self.subspaces}, or another "
                "subspace_dim"
            )
        for name in ("covariance", "spread_out", "balance"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
                raise ArgumentError(f"{name} must be a number >= 0, got {quote(value)}")
        check_number("effort", self.effort, 1e-3, 1e3, "1")
        check_number("feature_dropout", self.feature_dropout, 0, 1, "0.5")
        if self.feature_dropout == 1:
            raise ArgumentError("feature_dropout must be below 1, or no item would learn its own row; 0.5 is usual")
        if self.constraint not in get_args(Constraint):
            raise ArgumentError(f"constraint must be 'sphere' or 'ball', got {quote(self.constraint)}")
        if not isinstance(self.reach, bool):
            raise ArgumentError(f"reach must be True or False, got {quote(self.reach)}")
        if self.reach and self.constraint != "sphere":
            raise ArgumentError("reach needs constraint 'sphere'; in the ball an item's length plays its part")
        check_mainstream(self.mainstream)
        _check_part("loss", self.loss, Loss, LOSSES)
        _check_part("sampler", self.sampler, Sampling, SAMPLERS)
        if not isinstance(self.optimizer, Adam):
            raise ArgumentError(f"optimizer must be an Adam, got {quote(self.optimizer)}")

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
        return _change(self, changes, "")

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
        known, unknown = dict(settings), {}
        kinds: tuple[tuple[str, Mapping[str, type], type], ...] = (
            ("loss", LOSSES, UnknownLoss),
            ("sampler", SAMPLERS, UnknownSampling),
        )
        for name, own, placeholder in kinds:
            part = settings.get(name)
            if isinstance(part, Mapping) and isinstance(kind := part.get("kind"), str) and kind not in own:
                unknown[name] = placeholder(kind, {key: value for key, value in part.items() if key != "kind"})
                del known[name]
        return replace(cls().change(known), **unknown)

    def to_toml(self) -> str:
        """Return the settings as TOML, which `spherec train --config` reads."""
        # JSON writes numbers, strings, booleans and lists as TOML does. Tables come after all scalars.
        settings = self.to_dict()
        lines = [_line(name, name, value) for name, value in settings.items() if not isinstance(value, dict)]
        for name, part in settings.items():
            if isinstance(part, dict):
                lines += ["", f"[{name}]"]
                lines += [_line(f"{name}.{key}", key, value) for key, value in part.items()]
        return "\n".join(lines)


def _line(path: str, name: str, value: object) -> str:
    """Return a line of TOML for the setting of this dotted path."""
    if value is None:
        meaning = _MEANING_OF_AUTO.get(path)
        return f"{name} = {json.dumps(_AUTO)}" + (f"  # {meaning}" if meaning else "")
    return f"{name} = {json.dumps(value)}"


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


def _check_part(name: str, part: object, protocol: type, own: Mapping[str, type]) -> None:
    kind = type(part).__name__
    if isinstance(part, type) or not isinstance(part, protocol):
        known = " or ".join([*own, f"an object of your own subclass of {protocol.__module__}.{protocol.__name__}"])
        raise ArgumentError(f"{name} must be a {known}, got {quote(part)}")
    if kind in own and type(part) is not own[kind]:
        raise ArgumentError(f"{name} is of a class named {kind}, as one of spherec's own; give the class another name")


def _part_to_dict(part: Loss | Sampling | Adam) -> dict[str, Any]:
    if isinstance(part, UnknownLoss | UnknownSampling):
        return {"kind": part.kind, **part.settings}
    values = asdict(part) if is_dataclass(part) and not isinstance(part, type) else vars(part)
    return {"kind": type(part).__name__, **{name: _plain(value) for name, value in values.items()}}


def _plain(value: Any) -> Any:
    """Return a value as JSON reads it back; what JSON has no form for, by its name or as its repr."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Real):  # such as NumPy's
        return int(value) if isinstance(value, Integral) else float(value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return getattr(value, "__qualname__", None) or repr(value)


def _change(base: _Part, changes: Mapping[str, Any], path: str) -> _Part:
    """Return a dataclass with changes; `path` is its dotted name, for messages."""
    hints = get_type_hints(type(base))
    names = [one.name for one in fields(base)]
    values = {}
    for name, value in changes.items():
        where = f"{path}{name}"
        if name not in names:
            other = _kinds_having(path.rstrip("."), name)
            hint = other or suggest(name, names) or f"; it has {', '.join(names)}"
            raise ArgumentError(f"{where} is not a field of {type(base).__name__}{hint}")
        if name in _KINDS and not path:
            values[name] = _change_part(getattr(base, name), value, where)
        else:
            values[name] = _check_type(value, hints[name], where)
    return replace(base, **values)


def _change_part(part: _Part, changes: object, where: str) -> _Part:
    """Return the loss, sampler or optimiser with changes, among which may be its kind."""
    if not isinstance(changes, Mapping):
        first = f", {where}.{fields(part)[0].name}" if is_dataclass(part) else ""
        raise ArgumentError(f"{where} has fields of its own, got {quote(changes)}; set {where}.kind{first} and so on")
    part = _change_kind(part, changes.get("kind"), where)
    rest = {name: value for name, value in changes.items() if name != "kind"}
    if not rest:
        return part
    if not is_dataclass(part) or isinstance(part, UnknownLoss | UnknownSampling):
        raise ArgumentError(f"the fields of {where} cannot be changed by name; pass an object of its class instead")
    return _change(part, rest, f"{where}.")


def _change_kind(part: _Part, kind: object, where: str) -> _Part:
    """Return the part itself, or the defaults of another kind."""
    if kind is None or kind == type(part).__name__:
        return part
    kinds = _KINDS[where]
    if not isinstance(kind, str) or kind not in kinds:
        raise ArgumentError(f"{where}.kind must be one of {', '.join(kinds)}, got {quote(kind)}")
    changed: _Part = kinds[kind]()
    return changed


def _check_type(value: Any, hint: Any, where: str) -> Any:
    """Return the value if it has the type of its field; whole numbers become floats where floats are asked for."""
    or_auto = ""
    if isinstance(hint, UnionType):  # int | None
        if value in (None, _AUTO):
            return None
        hint, or_auto = get_args(hint)[0], f" or {quote(_AUTO)}"
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise ArgumentError(f"{where} must be one of {', '.join(map(quote, get_args(hint)))}, got {quote(value)}")
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    kinds = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    if hint in kinds and (not isinstance(value, hint) or (hint is int and isinstance(value, bool))):
        raise ArgumentError(f"{where} must be {kinds[hint]}{or_auto}, got {quote(value)}")
    return value


def _kinds_having(part: str, name: str) -> str:
    """Return a hint at the kinds of the loss or sampler that have a field of this name; empty if none has."""
    having = [kind for kind, cls in _KINDS.get(part, {}).items() if name in {one.name for one in fields(cls)}]
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
