"""Fold-in: a user who was not there in training, placed by the items that she has, while all items stand still.

She belongs near her own items and away from the crowd:

    minimise over u    τ · log Σ_k w_k exp(s(u, v_k) / τ)  −  mean_j s(u, v_j)        s = −d²/2

j runs over her items, k over a pool of negatives without her own, drawn once by the law that the sampler begins with.
It is the softmin of training, less its 1, with the items fixed and the noise of sampling gone; after training with the
hinge, τ is a tenth of the margin. w_k undoes the bias of drawing as far as training did. The function is convex, its
gradient

    Σ_k p_k v_k − mean_j v_j        p = softmax over the pool of s/τ + log w

changes by at most 1/τ where u moves by 1: so a step of τ down the gradient, back onto the sphere or into the ball,
never worsens it. Steps begin bolder, and are halved whenever one does. Where the space has subspaces, all of this
happens in each of them, as in training.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec import rng
from spherec.data.interactions import Interactions
from spherec.geometry import DenseVectors, join_subspaces, project, split_subspaces, to_vectors
from spherec.training import Training

_POOL = 2000
_STEPS = 20
_BOLD = 8  # times the step that is sure not to make it worse


class Placing:
    """Places users in a space whose items stand still. The same items give the same place."""

    def __init__(self, vectors: DenseVectors, data: Interactions, config: Training) -> None:
        self._vectors = vectors
        self._subspaces = config.subspaces  # P
        self._learned = data.users_per_item > 0  # (I,) the others are still where they began
        self.temperature = config.loss.fold_in_temperature
        # The bias of drawing is undone as in training: where the sampler's law has a closed form.
        gamma = (config.loss.bias_correction or 0.0) if config.sampler.gives_log_q else 0.0
        law = config.sampler.law(data) * self._learned  # (I,)
        law = law / (law.sum() or 1.0)
        drawn = np.flatnonzero(law)[:0]
        if law.any():
            drawn = rng.stream(config.seed, "fold-in pool").choice(len(law), _POOL, p=law)  # (C,)
        self.pool, times = np.unique(drawn, return_counts=True)  # (c,) ascending
        self.log_weight = np.log(times) - gamma * np.log(law[self.pool] * len(law))  # (c,) log w
        negatives = vectors.items(torch.from_numpy(self.pool))  # (c, D)
        self._negatives = split_subspaces(negatives, config.subspaces).movedim(1, 0).contiguous()  # (P, c, d)
        # In exponents, s = u·v − |v|²/2 − |u|²/2: the last is the same for all, and on the sphere so is the one before.
        length = self._negatives.square().sum(-1) * (vectors.constraint == "ball")  # (P, c)
        self._weight = torch.tensor(self.log_weight, dtype=torch.float32) - length / (2 * self.temperature)  # (P, c)

    def place(self, items: NDArray[np.int32]) -> Tensor:
        """The vector (D,) of a user who has these items (n,), ascending."""
        known = items[self._learned[items]]
        own = known if len(known) else items
        middle = self._vectors.items(torch.from_numpy(own.astype(np.int64))).mean(0)  # (D,)
        weight = self._weight.masked_fill(torch.from_numpy(np.isin(self.pool, own)), float("-inf"))  # (P, c)
        parts = zip(self._negatives, split_subspaces(middle, self._subspaces), weight, strict=True)
        return join_subspaces(torch.stack([self._place_in(*part) for part in parts]))

    def _place_in(self, negatives: Tensor, middle: Tensor, weight: Tensor) -> Tensor:
        """The best place (d,) in one subspace, for these negatives (c, d), weights (c,) and mean of her items (d,)."""
        best = user = self._put(middle)
        if bool(weight.isneginf().all()):  # she has everything that there is to draw
            return user
        least, step, gradient = float("inf"), _BOLD * self.temperature, torch.zeros_like(user)
        for _ in range(_STEPS):
            exponent = negatives @ user / self.temperature + weight  # (c,)
            value = float(self.temperature * exponent.logsumexp(0) - user @ middle)
            if value < least:
                best, least = user, value
                gradient = exponent.softmax(0) @ negatives - middle  # (d,)
            else:
                step /= 2
            user = self._put(best - step * gradient)
        return best

    def _put(self, row: Tensor) -> Tensor:
        constraint = self._vectors.constraint
        return to_vectors(project(row, constraint), constraint)
