"""The nearest items, exactly: all items are looked at, in blocks of queries."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.geometry import Vectors
from spherec.ranking.ranker import LeftOut, Ranking, check_queries, in_blocks

_BLOCK = 1 << 24  # scores held at once: 64 MB of float32
_TIMES_ON_GPU = 16
_COLUMNS = 1024  # multiplied at once
_FEW = 32  # queries, for which that does not pay


class ExactRanker:
    """Ranks all items by squared distance; of items equally near, the one with the lower index comes first.

    Items for which `listed` (I,) is false are left out for everybody.
    The score is u·v − |v|²/2, which falls as |u − v|² grows. On the sphere |v|² is the same for all and left out.
    """

    def __init__(self, vectors: Vectors, *, listed: NDArray[np.bool_] | None = None) -> None:
        self.vectors = vectors
        items = vectors.item_table
        self._offset = None if vectors.constraint == "sphere" else items.square().sum(1) / 2  # (I,)
        self._unlisted = None if listed is None else torch.as_tensor(~listed, device=items.device)  # (I,)

    def top(self, users: NDArray[np.int64], k: int, *, without: Interactions | None = None) -> Ranking:
        """The k best items for user indices (B,), those that the users have in `without` left out."""
        held = self._held(len(users))

        def rank(part: slice) -> Ranking:
            index = torch.as_tensor(users[part], device=held.device)
            return self._rank(self.vectors.users(index), k, LeftOut.of_users(users[part], without), held)

        return in_blocks(len(users), k, len(held), rank)

    def top_of(
        self, queries: NDArray[np.float32], k: int, *, without: Sequence[NDArray[np.integer[Any]]] | None = None
    ) -> Ranking:
        """The k best items for vectors (B, D), those in a query's list of item indices left out."""
        check_queries(queries, self.vectors.item_table.shape[1])
        left_out = LeftOut.of_lists(without, len(queries), len(self.vectors.item_table))
        return self.top_without(queries, k, left_out)

    def top_without(self, queries: NDArray[np.float32], k: int, left_out: LeftOut) -> Ranking:
        """The same, for what is left out in one piece."""
        held = self._held(len(queries))

        def rank(part: slice) -> Ranking:
            return self._rank(torch.as_tensor(queries[part], device=held.device), k, left_out.of(part), held)

        return in_blocks(len(queries), k, len(held), rank)

    def _held(self, n_queries: int) -> Tensor:
        """Room for the scores (b, I) of so many queries at a time, used again for every block."""
        n_items = len(self.vectors.item_table)
        size = _BLOCK * (_TIMES_ON_GPU if self.vectors.item_table.is_cuda else 1)
        return self.vectors.item_table.new_empty(min(max(size // max(n_items, 1), 1), max(n_queries, 1)), n_items)

    def _rank(self, queries: Tensor, k: int, left_out: LeftOut, held: Tensor) -> Ranking:
        scores = self._scores(queries, left_out, held[: len(queries)])  # (b, I)
        best, found = best_columns(scores, min(k, len(self.vectors.item_table)))  # (b, k)
        return Ranking(np.where(np.isneginf(best), -1, found), best)

    def _scores(self, queries: Tensor, left_out: LeftOut, scores: Tensor) -> Tensor:
        """Fills in `scores` (b, I): -inf for items left out."""
        table = self.vectors.item_table
        _multiply(queries, table, scores)
        if self._offset is not None:
            scores -= self._offset
        if self._unlisted is not None:
            scores.masked_fill_(self._unlisted, float("-inf"))
        if len(left_out.items):
            own = (torch.as_tensor(one, device=table.device) for one in (left_out.queries, left_out.items))
            scores[tuple(own)] = float("-inf")
        return scores


def _multiply(queries: Tensor, table: Tensor, products: Tensor) -> None:
    """Write the dot products of queries (b, D) with all of a table (n, D) into `products` (b, n).

    On a CPU some columns at a time, so that they stay in the cache; all parts about as wide, for a narrow one would be
    rounded in another way, and equal rows should give equal products.
    """
    parts = 1 if table.is_cuda or len(queries) < _FEW else len(table) // _COLUMNS + 1
    for rows, columns in zip(table.tensor_split(parts), products.tensor_split(parts, dim=1), strict=True):
        torch.mm(queries, rows.T, out=columns)


def best_columns(scores: Tensor, k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The k largest scores (b, k) of each row (b, I) and their columns; equal scores by ascending column."""
    # One more than wanted, for torch leaves open which of equal scores come in, and in which order.
    best, columns = scores.topk(min(k + 1, scores.shape[1]), dim=1)
    last, next_one = best[:, k - 1], best[:, -1]  # (b,)
    tied = (last == next_one) & (last > float("-inf")) & (best.shape[1] > k)  # (b,) more than k are that good
    columns, order = columns[:, :k].sort(dim=1)
    best, order = best[:, :k].gather(1, order).sort(dim=1, descending=True, stable=True)
    columns = columns.gather(1, order)
    for row in tied.nonzero()[:, 0].tolist():
        enough = (scores[row] >= last[row]).nonzero()[:, 0]
        values, order = scores[row, enough].sort(descending=True, stable=True)
        best[row], columns[row] = values[:k], enough[order[:k]]
    return best.cpu().numpy(), columns.cpu().numpy()
