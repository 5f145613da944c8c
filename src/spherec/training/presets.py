"""Ways to train, by name."""

from spherec.losses import Softmin
from spherec.sampling import Popularity, TwoStage, Uniform
from spherec.training.config import Training

PRESETS = {
    "two-stage": Training(),
    "two-stage-as-released": Training(sampler=TwoStage.as_released()),
    "two-stage-as-written": Training(sampler=TwoStage.as_written()),
    "uniform": Training(sampler=Uniform(negatives=5), batch_size=4096),
    "popularity": Training(sampler=Popularity(negatives=5)),
    "softmin": Training(loss=Softmin(), sampler=Uniform(negatives=2000, shared=True)),
}
"""two-stage is the default; the next two are what the paper's public code does and what its text says; uniform is the
original CML; softmin goes beyond the paper."""
