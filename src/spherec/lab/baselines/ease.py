"""EASE and EDLAE in closed form, by the smaller side (Steck, WWW 2019 and NeurIPS 2020).

    B = 1 − P · diag(P)⁻¹        P = (XᵀX + Λ)⁻¹ (I, I)        scores = X B

EASE has Λ = λ1. EDLAE drops a share p of each user's items in training, which adds p / (1 − p) times the item's number
of users: Λ_j = λ + p / (1 − p) · |S_j|.

With fewer users than items, P is never made. With M = (1 + X Λ⁻¹ Xᵀ)⁻¹ (U, U), Woodbury's identity gives

    X P = M X Λ⁻¹        Λ_j P_jj = 1 − x_jᵀ M x_j / Λ_j        scores = X − M X · diag(ΛP)⁻¹
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.errors import DataError
from spherec.lab.baselines.scored_ranker import ScoredRanker, sparse_tensor
from spherec.lab.models import ComparedModel, FitContext
from spherec.lab.records import Settings
from spherec.lab.runs import Cost
from spherec.ranking.ranker import LeftOut, ranges, split_blocks

LARGEST = 50_000
"""Largest number of rows of the matrix to invert: in float32 that is 10 GB, and three are held."""
_IN_DOUBLE = 20_000  # rows up to which the inverse is made in float64
_TIMED = 4_000  # rows up to which the time of a fit is measured as a whole
_BLOCK = 1 << 22  # numbers held at once


class Ease(ComparedModel):
    """A linear model of items by items, in which no item explains itself."""

    name = "ease"
    tries_all = True
    search_space: Mapping[str, Sequence[Any]] = {
        "regularization": (500.0, 10.0, 20.0, 50.0, 100.0, 200.0, 300.0, 1000.0, 2000.0, 5000.0)
    }

    def check(self, train: Interactions) -> None:
        if min(train.n_users, train.n_items) > LARGEST:
            raise DataError(
                f"{self.name} inverts a matrix of users or items, whichever are fewer, of at most {LARGEST:,} rows; "
                f"these are {train.n_users:,} users and {train.n_items:,} items: 'ials' takes data of any size in its "
                "place"
            )

    def fit(self, train: Interactions, settings: Settings, context: FitContext) -> ScoredRanker:
        self.check(train)
        dropped = float(settings.get("dropout", 0.0))
        more = (dropped / (1 - dropped)) * train.users_per_item.astype(np.float64)
        shift = float(settings["regularization"]) + more  # Λ (I,)
        fit = _by_users if train.n_users < train.n_items else _by_items
        return fit(train, shift, context.device)

    def measure(self, part: Fold, settings: Settings, context: FitContext) -> Cost | None:
        """Measure the time of a fit; of a large matrix by some of its rows: inverting it takes the cube of them."""
        train = part.train
        rows = min(train.n_users, train.n_items)
        if (every := -(-rows // _TIMED)) == 1:
            return super().measure(part, settings, context)
        by_users = train.n_users < train.n_items
        few = [each.matrix[::every] if by_users else each.matrix[:, ::every] for each in (train, part.test)]
        part = Fold(*map(Interactions.from_matrix, few))
        cost = super().measure(part, settings, context)
        kinds = (torch.float64, torch.float64 if rows <= _IN_DOUBLE else torch.float32)
        inverting, there = (_time_inverse(-(-rows // every), kind, context.device) for kind in kinds)
        return cost and Cost((cost.start - inverting) * every**2 + there * every**3, 0.0, cost.user * every)


class Edlae(Ease):
    """EASE that was trained with dropout, which shrinks popular items more."""

    name = "edlae"
    tries_all = False
    search_space: Mapping[str, Sequence[Any]] = {
        "regularization": (100.0, 10.0, 30.0, 300.0, 1000.0),
        "dropout": (0.33, 0.1, 0.2, 0.5, 0.7),
    }


def _by_users(train: Interactions, shift: NDArray[np.float64], device: torch.device) -> ScoredRanker:
    """Fit with fewer users than items: keep only M (U, U) and diag(ΛP) (I,)."""
    items_first = train.matrix.T.tocsr()  # Xᵀ (I, U)
    divided = sparse.diags(1 / shift) @ items_first  # Λ⁻¹ Xᵀ
    inverse = _inverse(train.matrix, divided.T.tocsr(), 1.0, device)  # M (U, U)
    diagonal = 1 - _sum_over_users(items_first, inverse).cpu().numpy() / shift  # (I,) of ΛP
    scaled = sparse_tensor((sparse.diags(1 / diagonal) @ items_first).tocsr(), device)  # diag(ΛP)⁻¹ Xᵀ
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
    sums = torch.zeros(items_first.shape[0], dtype=inverse.dtype, device=inverse.device)
    users, counts = items_first.indices, np.diff(items_first.indptr).astype(np.int64)  # (E,), (I,)
    item = np.repeat(np.arange(len(counts)), counts)  # (E,)
    for block in split_blocks(len(users), max(_BLOCK // max(counts.max(initial=0), 1), 1)):
        times = counts[item[block]]  # (b,) each user of an item meets all of them
        others = users[ranges(items_first.indptr[item[block]].astype(np.int64), times)]  # (p,)
        pairs = [torch.as_tensor(each, device=inverse.device) for each in (np.repeat(users[block], times), others)]
        where = torch.as_tensor(np.repeat(item[block], times), device=inverse.device)  # (p,)
        sums.index_add_(0, where, inverse[pairs[0], pairs[1]])
    return sums


def _by_items(train: Interactions, shift: NDArray[np.float64], device: torch.device) -> ScoredRanker:
    """Fit with no more items than users: keep B (I, I) itself."""
    items_first = train.matrix.T.tocsr()
    weights = _inverse(items_first, items_first, torch.as_tensor(shift), device)  # P (I, I)
    weights /= -weights.diagonal().clone()  # column by column
    weights.fill_diagonal_(0)
    weights = weights.float()

    def score_users(users: NDArray[np.int64]) -> Tensor:
        scores: Tensor = sparse_tensor(train.matrix[users], device) @ weights  # (b, I)
        return scores

    return ScoredRanker(score_users, train.n_items)


def _time_inverse(n: int, dtype: torch.dtype, device: torch.device) -> float:
    began = time.perf_counter()
    torch.cholesky_inverse(torch.linalg.cholesky(torch.eye(n, dtype=dtype, device=device))).cpu()
    return time.perf_counter() - began


def _inverse(left: sparse.csr_matrix, right: sparse.csr_matrix, shift: float | Tensor, device: torch.device) -> Tensor:
    """Return (L Rᵀ + diag(shift))⁻¹ (n, n) for rows L and R (n, m) with a symmetric product."""
    n = left.shape[0]
    gram = torch.empty(n, n, dtype=torch.float64 if n <= _IN_DOUBLE else torch.float32)
    columns, size = right.T.tocsc(), max(_BLOCK // max(n, 1), 1)
    for first in range(0, n, size):
        gram[first : first + size] = torch.as_tensor((left[first : first + size] @ columns).toarray())
    gram.diagonal().add_(shift)
    return torch.cholesky_inverse(torch.linalg.cholesky(gram.to(device)))
