"""Fold-in: place a user who was not there in training by the items that they have. No item moves.

The user belongs near their own items and away from the crowd:

    minimise over u    τ · log Σ_k w_k exp(s(u, v_k) / τ)  −  mean_j s(u, v_j)        s = −d²/2

j runs over the user's items, k over a pool of negatives without these, drawn once by the law that the sampler begins
with. It is the softmin of training, less its 1, with fixed items and without the noise of sampling; after training with
the hinge, τ is a tenth of the margin. w_k undoes the bias of drawing as far as training did. The function is convex.
Its gradient

    Σ_k p_k v_k − mean_j v_j        p = softmax over the pool of s/τ + log w

changes by at most 1/τ where u moves by 1. So a step of τ down the gradient, back onto the sphere or into the ball,
never makes it worse. Steps begin larger, and are halved whenever one makes it worse. Where the space has subspaces, all
of this happens in each of them, as in training. Where items have reach, half of it counts in s, the mean in training.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec import rng
from spherec.artifact import MIDDLE_OF_DIAL, Artifact
from spherec.geometry import join_subspaces, project, split_subspaces, to_vectors

_POOL = 2000
_STEPS = 20
_BOLD = 8  # first step, in steps that never make it worse


@dataclass(frozen=True)
class NegativePool:
    """The negatives that a new user keeps away from."""

    items: NDArray[np.int64]
    "(c,) indices of the items, ascending."
    log_weight: NDArray[np.float64]
    "(c,) log w."
    temperature: float
    "τ."
    vectors: Tensor
    "(P, c, d) vectors of the items in each subspace."
    offset: Tensor
    "(P, c) part of the exponent that does not depend on the user."

    @classmethod
    def draw(cls, artifact: Artifact) -> "NegativePool":
        """Draw the pool for a model; the same model always gives the same pool."""
        vectors, config, settings = artifact.vectors, artifact.config, artifact.fold_in
        temperature = settings.temperature
        law = settings.law * (artifact.data.users_per_item > 0)  # (I,)
        law = law / (law.sum() or 1.0)
        size = _POOL if law.any() else 0
        drawn = rng.stream(config.seed, "fold-in pool").choice(len(law), size, p=law if size else None)  # (C,)
        items, times = np.unique(drawn, return_counts=True)  # (c,) ascending
        log_weight = np.log(times) - settings.bias_correction * np.log(law[items] * len(law))  # (c,) log w
        negatives = vectors.items(torch.from_numpy(items))  # (c, D)
        parts = split_subspaces(negatives, config.subspaces).movedim(1, 0).contiguous()  # (P, c, d)
        # In exponents, s = u·v − |v|²/2 − |u|²/2: the last is the same for all, and on the sphere so is the one before.
        length = parts.square().sum(-1) * (vectors.constraint == "ball")  # (P, c)
        offset = torch.tensor(log_weight, dtype=torch.float32) - length / (2 * temperature)  # (P, c)
        if vectors.item_reach is not None:
            offset += MIDDLE_OF_DIAL * vectors.item_reach[torch.from_numpy(items)].T / temperature
        return cls(items, log_weight, temperature, parts, offset)


@dataclass(eq=False)
class FoldIn:
    """Places users in a space whose items do not move. The same items always give the same place."""

    artifact: Artifact
    "The model."
    _pool: NegativePool | None = field(default=None, init=False)

    @property
    def pool(self) -> NegativePool:
        """The pool of negatives, drawn when it is first needed. Threads that need it at once draw the same."""
        if self._pool is None:
            self._pool = NegativePool.draw(self.artifact)
        return self._pool

    def place(self, items: NDArray[np.int32]) -> Tensor:
        """Return the vector (D,) of a user who has these items (n,), ascending."""
        self.artifact.refuse_part("place new users")
        pool, vectors, subspaces = self.pool, self.artifact.vectors, self.artifact.config.subspaces
        learned = items[self.artifact.are_placed(items)]  # the others are still where they began
        own = learned if len(learned) else items
        middle = vectors.items(torch.from_numpy(own.astype(np.int64))).mean(0)  # (D,)
        offset = pool.offset.masked_fill(torch.from_numpy(np.isin(pool.items, own)), float("-inf"))  # (P, c)
        parts = zip(pool.vectors, split_subspaces(middle, subspaces), offset, strict=True)
        return join_subspaces(torch.stack([self._place_in(*part, pool.temperature) for part in parts]))

    def _place_in(self, negatives: Tensor, middle: Tensor, offset: Tensor, temperature: float) -> Tensor:
        """Return the best place (d,) in one subspace, of negatives (c, d) and the mean (d,) of the user's items.

        `offset` (c,) is the constant part of the exponents; -inf for the user's own items.
        """
        best = user = self._project(middle)
        if bool(offset.isneginf().all()):  # the user has every item of the pool
            return user
        least, step, gradient = float("inf"), _BOLD * temperature, torch.zeros_like(user)
        for _ in range(_STEPS):
            exponent = negatives @ user / temperature + offset  # (c,)
            value = float(temperature * exponent.logsumexp(0) - user @ middle)
            if value < least:
                best, least = user, value
                gradient = exponent.softmax(0) @ negatives - middle  # (d,)
            else:
                step /= 2
            user = self._project(best - step * gradient)
        return best

    def _project(self, row: Tensor) -> Tensor:
        constraint = self.artifact.vectors.constraint
        return to_vectors(project(row, constraint), constraint)
