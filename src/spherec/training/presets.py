"""Presets: settings of a run by name."""

from dataclasses import dataclass

from spherec.errors import ArgumentError, quote, suggest
from spherec.losses import Softmin
from spherec.optim import Adam
from spherec.sampling import Popularity
from spherec.training.config import Training


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

_FAST = _ACCURATE.change(
    {
        "dim": 512,
        "mainstream": 0.5,
        "effort": 0.5,
        "batch_size": 512,
        "sampler": {"negatives": 500},
        "optimizer": {"learning_rate": 1e-2},
    }
)

PRESETS = {
    "two-stage": Preset(Training(), "the default: the paper's two-stage sampling on live vectors, tuned"),
    "accurate": Preset(_ACCURATE, "the best lists: softmin with reach, in four subspaces of 256 dimensions"),
    "fast": Preset(_FAST, "good lists soon: the same with half the dimensions and epochs, a fourth of the negatives"),
}
"""The only list of presets: help texts, documentation and comparisons are made from it."""


def find_preset(name: object) -> Training:
    """Return the settings of the preset of this name."""
    if not isinstance(name, str) or name not in PRESETS:
        hint = suggest(str(name), PRESETS)
        raise ArgumentError(f"preset must be one of {', '.join(PRESETS)}, got {quote(name)}{hint}")
    return PRESETS[name].training
