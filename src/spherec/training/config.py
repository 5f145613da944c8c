"""All that decides what a run learns, but the data."""

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, get_args

from spherec.errors import ArgumentError
from spherec.geometry import Constraint
from spherec.losses import Hinge, Loss, Softmin
from spherec.optim import Adam
from spherec.sampling import Sampling, TwoStage

_EPOCHS, _STEPS = 100, 10_000
_EPOCHS_OF_SOFTMIN, _STEPS_OF_SOFTMIN = 30, 3_000  # each pair pushes many negatives at once
_EPOCHS_BETWEEN_LOOKS, _STEPS_BETWEEN_LOOKS = 2, 500


@dataclass(frozen=True)
class Training:
    """How to train a model.

    The defaults are the paper's loss, dimensions, margin and batch size, with the two-stage sampler as it works best on
    live vectors, a learning rate ten times the paper's (it trains as well, in a tenth of the time) and no penalty.
    """

    dim: int = 128
    "D, dimensions of the space."
    subspace_dim: int | None = None
    """Dimensions of a subspace, at most: D is divided into as few equal ones as that takes. They learn from the same
    batches, each by itself, and a squared distance is the mean of theirs: an average of several models that is one
    space. If nothing is said, there is one."""
    constraint: Constraint = "sphere"
    "Where vectors live: on the unit sphere, or (the original CML) anywhere in the unit ball."
    loss: Loss = field(default_factory=Hinge)
    "What is minimised."
    sampler: Sampling = field(default_factory=TwoStage)
    "How negatives are picked."
    optimizer: Adam = field(default_factory=Adam)
    "How rows move."
    covariance: float = 0.0
    "Weight of the covariance penalty of the original CML."
    spread_out: float = 0.0
    "λ_g, weight of the global orthogonal regularisation (equation 3 of the paper)."
    balance: float = 0.0
    """ρ: the loss of a pair weighs n^−ρ, with n the number of items that its user has, scaled to 1 on average. 0 counts
    all pairs alike, 1 all users, as the metrics do."""
    batch_size: int = 256
    "B, positive pairs in a step."
    epochs: int | None = None
    """Passes over the training pairs, at most. If nothing is said, 100, or as many as make 10,000 steps; with softmin
    30, or as many as make 3,000."""
    validate_every: int | None = None
    """Epochs between two looks at the validation metric, where there is one; the last epoch gets one, too. If nothing
    is said, 2, or as many as make 500 steps: within fewer a new model has learned nothing. Under a schedule, only the
    last: before, the rate is still high, and so many epochs under a schedule of their own would be another run."""
    patience: int = 10
    "Looks without a new best after which training ends; the best vectors are kept."
    seed: int = 0
    "Of everything random."

    def __post_init__(self) -> None:
        left_open = {"subspace_dim": 2, "epochs": 1, "validate_every": 1}
        for name, bound in {"dim": 2, "batch_size": 1, "patience": 1, "seed": 0, **left_open}.items():
            value = getattr(self, name)
            if value is None and name in left_open:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < bound:
                or_none = ", or None" if name in left_open else ""
                raise ArgumentError(f"{name} must be a whole number >= {bound}{or_none}, got {value!r}")
        if left := self.dim % self.subspaces:
            raise ArgumentError(
                f"dim {self.dim} cannot be divided into {self.subspaces} equal subspaces of at most "
                f"{self.subspace_dim} dimensions; give a dim of {self.dim - left + self.subspaces}, or another "
                "subspace_dim"
            )
        for name in ("covariance", "spread_out", "balance"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value < float("inf"):
                raise ArgumentError(f"{name} must be a number >= 0, got {value!r}")
        if self.constraint not in get_args(Constraint):
            raise ArgumentError(f"constraint must be 'sphere' or 'ball', got {self.constraint!r}")
        for name, kinds in (("loss", get_args(Loss)), ("sampler", get_args(Sampling)), ("optimizer", (Adam,))):
            value = getattr(self, name)
            if not isinstance(value, kinds):
                known = ", ".join(kind.__name__ for kind in kinds)
                raise ArgumentError(f"{name} must be a {known.replace(', ', ' or ')}, got {value!r}")

    @property
    def subspaces(self) -> int:
        """P, how many there are."""
        return -(-self.dim // self.subspace_dim) if self.subspace_dim else 1

    def plan(self, pairs: int) -> "Plan":
        """How long to train on so many pairs, with nothing left open."""
        steps = -(-pairs // self.batch_size)  # in an epoch
        softmin = isinstance(self.loss, Softmin)
        usual, least = (_EPOCHS_OF_SOFTMIN, _STEPS_OF_SOFTMIN) if softmin else (_EPOCHS, _STEPS)
        epochs = self.epochs or max(usual, -(-least // steps))
        usual_looks = max(_EPOCHS_BETWEEN_LOOKS, -(-_STEPS_BETWEEN_LOOKS // steps))
        return Plan(
            epochs=epochs,
            validate_every=self.validate_every or (usual_looks if self.optimizer.schedule == "constant" else epochs),
            steps=epochs * steps,
        )

    def described(self) -> dict[str, Any]:
        """The config as plain data, each part beside the name of its kind."""
        parts = {"loss": self.loss, "sampler": self.sampler, "optimizer": self.optimizer}
        return asdict(self) | {name: {"kind": type(part).__name__, **asdict(part)} for name, part in parts.items()}


class Plan(NamedTuple):
    """How long a run lasts."""

    epochs: int
    "At most."
    validate_every: int
    "Epochs between two looks."
    steps: int
    "At most."
