"""Random batches of pairs and negatives, as tensors for a loss and as plain lists for its oracle."""

from dataclasses import dataclass, replace
from itertools import product

import pytest
import torch

from spherec import geometry
from spherec.losses import Triplets
from tests import oracles

N_ITEMS = 5000
SIZES = list(product((1, 3, 17), (1, 2, 7), (2, 3, 16, 128, 512)))
each_size = pytest.mark.parametrize(("b", "n", "d"), SIZES)


@dataclass(frozen=True)
class Batch:
    users: torch.Tensor
    positives: torch.Tensor
    negatives: torch.Tensor
    valid: torch.Tensor
    log_q: torch.Tensor | None

    def triplets(self):
        positive = geometry.squared_distance(self.users, self.positives)
        negative = geometry.squared_distance(self.users, self.negatives)
        return Triplets(positive, negative, self.valid, N_ITEMS, self.log_q)

    def to(self, dtype):
        log_q = None if self.log_q is None else self.log_q.to(dtype)
        vectors = (one.to(dtype) for one in (self.users, self.positives, self.negatives))
        return Batch(*vectors, self.valid, log_q)

    def without_law(self):
        return replace(self, log_q=None)

    def vectors_with_gradient(self):
        """The same, and its three tensors of vectors, which now gather gradients."""
        vectors = [one.clone().requires_grad_() for one in (self.users, self.positives, self.negatives)]
        return Batch(*vectors, self.valid, self.log_q), vectors

    def negatives_of(self, pair):
        """[(vector, q)] of the valid negatives of a pair."""
        row = 0 if len(self.negatives) == 1 else pair
        law = None if self.log_q is None else self.log_q[min(row, len(self.log_q) - 1)]
        return [
            (self.negatives[row, k].tolist(), None if law is None else law[k].exp().item())
            for k in range(self.valid.shape[1])
            if self.valid[pair, k]
        ]

    def distances(self):
        """[(squared distance to the positive, [squared distances to the valid negatives])] by the oracle."""
        for pair, (user, positive) in enumerate(zip(self.users.tolist(), self.positives.tolist(), strict=True)):
            negatives = [oracles.squared_distance(user, vector) for vector, _ in self.negatives_of(pair)]
            yield oracles.squared_distance(user, positive), negatives

    def similarities(self):
        """[(dot product with the positive, [(dot product with a valid negative, q)])] by the oracle."""
        for pair, (user, positive) in enumerate(zip(self.users.tolist(), self.positives.tolist(), strict=True)):
            negatives = [(oracles.dot(user, vector), q) for vector, q in self.negatives_of(pair)]
            yield oracles.dot(user, positive), negatives


def batch(b, n, d, *, shared=False, seed=0):
    """Unit vectors in double precision, about a quarter of the negatives not valid, drawn by a skewed law."""
    generator = torch.Generator().manual_seed(seed)

    def directions(*shape):
        return torch.nn.functional.normalize(
            torch.randn(*shape, d, generator=generator, dtype=torch.float64), dim=-1
        )  # (*shape, D)

    negatives = directions(1 if shared else b, n)
    log_q = torch.empty(negatives.shape[:2], dtype=torch.float64).uniform_(-12, -4, generator=generator)
    valid = torch.rand(b, n, generator=generator) < 0.75
    return Batch(directions(b), directions(b), negatives, valid, log_q)
