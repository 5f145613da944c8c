"""GF-CF and ChebyCF: filters on the graph of items that share users. Nothing is trained.

    R̃ = D_U^-½ R D_I^-½ (U, I)        P = R̃ᵀ R̃ (I, I)

D_U and D_I are the numbers of items per user and of users per item. Eigenvalues of P lie in [0, 1]; an eigenvector with
a large one is a smooth signal, nearly equal on items that share many users. P is never made: it is applied by two
sparse products. V has the first right singular vectors of R̃: V Vᵀ is the ideal low-pass filter.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator, eigsh
from torch import Tensor

from spherec import rng
from spherec.data.interactions import Interactions
from spherec.lab.baselines.scored_ranker import ScoredRanker, sparse_tensor
from spherec.lab.models import ComparedModel, FitContext
from spherec.lab.records import Settings
from spherec.ranking.ranker import LeftOut, split_blocks

_NULL = 1e-3  # singular values below it count as zeros with rounding errors
_BLOCK = 1 << 20  # numbers of a signal at once: 4 MB of float32 stay in the cache of a CPU from product to product


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
        matrix = self._normalized
        by_users = matrix.shape[0] <= matrix.shape[1]  # eigenvectors are those of the smaller side
        side = matrix if by_users else matrix.T.tocsr()
        if n >= len(side.indptr) - 1:
            _, values, rows = np.linalg.svd(matrix.toarray(), full_matrices=False)
            return np.ascontiguousarray(rows[values > _NULL].T, dtype=np.float32)
        start = rng.stream(seed, "singular vectors").standard_normal(side.shape[0]).astype(np.float32)
        squares, vectors = eigsh(aslinearoperator(side) @ aslinearoperator(side.T), k=n, v0=start)  # (n,), (side, n)
        squares, vectors = squares[squares > _NULL**2], vectors[:, squares > _NULL**2]
        found: NDArray[np.float32] = (side.T @ vectors) / np.sqrt(squares) if by_users else vectors  # (I, n)
        return found


def _power(counts: NDArray[np.int64], exponent: float) -> NDArray[np.float64]:
    """Return the counts to some power; 0 stays 0."""
    powers: NDArray[np.float64] = np.where(counts > 0, np.maximum(counts, 1.0) ** exponent, 0.0)
    return powers


class GfCf(ComparedModel):
    """A linear and an ideal low-pass filter (Shen and others, How Powerful is Graph Convolution?, CIKM 2021).

        scores = R (P + α D_I^-½ V Vᵀ D_I^½)

    The default settings are those of the authors.
    """

    name = "gf-cf"
    search_space: Mapping[str, Sequence[Any]] = {
        "alpha": (0.3, 0.03, 0.1, 1.0, 3.0, 10.0),
        "vectors": (256, 32, 64, 128, 512, 1024),
    }
    costly = "vectors"

    def fit(self, train: Interactions, settings: Settings, context: FitContext) -> ScoredRanker:
        graph = ItemGraph(train, context.device)
        of_users, of_items = graph.low_pass(settings["vectors"], 0.5, context.seed)  # (U, n), (n, I)

        def score_users(users: NDArray[np.int64]) -> Tensor:
            signal = graph.signal(users)  # (I, b)
            linear = graph.add_smoothed(signal, torch.zeros_like(signal), 1.0).T  # (b, I)
            rows = of_users[torch.as_tensor(users, device=context.device)]  # (b, n)
            return torch.addmm(linear, rows, of_items, alpha=settings["alpha"])  # (b, I)

        return ScoredRanker(score_users, train.n_items)


class ChebyCf(ComparedModel):
    """A plateau-shaped and an ideal low-pass filter, between weights by popularity.

        scores = R D_I^-β (h(P) + α V Vᵀ) D_I^β        h(P) = Σ_k c_k T_k(1 − 2P),  k = 0 … K

    T_k are Chebyshev's polynomials (Kim and others, Graph Spectral Filtering with Chebyshev Interpolation, SIGIR 2025).
    The default settings are those of the authors for Gowalla; those of their other data sets are among the others.
    """

    name = "chebycf"
    search_space: Mapping[str, Sequence[Any]] = {
        "order": (8,),  # K
        "flatness": (1.5, 1.0, 3.0, 10.0, 30.0),  # φ
        "vectors": (512,),  # η
        "alpha": (0.2, 0.05, 0.1, 0.4, 0.8),
        "beta": (0.4, 0.6, 0.5, 0.2, 0.0),
    }

    def fit(self, train: Interactions, settings: Settings, context: FitContext) -> ScoredRanker:
        graph = ItemGraph(train, context.device)
        of_users, of_items = graph.low_pass(settings["vectors"], settings["beta"], context.seed)  # (U, n), (n, I)
        coefficients = plateau_coefficients(settings["order"], settings["flatness"])  # (K + 1,)
        before, after = (graph.degrees(sign * settings["beta"]) for sign in (-1, 1))  # (I,)

        def score_users(users: NDArray[np.int64]) -> Tensor:
            blocks = split_blocks(len(users), max(_BLOCK // max(train.n_items, 1), 1))
            signals = (graph.signal(users[block]) * before[:, None] for block in blocks)  # (I, some of b) each
            smooth = torch.cat([_apply(graph, coefficients, signal).T for signal in signals]) * after  # (b, I)
            rows = of_users[torch.as_tensor(users, device=context.device)]  # (b, n)
            return torch.addmm(smooth, rows, of_items, alpha=settings["alpha"])  # (b, I)

        return ScoredRanker(score_users, train.n_items)


def plateau_coefficients(order: int, flatness: float) -> list[float]:
    """Return the coefficients c_k (K + 1,) of h: a plateau over x = 1 − 2p, from 1 at −1 (smooth signals) to 0 at 1.

        h(x_k) = (1 − sign(y_k) |y_k|^φ) / 2        x_k = −cos((k + ½) π / (K + 1))        y_k = −cos(k π / K)

    As in the authors' code, the plateau is taken at the extrema y_k of T_K and placed on the roots x_k of T_K+1, so
    that the outermost roots have the values of the ends.
    """
    nodes = -np.cos((np.arange(order + 1) + 0.5) * np.pi / (order + 1))  # x_k (K + 1,)
    extrema = -np.cos(np.arange(order + 1) * np.pi / order)  # y_k (K + 1,)
    values = (1 - np.sign(extrema) * np.abs(extrema) ** flatness) / 2  # (K + 1,)
    found: list[float] = np.linalg.solve(chebyshev.chebvander(nodes, order), values).tolist()
    return found


def _apply(graph: ItemGraph, coefficients: Sequence[float], signal: Tensor) -> Tensor:
    """Return Σ_k c_k T_k(1 − 2P) s (I, b) by T_k+1(x) = 2x T_k(x) − T_k−1(x), writing over the signal s."""
    before, now = signal, graph.add_smoothed(signal, signal.clone(), -2.0)  # T_0 s, T_1 s
    total = coefficients[0] * before + coefficients[1] * now
    for coefficient in coefficients[2:]:
        after = graph.add_smoothed(now, before.neg_().add_(now, alpha=2), -4.0)  # 2 (T_k − 2P T_k) − T_k−1, in place
        before, now = now, after
        total.add_(now, alpha=coefficient)
    return total
