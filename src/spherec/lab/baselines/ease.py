"""EASE in closed form, by the smaller side (Steck, Embarrassingly Shallow Autoencoders, WWW 2019).

    B = 1 − P · diag(P)⁻¹        P = (XᵀX + λ1)⁻¹ (I, I)        scores = X B

With fewer users than items, P is never made. With M = (XXᵀ + λ1)⁻¹ (U, U), Woodbury's identity gives

    P = (1 − XᵀMX) / λ        X P = M X        P_jj = (1 − x_jᵀ M x_j) / λ        scores = X − M X · diag(P)⁻¹
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.errors import DataError
from spherec.lab.baselines.scored_ranker import ScoredRanker, sparse_tensor
from spherec.lab.models import ComparedModel, FitContext
from spherec.lab.records import Settings
from spherec.ranking.ranker import LeftOut, split_blocks

LARGEST = 50_000
"""Largest number of rows of the matrix to invert: in float32 that is 10 GB, and three are held."""
_IN_DOUBLE = 20_000  # rows up to which the inverse is made in float64
_BLOCK = 1 << 22  # numbers held at once


class Ease(ComparedModel):
    """A linear model of items by items, in which no item explains itself."""

    name = "ease"
    search_space: Mapping[str, Sequence[Any]] = {
        "regularization": (500.0, 10.0, 20.0, 50.0, 100.0, 200.0, 300.0, 1000.0, 2000.0, 5000.0)
    }

    def check(self, train: Interactions) -> None:
        if min(train.n_users, train.n_items) > LARGEST:
            raise DataError(
                f"EASE inverts a matrix of users or items, whichever are fewer, of at most {LARGEST:,} rows; these are "
                f"{train.n_users:,} users and {train.n_items:,} items: leave 'ease' out, or cut the data"
            )

    def fit(self, train: Interactions, settings: Settings, context: FitContext) -> ScoredRanker:
        self.check(train)
        fit = _by_users if train.n_users < train.n_items else _by_items
        return fit(train, float(settings["regularization"]), context.device)


def _by_users(train: Interactions, regularization: float, device: torch.device) -> ScoredRanker:
    """Fit with fewer users than items: keep only M (U, U) and the diagonal of P (I,)."""
    items_first = train.matrix.T.tocsr()  # Xᵀ (I, U)
    inverse = _inverse(train.matrix, regularization, device)  # M (U, U)
    diagonal = (1 - _sum_over_users(items_first, inverse)) / regularization  # (I,) of P
    weighted = sparse.diags(1 / diagonal.cpu().numpy()) @ items_first
    scaled = sparse_tensor(weighted.tocsr(), device)  # diag(P)⁻¹ Xᵀ (I, U)
    inverse = inverse.float()

    def score_users(users: NDArray[np.int64]) -> Tensor:
        rows = inverse[torch.as_tensor(users, device=device)]  # (b, U)
        scores: Tensor = -(scaled @ rows.T).T.contiguous()  # (b, I)
        own = LeftOut.of_users(users, train)
        scores[torch.as_tensor(own.queries, device=device), torch.as_tensor(own.items, device=device)] += 1
        return scores

    return ScoredRanker(score_users, train.n_items)


def _sum_over_users(items_first: sparse.csr_matrix, inverse: Tensor) -> Tensor:
    """Return x_jᵀ M x_j (I,): for each item, the sum of M over all pairs of its users."""
    sums = torch.empty(items_first.shape[0], dtype=inverse.dtype, device=inverse.device)
    for block in split_blocks(len(sums), max(_BLOCK // max(len(inverse), 1), 1)):
        users_of = sparse_tensor(items_first[block], inverse.device, inverse.dtype)  # (b, U)
        sums[block] = ((users_of @ inverse) * users_of.to_dense()).sum(1)
    return sums


def _by_items(train: Interactions, regularization: float, device: torch.device) -> ScoredRanker:
    """Fit with no more items than users: keep B (I, I) itself."""
    weights = _inverse(train.matrix.T.tocsr(), regularization, device)  # P (I, I)
    weights /= -weights.diagonal().clone()  # column by column
    weights.fill_diagonal_(0)
    weights = weights.float()

    def score_users(users: NDArray[np.int64]) -> Tensor:
        scores: Tensor = sparse_tensor(train.matrix[users], device) @ weights  # (b, I)
        return scores

    return ScoredRanker(score_users, train.n_items)


def _inverse(rows: sparse.csr_matrix, regularization: float, device: torch.device) -> Tensor:
    """Return (R Rᵀ + λ1)⁻¹ (n, n) for rows R (n, m)."""
    n = rows.shape[0]
    gram = torch.empty(n, n, dtype=torch.float64 if n <= _IN_DOUBLE else torch.float32)
    columns, size = rows.T.tocsc(), max(_BLOCK // max(n, 1), 1)
    for first in range(0, n, size):
        gram[first : first + size] = torch.as_tensor((rows[first : first + size] @ columns).toarray())
    gram.diagonal().add_(regularization)
    gram = gram.to(device)
    return torch.cholesky_inverse(torch.linalg.cholesky(gram))
