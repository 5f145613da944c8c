"""EASE in closed form, by the smaller side (Steck, Embarrassingly Shallow Autoencoders, WWW 2019).

    B = 1 − P · diag(P)⁻¹        P = (XᵀX + λ1)⁻¹ (I, I)        scores = X B

With fewer users than items, P is never made. With M = (XXᵀ + λ1)⁻¹ (U, U), Woodbury's identity gives

    P = (1 − XᵀMX) / λ        X P = M X        P_jj = (1 − x_jᵀ M x_j) / λ        scores = X − M X · diag(P)⁻¹
"""

from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from spherec.compare.contender import How, Peer, Settings, Space
from spherec.compare.scored import ScoredRanker
from spherec.data.interactions import Interactions
from spherec.errors import DataError
from spherec.ranking.ranker import LeftOut

LARGEST = 50_000
"""Rows of the matrix to invert, at most: in float32 that is 10 GB, and three are held."""
_IN_DOUBLE = 20_000  # rows up to which the inverse is made in float64
_BLOCK = 1 << 24  # numbers held at once


class Ease(Peer):
    """A linear model of items by items, in which no item explains itself."""

    name = "ease"
    space: ClassVar[Space] = {"regularization": (500.0, 10.0, 20.0, 50.0, 100.0, 200.0, 300.0, 1000.0, 2000.0, 5000.0)}

    def fit(self, train: Interactions, settings: Settings, how: How) -> ScoredRanker:
        """Invert the smaller Gram matrix."""
        if min(train.n_users, train.n_items) > LARGEST:
            raise DataError(
                f"EASE inverts a matrix of users or items, whichever are fewer, of at most {LARGEST:,} rows; these are "
                f"{train.n_users:,} users and {train.n_items:,} items: leave 'ease' out, or cut the data"
            )
        fit = _by_users if train.n_users < train.n_items else _by_items
        return fit(train, float(settings["regularization"]), how.device)


def _by_users(train: Interactions, regularization: float, device: torch.device) -> ScoredRanker:
    """Fewer users than items: M (U, U) and the diagonal of P (I,) are all that is kept."""
    inverse = _inverse(train.matrix, regularization, device)  # M (U, U)
    items_first = _tensor(train.matrix.T.tocsr(), device)  # Xᵀ (I, U)

    def products(users: NDArray[np.int64]) -> Tensor:
        """The rows (b, I) of M X for these users."""
        rows = inverse[torch.as_tensor(users, device=device)]  # (b, U)
        found: Tensor = torch.sparse.mm(items_first.to(rows.dtype), rows.T)  # (I, b)
        return found.T

    explained = torch.zeros(train.n_items, dtype=inverse.dtype, device=device)  # (I,) x_jᵀ M x_j
    size = max(_BLOCK // max(train.n_items, 1), 1)
    for first in range(0, train.n_users, size):
        users = np.arange(first, min(first + size, train.n_users))
        own = _own(train, users, device)
        explained.index_add_(0, own[1], products(users)[own])
    diagonal = ((1 - explained) / regularization).float()  # (I,) of P
    inverse = inverse.float()

    def scores(users: NDArray[np.int64]) -> Tensor:
        found = products(users) / -diagonal  # (b, I)
        found[_own(train, users, device)] += 1
        return found

    return ScoredRanker(scores, train.n_items)


def _by_items(train: Interactions, regularization: float, device: torch.device) -> ScoredRanker:
    """No more items than users: B (I, I) itself."""
    weights = _inverse(train.matrix.T.tocsr(), regularization, device)  # P (I, I)
    weights /= -weights.diagonal().clone()  # column by column
    weights.fill_diagonal_(0)
    weights = weights.float()

    def scores(users: NDArray[np.int64]) -> Tensor:
        found: Tensor = torch.sparse.mm(_tensor(train.matrix[users], device), weights)  # (b, I)
        return found

    return ScoredRanker(scores, train.n_items)


def _inverse(rows: "sparse.csr_matrix", regularization: float, device: torch.device) -> Tensor:
    """(R Rᵀ + λ1)⁻¹ (n, n) for rows R (n, m)."""
    n = rows.shape[0]
    gram = torch.empty(n, n, dtype=torch.float64 if n <= _IN_DOUBLE else torch.float32)
    columns, size = rows.T.tocsc(), max(_BLOCK // max(n, 1), 1)
    for first in range(0, n, size):
        gram[first : first + size] = torch.as_tensor((rows[first : first + size] @ columns).toarray())
    gram.diagonal().add_(regularization)
    gram = gram.to(device)
    return torch.cholesky_inverse(torch.linalg.cholesky(gram))


def _tensor(matrix: "sparse.csr_matrix", device: torch.device) -> Tensor:
    """The same as a sparse tensor."""
    found = matrix.tocoo()
    index = torch.as_tensor(np.stack((found.row, found.col)).astype(np.int64))
    values = torch.as_tensor(found.data)
    return torch.sparse_coo_tensor(index, values, found.shape, device=device, check_invariants=False).coalesce()


def _own(train: Interactions, users: NDArray[np.int64], device: torch.device) -> tuple[Tensor, Tensor]:
    """Where a block (b, I) holds what these users have."""
    own = LeftOut.of_users(users, train)
    return torch.as_tensor(own.queries, device=device), torch.as_tensor(own.items, device=device)
