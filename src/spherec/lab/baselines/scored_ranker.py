"""Rank items by scores, in blocks of users: for models that are no metric space."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError
from spherec.ranking import Ranking
from spherec.ranking.ranker import Indices, LeftOut, check_indices, split_blocks

_BLOCK = 1 << 22  # scores held at once: 16 MB of float32; larger blocks are slower on a CPU


class ScoredRanker:
    """A ranking of all I items by scores, which a function returns for user indices (b,).

    They are a new tensor or NumPy array (b, I). Of items with equal scores the one with the lower index comes first.
    """

    def __init__(self, scores: Callable[[NDArray[np.int64]], Tensor | NDArray[Any]], n_items: int) -> None:
        self._scores = scores
        self._n_items = n_items

    def top(
        self, users: NDArray[np.int64], k: int, *, without: Interactions | None = None, only: Indices | None = None
    ) -> Ranking:
        """Return the k best items for user indices (B,), of `only` these, and none that the users have in `without`."""
        ranking = Ranking.empty(len(users), k)
        closed = torch.full((self._n_items,), only is not None)  # (I,)
        if only is not None:
            closed[torch.as_tensor(check_indices(only, self._n_items, "only"))] = False
        for block in split_blocks(len(users), max(_BLOCK // max(self._n_items, 1), 1)):
            scores = self.score(users[block])  # (b, I)
            left_out = LeftOut.of_users(users[block], without)
            own = (torch.as_tensor(index, device=scores.device) for index in (left_out.queries, left_out.items))
            scores[tuple(own)] = float("-inf")
            if only is not None:
                scores.masked_fill_(closed.to(scores.device), float("-inf"))
            best, items = (each.cpu().numpy() for each in _best_columns(scores, min(k, self._n_items)))  # (b, k)
            ranking.put(block, np.where(np.isneginf(best), -1, items), best.astype(np.float32))
        return ranking

    def score(self, users: NDArray[np.int64]) -> Tensor:
        """Return the scores (b, I) of users (b,) as floats; raise an `ArgumentError` for another shape."""
        scores = self._scores(users)
        if isinstance(scores, np.ndarray):
            scores = torch.tensor(scores)
        if not isinstance(scores, Tensor) or scores.shape != (len(users), self._n_items):
            is_array = isinstance(scores, Tensor)
            got = f"one of shape {tuple(scores.shape)}" if is_array else f"a {type(scores).__name__}"
            raise ArgumentError(
                f"scores must be a tensor or an array of shape ({len(users)}, {self._n_items}): a row for each user "
                f"and a column for each item; got {got}"
            )
        return scores if scores.is_floating_point() else scores.float()


def sparse_tensor(matrix: sparse.csr_matrix, device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return a matrix as a sparse tensor by rows: on a CPU products are faster than by coordinates."""
    starts, columns, values = (torch.as_tensor(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    with warnings.catch_warnings():
        # Of a layout in beta, and in some versions of checks that are off.
        warnings.filterwarnings("ignore", message="Sparse (CSR|invariant)")
        return torch.sparse_csr_tensor(
            starts, columns, values, matrix.shape, dtype=dtype, device=device, check_invariants=False
        )


def _best_columns(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest scores (b, k) of each row (b, c) and their columns; equal scores by ascending column."""
    # One more than wanted: torch leaves open which of equal scores it returns, and in which order.
    best, columns = scores.topk(min(k + 1, scores.shape[1]), dim=1)
    last, next_best = best[:, k - 1], best[:, -1]  # (b,)
    tied = (last == next_best) & (last > float("-inf")) & (best.shape[1] > k)  # (b,) more than k are that good
    columns, order = columns[:, :k].sort(dim=1)
    best, order = best[:, :k].gather(1, order).sort(dim=1, descending=True, stable=True)
    columns = columns.gather(1, order)
    for row in tied.nonzero()[:, 0].tolist():
        enough = (scores[row] >= last[row]).nonzero()[:, 0]
        values, order = scores[row, enough].sort(descending=True, stable=True)
        best[row], columns[row] = values[:k], enough[order[:k]]
    return best, columns
