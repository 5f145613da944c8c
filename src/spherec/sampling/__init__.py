"""How negatives are picked: one strategy a file, all of them exact about what a user already has."""

from typing import assert_never

import torch
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.sampling.fixed_law import FixedLawSampler
from spherec.sampling.hard import Hard, HardSampler
from spherec.sampling.negatives import Negatives, Sampler
from spherec.sampling.popularity import Popularity
from spherec.sampling.semi_hard import SemiHard, SemiHardSampler
from spherec.sampling.two_stage import TwoStage, TwoStageSampler
from spherec.sampling.uniform import Uniform

Sampling = Uniform | Popularity | TwoStage | Hard | SemiHard
"""The strategies to choose from."""

__all__ = ["Hard", "Negatives", "Popularity", "Sampler", "Sampling", "SemiHard", "TwoStage", "Uniform", "build"]


def build(config: Sampling, train: Interactions, device: torch.device, *, initial_items: Tensor) -> Sampler:
    """The sampler for `train` on `device`; `initial_items` (I, D) are what frozen vectors are frozen at."""
    match config:
        case Uniform() | Popularity():
            # More than there are items would be the same ones again, and take as long.
            count = min(config.negatives, max(train.n_items, 1)) if config.shared else config.negatives
            return FixedLawSampler(train, config.weights(train), count, device, shared=config.shared)
        case TwoStage():
            return TwoStageSampler(train, config, device, initial_items=initial_items)
        case Hard():
            return HardSampler(train, config, device)
        case SemiHard():
            return SemiHardSampler(train, config, device)
        case _ as never:
            assert_never(never)
