"""The graph of items that share users, and the two filters on it that training-free models have in common.

    R̃ = D_U^-½ R D_I^-½ (U, I)        P = R̃ᵀ R̃ (I, I)

D_U and D_I are the numbers of items per user and of users per item. Eigenvalues of P lie in [0, 1]; an eigenvector with
a large one is a smooth signal, nearly equal on items that share many users. P is never made: it is applied by two
sparse products.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import svds
from torch import Tensor

from spherec import rng
from spherec.data.interactions import Interactions
from spherec.lab.baselines.scored_ranker import sparse_tensor
from spherec.ranking.ranker import LeftOut

_NULL = 1e-3  # singular values below it may be zeros with rounding errors: they are roots of eigenvalues in float32


class ItemGraph:
    """The items of some interactions. Signals (I, b) have a column for each of b users."""

    def __init__(self, train: Interactions, device: torch.device) -> None:
        by_user, by_item = (_power(counts, -0.5) for counts in (train.items_per_user, train.users_per_item))
        self._train = train
        self._device = device
        self._normalized = (sparse.diags(by_user) @ train.matrix @ sparse.diags(by_item)).tocsr().astype(np.float32)
        self._users_first = sparse_tensor(self._normalized, device)  # R̃ (U, I)
        self._items_first = sparse_tensor(self._normalized.T.tocsr(), device)  # R̃ᵀ (I, U)

    def degrees(self, exponent: float) -> Tensor:
        """Return the numbers of users per item (I,) to some power; 0 for items that nobody has."""
        return torch.as_tensor(_power(self._train.users_per_item, exponent), dtype=torch.float32, device=self._device)

    def signal(self, users: NDArray[np.int64]) -> Tensor:
        """Return 1 for the items that users (b,) have and 0 for all others (I, b)."""
        own = LeftOut.of_users(users, self._train)
        signal = torch.zeros(self._train.n_items, len(users), device=self._device)
        signal[torch.as_tensor(own.items, device=self._device), torch.as_tensor(own.queries, device=self._device)] = 1
        return signal

    def add_smoothed(self, signal: Tensor, to: Tensor, weight: float) -> Tensor:
        """Add `weight` · P `signal` to another signal, in place."""
        return to.addmm_(self._items_first, self._users_first @ signal, alpha=weight)

    def low_pass(self, n: int, exponent: float, seed: int) -> tuple[Tensor, Tensor]:
        """Return two factors (U, n) and (n, I) of the ideal low-pass filter R D_I^-x V Vᵀ D_I^x with the exponent x.

        The columns of V are the n right singular vectors of R̃ with the largest singular values, or fewer: only those
        with a singular value above 0.001.
        """
        vectors = torch.as_tensor(self._top_vectors(n, seed), device=self._device)  # V (I, n)
        signals = sparse_tensor(self._train.matrix, self._device)  # R (U, I)
        return signals @ (self.degrees(-exponent)[:, None] * vectors), (self.degrees(exponent)[:, None] * vectors).T

    def _top_vectors(self, n: int, seed: int) -> NDArray[np.float32]:
        smaller = min(self._normalized.shape)
        if n < smaller:
            start = rng.stream(seed, "singular vectors").standard_normal(smaller).astype(np.float32)
            _, values, rows = svds(self._normalized, k=n, v0=start)  # (n,), (n, I)
        else:
            _, values, rows = np.linalg.svd(self._normalized.toarray(), full_matrices=False)
        return np.ascontiguousarray(rows[values > _NULL].T)


def _power(counts: NDArray[np.int64], exponent: float) -> NDArray[np.float64]:
    """Return the counts to some power; 0 stays 0."""
    powers: NDArray[np.float64] = np.where(counts > 0, np.maximum(counts, 1.0) ** exponent, 0.0)
    return powers
