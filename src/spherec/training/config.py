"""All that decides what a run learns, but the data."""

from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from spherec.errors import ArgumentError
from spherec.geometry import Constraint
from spherec.losses import Hinge, Loss
from spherec.optim import Adam
from spherec.sampling import Sampling, TwoStage


@dataclass(frozen=True)
class Training:
    """How to train a model. The defaults are the paper's, with the two-stage sampler as we tuned it."""

    dim: int = 128
    "D, dimensions of the space."
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
    batch_size: int = 256
    "B, positive pairs in a step."
    epochs: int = 100
    "Passes over the training pairs, at most."
    validate_every: int = 2
    "Epochs between two looks at the validation metric, where there is one."
    patience: int = 5
    "Looks without a new best after which training ends; the best vectors are kept."
    seed: int = 0
    "Of everything random."

    def __post_init__(self) -> None:
        least = {"dim": 2, "batch_size": 1, "epochs": 1, "validate_every": 1, "patience": 1, "seed": 0}
        for name, bound in least.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < bound:
                raise ArgumentError(f"{name} must be a whole number >= {bound}, got {value!r}")
        for name in ("covariance", "spread_out"):
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

    def described(self) -> dict[str, Any]:
        """The config as plain data, each part beside the name of its kind."""
        parts = {"loss": self.loss, "sampler": self.sampler, "optimizer": self.optimizer}
        return asdict(self) | {name: {"kind": type(part).__name__, **asdict(part)} for name, part in parts.items()}
