"""Ways to train, by name."""

from dataclasses import dataclass

from spherec.losses import Softmin
from spherec.sampling import Popularity, TwoStage, Uniform
from spherec.training.config import Training


@dataclass(frozen=True)
class Preset:
    """A config, and what it is for."""

    training: Training
    what: str


PRESETS = {
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
    "softmin": Preset(
        Training(loss=Softmin(), sampler=Uniform(negatives=2000, shared=True)),
        "beyond the paper: softmin against 2,000 shared negatives",
    ),
}
