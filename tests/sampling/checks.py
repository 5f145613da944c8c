"""What tests of samplers share: small data, vectors, generators, and the chi-square test."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import chisquare

from spherec.data.ids import IdMap
from spherec.data.interactions import Interactions
from spherec.geometry import DenseVectors, gather, unit
from spherec.rng import torch_stream
from spherec.sampling.two_stage import TwoStageSampler

CPU = torch.device("cpu")
FEWEST_DRAWS = 20_000
_LEAST_P = 1e-4
_LEAST_EXPECTED = 5  # in a cell of a chi-square test; rarer outcomes share one

ROWS = (
    (1, 0, 0, 1, 0, 0),
    (1, 1, 0, 0, 0, 0),
    (1, 1, 1, 0, 1, 0),
    (1, 0, 1, 1, 0, 0),
    (0, 0, 0, 0, 0, 0),
    (1, 1, 1, 1, 1, 1),
    (1, 1, 1, 1, 1, 0),
    (0, 1, 1, 1, 1, 0),
)
"""8 users by 6 items: one user has none, one has all, one has all but one. Popularities 6, 5, 5, 5, 4, 1."""


def interactions(rows=ROWS):
    return Interactions.from_matrix(np.array(rows))


def sparse(indptr, indices, n_items):
    """Interactions with many users or items, without a dense matrix."""
    return Interactions(
        np.asarray(indptr, np.int64),
        np.asarray(indices, np.int32),
        IdMap(np.arange(len(indptr) - 1)),
        IdMap(np.arange(n_items)),
    )


def random_rows(n_users, n_items, density, seed=0):
    return (np.random.default_rng(seed).random((n_users, n_items)) < density).astype(int)


def generator(seed=0, device=CPU):
    return torch_stream(seed, "test", device=device)


def directions(n, dim, seed=0, dtype=torch.float32):
    """Unit vectors (n, dim)."""
    return unit(torch.empty(n, dim, dtype=torch.float64).normal_(generator=generator(seed))).to(dtype)


def around_item_0(similarities, dim, dtype=torch.float64):
    """Items (I, D) at these dot products with item 0, for which the first must be 1."""
    others = directions(len(similarities), dim, dtype=torch.float64)
    centre = others[:1]  # (1, D)
    aside = others - (others @ centre.T) * centre
    aside[1:] /= aside[1:].norm(dim=1, keepdim=True)
    s = torch.tensor(similarities, dtype=torch.float64)[:, None]
    return (s * centre + (1 - s * s).sqrt() * aside).to(dtype)


@dataclass(frozen=True)
class Space:
    """A geometry of any precision, where `DenseVectors` have float32."""

    user_table: torch.Tensor
    item_table: torch.Tensor
    constraint: str = "sphere"

    @property
    def dim(self):
        return self.item_table.shape[1]

    def users(self, index):
        return gather(self.user_table, index)

    def items(self, index):
        return gather(self.item_table, index)


def space(train, dim=8, seed=0, dtype=torch.float32):
    kind = DenseVectors if dtype == torch.float32 else Space
    return kind(directions(train.n_users, dim, seed, dtype), directions(train.n_items, dim, seed + 1, dtype))


def two_stage(train, config, items, device=CPU, **options):
    """A sampler for items of these dimensions, which are also the vectors that it freezes."""
    return TwoStageSampler(train, config, device, initial_items=items, **options)


def pairs(user, positive, times=1):
    """The same pair of a user and an item, many times."""
    return torch.full((times,), user), torch.full((times,), positive)


def assert_follows(draws, law):
    """Chi-square test of draws against a law {outcome: probability} or [probability of 0, 1, …]."""
    law = law if isinstance(law, dict) else dict(enumerate(law))
    counts = Counter(draws)
    assert counts.total() >= FEWEST_DRAWS
    assert not {outcome for outcome in counts if law.get(outcome, 0) == 0}, "drawn, but impossible"
    cells = [(counts[outcome], probability * counts.total()) for outcome, probability in law.items() if probability]
    common = [cell for cell in cells if cell[1] >= _LEAST_EXPECTED]
    rare = [cell for cell in cells if cell[1] < _LEAST_EXPECTED]
    pooled = [tuple(map(sum, zip(*rare, strict=True)))] if rare else []
    observed, expected = zip(*common, *pooled, strict=True)
    assert len(expected) > 1, "nothing to compare"
    assert chisquare(observed, expected).pvalue > _LEAST_P, (observed, expected)
