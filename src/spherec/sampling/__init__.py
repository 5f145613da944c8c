"""Samplers of negatives: one strategy a file, each exact about the items that a user already has."""

from spherec.sampling.hard import Hard
from spherec.sampling.popularity import Popularity
from spherec.sampling.sampler import Negatives, Sampler, Sampling, UnknownSampling
from spherec.sampling.semi_hard import SemiHard
from spherec.sampling.two_stage import TwoStage
from spherec.sampling.uniform import Uniform

SAMPLERS: dict[str, type[Sampling]] = {kind.__name__: kind for kind in (Uniform, Popularity, TwoStage, Hard, SemiHard)}
"""The samplers of this package, by the name that a config file gives as `kind`."""

__all__ = [
    "SAMPLERS",
    "Hard",
    "Negatives",
    "Popularity",
    "Sampler",
    "Sampling",
    "SemiHard",
    "TwoStage",
    "Uniform",
    "UnknownSampling",
]
