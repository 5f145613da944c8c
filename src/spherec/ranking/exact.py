"""Exact ranking: every item is scored, a block of queries and a block of items at a time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.geometry import Vectors
from spherec.ranking.ranker import LeftOut, Ranking, check_queries, in_blocks

_SCORES = 1 << 24  # held at once: 64 MB of float32
_TIMES_ON_GPU = 16
_COLUMNS = 1024  # multiplied at once
_FEW_QUERIES = 32  # fewer are multiplied with all columns at once


class ExactRanker:
    """Ranks all items by squared distance; of equally near items, the one with the lower index comes first.

    Items for which `listed` (I,) is false are left out for everybody.
    The score is u·v − |v|²/2, which falls as |u − v|² grows. On the sphere |v|² is the same for all and left out.
    """

    def __init__(self, vectors: Vectors, *, listed: NDArray[np.bool_] | None = None) -> None:
        self.vectors = vectors
        self._unlisted = None if listed is None else torch.as_tensor(~listed, device=vectors.device)  # (I,)

    def top(self, users: NDArray[np.int64], k: int, *, without: Interactions | None = None) -> Ranking:
        """Return the k best items for user indices (B,), without those that the users have in `without`."""
        size, room = self._room(len(users))

        def rank(part: slice) -> Ranking:
            index = torch.as_tensor(users[part], device=self.vectors.device)
            return self._rank(self.vectors.users(index), k, LeftOut.of_users(users[part], without), room)

        return in_blocks(len(users), k, size, rank)

    def top_of(
        self, queries: NDArray[np.float32], k: int, *, without: Sequence[NDArray[np.integer[Any]]] | None = None
    ) -> Ranking:
        """Return the k best items for vectors (B, D), without those in each query's list of item indices."""
        check_queries(queries, self.vectors.dim)
        left_out = LeftOut.of_lists(without, len(queries), self.vectors.n_items)
        return self.top_without(queries, k, left_out)

    def top_without(self, queries: NDArray[np.float32], k: int, left_out: LeftOut) -> Ranking:
        """Return the k best items for vectors (B, D), with the items to leave out in one piece."""
        size, room = self._room(len(queries))

        def rank(part: slice) -> Ranking:
            return self._rank(torch.as_tensor(queries[part], device=self.vectors.device), k, left_out.of(part), room)

        return in_blocks(len(queries), k, size, rank)

    def _room(self, n_queries: int) -> tuple[int, Tensor]:
        """Return how many queries to rank at once, and memory for their scores with one block of items."""
        widest = min(self.vectors.n_items, self.vectors.block_size)
        scores = _SCORES * (_TIMES_ON_GPU if self.vectors.device.type == "cuda" else 1)
        size = min(max(scores // max(widest, 1), 1), max(n_queries, 1))
        return size, torch.empty(size * widest, device=self.vectors.device)

    def _rank(self, queries: Tensor, k: int, left_out: LeftOut, room: Tensor) -> Ranking:
        """Rank all items for queries (b, D), carrying the best k from one block of items to the next."""
        own = tuple(torch.as_tensor(part, device=queries.device) for part in (left_out.queries, left_out.items))
        best = queries.new_empty(len(queries), 0)  # (b, ≤ k) scores
        found = torch.empty(len(queries), 0, dtype=torch.int64, device=queries.device)  # (b, ≤ k) item indices
        first = 0
        for items in self.vectors.item_blocks():  # (c, D)
            scores = self._scores(queries, items, first, own, room)  # (b, c)
            block_best, block_found = best_columns(scores, min(k, scores.shape[1]))
            if first == 0:
                best, found = block_best, block_found
            else:  # earlier blocks stand before later ones, so equal scores stay in the order of their indices
                best, order = torch.cat((best, block_best), 1).sort(dim=1, descending=True, stable=True)
                best, found = best[:, :k], torch.cat((found, block_found + first), 1).gather(1, order)[:, :k]
            first += len(items)
        return Ranking(found.masked_fill(best.isneginf(), -1).cpu().numpy(), best.cpu().numpy())

    def _scores(self, queries: Tensor, items: Tensor, first: int, own: tuple[Tensor, ...], room: Tensor) -> Tensor:
        """Score items (c, D), indices `first` and up, for queries (b, D): (b, c), -inf for what is left out."""
        scores = room[: len(queries) * len(items)].view(len(queries), len(items))
        _multiply(queries, items, scores)
        if self.vectors.constraint == "ball":
            scores -= items.square().sum(1) / 2
        if self._unlisted is not None:
            scores.masked_fill_(self._unlisted[first : first + len(items)], float("-inf"))
        if len(own[1]):
            inside = (own[1] >= first) & (own[1] < first + len(items))
            scores[own[0][inside], own[1][inside] - first] = float("-inf")
        return scores


def _multiply(queries: Tensor, items: Tensor, products: Tensor) -> None:
    """Write the dot products of queries (b, D) with items (c, D) into `products` (b, c).

    On a CPU some columns at a time, so that they stay in the cache. All parts are about as wide: a narrow one would be
    rounded in another way, and equal rows should give equal products.
    """
    parts = 1 if items.is_cuda or len(queries) < _FEW_QUERIES else len(items) // _COLUMNS + 1
    for rows, columns in zip(items.tensor_split(parts), products.tensor_split(parts, dim=1), strict=True):
        torch.mm(queries, rows.T, out=columns)


def best_columns(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
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
