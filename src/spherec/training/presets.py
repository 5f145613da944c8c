"""Presets: settings of a run by name."""

from dataclasses import dataclass, replace

from spherec.losses import Softmin
from spherec.optim import Adam
from spherec.sampling import Popularity, TwoStage, Uniform
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
    "accurate": Preset(_ACCURATE, "the best lists: softmin with reach, in four subspaces of 256 dimensions"),
    "fast": Preset(_FAST, "good lists soon: the same with half the dimensions and epochs, a fourth of the negatives"),
    "balanced": Preset(
        replace(_ACCURATE, mainstream=0.3),
        "the same model, asked with mainstream 0.3: nearly as accurate, far fewer bestsellers",
    ),
    "niche": Preset(
        replace(_ACCURATE, mainstream=-0.25),
        "the same model, asked with mainstream -0.25: the long tail, for those who know the bestsellers",
    ),
    "two-stage": Preset(Training(), "the default: the paper's two-stage sampling on live vectors, tuned"),
    "two-stage-as-released": Preset(
        Training(sampler=TwoStage.as_released()), "what the paper's public code does: stage two on the initial vectors"
    ),
    "two-stage-as-written": Preset(
        Training(sampler=TwoStage.as_written()), "what the paper's text says; training collapses"
    ),
    "uniform": Preset(
        Training(sampler=Uniform(negatives=5), batch_size=4096),
        "uniform negatives in large batches, the paper's baseline",
    ),
    "popularity": Preset(Training(sampler=Popularity(negatives=5)), "the paper's sampling by popularity"),
}
