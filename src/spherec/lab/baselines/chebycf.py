"""ChebyCF, a graph filter (Kim and others, Graph Spectral Filtering with Chebyshev Interpolation, SIGIR 2025).

    scores = R D_I^-β (h(P) + α V Vᵀ) D_I^β        P = R̃ᵀ R̃        R̃ = D_U^-½ R D_I^-½
    h(P) = Σ_k c_k T_k(1 − 2P),  k = 0 … K

T_k are Chebyshev's polynomials. h interpolates a plateau over x = 1 − 2p, from 1 at x = −1 (smooth signals) to 0 at 1:

    h(x_k) = (1 − sign(y_k) |y_k|^φ) / 2        x_k = −cos((k + ½) π / (K + 1))        y_k = −cos(k π / K)

As in the authors' code, the plateau is taken at the extrema y_k of T_K and placed on the roots x_k of T_K+1, so that
the outermost roots have the values of the ends. V has the first η right singular vectors of R̃. Nothing is trained.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.lab.baselines.item_graph import ItemGraph
from spherec.lab.baselines.scored_ranker import ScoredRanker
from spherec.lab.models import ComparedModel, FitContext
from spherec.lab.records import Settings
from spherec.ranking.ranker import split_blocks

_BLOCK = 1 << 20  # numbers of a signal at once: 4 MB of float32 stay in the cache of a CPU from product to product


class ChebyCf(ComparedModel):
    """A plateau-shaped and an ideal low-pass filter on the graph of items, between weights by popularity.

    The default settings are those of the authors for Gowalla; the other values are of their other data sets.
    """

    name = "chebycf"
    search_space: Mapping[str, Sequence[Any]] = {
        "order": (8,),  # K
        "flatness": (1.5, 10.0),  # φ
        "vectors": (512,),  # η
        "alpha": (0.2, 0.1),
        "beta": (0.4, 0.2, 0.0),
    }

    def fit(self, train: Interactions, settings: Settings, context: FitContext) -> ScoredRanker:
        """Compute the singular vectors and the coefficients of the polynomial."""
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
    """Return the coefficients c_k (K + 1,) of the polynomial h."""
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
