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

A model that is its start, factors in closed form on the sphere, places users in closed form, too: `SolvedUsers`.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec import rng
from spherec.artifact import MIDDLE_OF_DIAL, Artifact
from spherec.geometry import join_subspaces, project, split_subspaces, to_vectors
from spherec.ials import Ials

_POOL = 2000
_STEPS = 20
_BOLD = 8  # first step, in steps that never make it worse
_USERS_AGAIN, _MOST_ITEMS = 30, 200  # who are placed again to find e
_EXPONENTS, _NEAR = (-8.0, 4.0), 0.05  # of e, to the base of 10


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
    _solved: "SolvedUsers | None" = field(default=None, init=False)

    @property
    def pool(self) -> NegativePool:
        """The pool of negatives, drawn when it is first needed. Threads that need it at once draw the same."""
        if self._pool is None:
            self._pool = NegativePool.draw(self.artifact)
        return self._pool

    def place(self, items: NDArray[np.int32]) -> Tensor:
        """Return the vector (D,) of a user who has these items (n,), ascending."""
        self.artifact.refuse_part("place new users")
        vectors, subspaces = self.artifact.vectors, self.artifact.config.subspaces
        learned = items[self.artifact.are_placed(items)]  # the others are still where they began
        own = learned if len(learned) else items
        config = self.artifact.config
        if isinstance(config.start, Ials) and config.epochs == 0 and config.reach:  # reach keeps the items' lengths
            self._solved = self._solved or SolvedUsers(self.artifact, config.start)
            return self._solved.place(own)
        pool = self.pool
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


class SolvedUsers:
    """Places users as rows of iALS (`spherec.ials`), with the items of a model that is nothing but its start.

        (αG + e (n + αI) + WᵀW) u = Wᵀ1        w = exp(b / s) v, rows W of the n own items, G = Σ w wᵀ over all items

    v and b are an item's vector and reach, s is the share of its length that became reach. Only the direction of u
    matters. Reach keeps lengths up to a factor c, so e = λ / c² is not known. It is chosen so that known users are
    placed nearest to where they are. Turned by the eigenvectors of G, all but WᵀW is diagonal: n × n systems do.
    """

    def __init__(self, artifact: Artifact, start: Ials) -> None:
        vectors, self._subspaces = artifact.vectors, artifact.config.subspaces
        assert vectors.item_reach is not None
        assert start.catalogue_weight is not None
        self._vectors, self._catalogue = vectors, start.catalogue_weight
        self._lengths = (vectors.item_reach.double() / (start.reach_share or 1.0)).exp()  # (I, P)
        values, self._turns = torch.linalg.eigh(self._squares())  # (P, d), (P, d, d)
        self._diagonal = values.clamp_min(0) * self._catalogue / max(vectors.n_items, 1)
        self._shift = self._find_shift(artifact)

    def place(self, items: NDArray[np.int32]) -> Tensor:
        """Return the vector (D,) of a user who has these items (n,)."""
        return self._solve(self._turn(items), self._shift).float()

    def _squares(self) -> Tensor:
        """Return G (P, d, d) of all subspaces."""
        total = torch.zeros(())
        for rows, lengths in zip(
            self._vectors.item_blocks(), torch.split(self._lengths, self._vectors.block_size), strict=True
        ):
            parts = (split_subspaces(rows, self._subspaces) * lengths.float()[..., None]).movedim(1, 0)  # (P, b, d)
            total = total + (parts.mT @ parts).double()
        return total

    def _turn(self, items: NDArray[np.int32]) -> Tensor:
        """Return W (P, n, d) of items, turned by the eigenvectors."""
        at = torch.from_numpy(items.astype(np.int64))
        parts = split_subspaces(self._vectors.items(at), self._subspaces).double() * self._lengths[at][..., None]
        turned: Tensor = parts.movedim(1, 0) @ self._turns
        return turned

    def _solve(self, own: Tensor, shift: float) -> Tensor:
        """Return the vector (D,) of a user with items W (P, n, d)."""
        n, d = own.shape[1:]
        diagonal = (self._diagonal + shift * (n + self._catalogue))[:, None]  # (P, 1, d)
        ones = own.new_ones(len(own), n, 1)
        if n <= d:
            scaled = own / diagonal  # (P, n, d)
            solution = scaled.mT @ torch.linalg.solve(
                torch.eye(n, dtype=own.dtype) + scaled @ own.mT, ones
            )  # (P, d, 1)
        else:
            solution = torch.linalg.solve(torch.diag_embed(diagonal[:, 0]) + own.mT @ own, own.mT @ ones)
        return join_subspaces(to_vectors((self._turns @ solution)[..., 0], "sphere"))

    def _find_shift(self, artifact: Artifact) -> float:
        """Return e, by a search with known users; their vectors and places are most alike at one e."""
        counts = artifact.data.items_per_user
        users = np.flatnonzero((counts > 1) & (counts <= _MOST_ITEMS))
        users = rng.stream(artifact.config.seed, "users to place again").permutation(users)[:_USERS_AGAIN]
        known = [
            (self._turn(artifact.data.items_of(int(user))), self._vectors.user_table[user].double()) for user in users
        ]

        def likeness(exponent: float) -> float:
            return sum(float(self._solve(own, 10**exponent) @ vector) for own, vector in known)

        low, high = _EXPONENTS
        while high - low > _NEAR:
            third = (high - low) / 3
            if likeness(low + third) < likeness(high - third):
                low += third
            else:
                high -= third
        return 10 ** ((low + high) / 2)
