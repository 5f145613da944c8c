"""Exact ranking: every item is scored, a block of queries and a block of items at a time."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.geometry import Vectors
from spherec.ranking.ranker import (
    Indices,
    LeftOut,
    Mainstream,
    Ranking,
    check_dial,
    check_items,
    check_queries,
    check_users,
    refuse_nan,
    split_blocks,
)

_SCORES = 1 << 24  # held at once: 64 MB of float32
_TIMES_ON_GPU = 16
_COLUMNS = 1024  # multiplied at once
_FEW_QUERIES = 32  # fewer are multiplied with all columns at once


class ExactRanker:
    """Ranks all items by squared distance; of equally near items, the one with the lower index comes first.

    The score is u·v − |v|²/2, which falls as |u − v|² grows. On the sphere |v|² is the same for all and left out. An
    item with reach gets λ times its reach in addition.

    Args:
        vectors: Vectors of users and items.
        listed: (I,) False for items that nobody gets; by default all items are listed.
        catalogue: Rows to search: the items, or the users, which then stand where items are named here.
    """

    def __init__(
        self,
        vectors: Vectors,
        *,
        listed: NDArray[np.bool_] | None = None,
        catalogue: Literal["items", "users"] = "items",
    ) -> None:
        self.vectors = vectors
        self._blocks = vectors.item_blocks if catalogue == "items" else vectors.user_blocks
        self._size = vectors.n_items if catalogue == "items" else vectors.n_users
        self._reach = vectors.reach if catalogue == "items" else None  # (I,)
        self._unlisted = None if listed is None else torch.as_tensor(~listed, device=vectors.device)  # (I,)

    def top(
        self,
        users: NDArray[np.int64],
        k: int,
        *,
        without: Interactions | None = None,
        only: Indices | None = None,
        exclude: Indices | None = None,
        mainstream: Mainstream | None = None,
    ) -> Ranking:
        """Return the k best items for user indices (B,), without those that the users have in `without`."""
        users = check_users(users, self.vectors.n_users)
        ranking = Ranking.empty(len(users), k)
        dial = check_dial(mainstream, len(users), self.vectors)  # (B,)
        closed, room = self._find_closed(only, exclude), self._room(len(users))
        for block in split_blocks(len(users), len(room)):
            queries = self.vectors.users(torch.as_tensor(users[block], device=self.vectors.device))  # (b, D)
            left_out = LeftOut.of_users(users[block], without)
            ranking.put(block, *self._rank(queries, int(k), left_out, closed, dial[block], room))
        return ranking

    def top_of(
        self,
        queries: NDArray[np.float32],
        k: int,
        *,
        without: LeftOut | Sequence[Indices] | None = None,
        only: Indices | None = None,
        exclude: Indices | None = None,
        mainstream: Mainstream | None = None,
    ) -> Ranking:
        """Return the k best items for vectors (B, D), without those in each query's list of item indices."""
        check_queries(queries, self.vectors.dim)
        left_out = LeftOut.of_lists(without, len(queries), self._size)
        ranking = Ranking.empty(len(queries), k)
        dial = check_dial(mainstream, len(queries), self.vectors)  # (B,)
        closed, room = self._find_closed(only, exclude), self._room(len(queries))
        for block in split_blocks(len(queries), len(room)):
            some = torch.as_tensor(queries[block], device=self.vectors.device)  # (b, D)
            ranking.put(block, *self._rank(some, int(k), left_out.select(block), closed, dial[block], room))
        return ranking

    def _room(self, n_queries: int) -> Tensor:
        """Return memory (b, c) for the scores of b queries with a block of c items; b is how many to rank at once."""
        widest = min(self._size, self.vectors.block_size)
        scores = _SCORES * (_TIMES_ON_GPU if self.vectors.device.type == "cuda" else 1)
        size = min(max(scores // max(widest, 1), 1), max(n_queries, 1))
        return torch.empty(size, widest, device=self.vectors.device)

    def _find_closed(self, only: Indices | None, exclude: Indices | None) -> Tensor | None:
        """Return the items (I,) that no query gets, None if there are none."""
        if only is None and exclude is None:
            return self._unlisted
        closed = np.full(self._size, only is not None)
        if only is not None:
            closed[check_items(only, self._size, "only")] = False
        if exclude is not None:
            closed[check_items(exclude, self._size, "exclude")] = True
        chosen = torch.as_tensor(closed, device=self.vectors.device)
        return chosen if self._unlisted is None else chosen | self._unlisted

    def _rank(
        self,
        queries: Tensor,
        k: int,
        left_out: LeftOut,
        closed: Tensor | None,
        dial: NDArray[np.float32],
        room: Tensor,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Rank all items for queries (b, D) with λ (b,), carrying the best k from one block of items to the next."""
        rows, own = (torch.as_tensor(part, device=queries.device) for part in (left_out.queries, left_out.items))
        best = queries.new_empty(len(queries), 0)  # (b, ≤ k) scores
        listed = torch.empty(len(queries), 0, dtype=torch.int64, device=queries.device)  # (b, ≤ k) item indices
        share = torch.as_tensor(dial, device=queries.device)  # (b,)
        first = 0
        for items in self._blocks():  # (c, D)
            last = first + len(items)
            scores = room.view(-1)[: len(queries) * len(items)].view(len(queries), len(items))  # (b, c)
            _multiply(queries, items, scores)
            if self.vectors.constraint == "ball":
                scores -= items.square().sum(1) / 2
            if self._reach is not None:
                scores.addr_(share, self._reach[first:last])
            if closed is not None:
                scores.masked_fill_(closed[first:last], float("-inf"))
            if len(own):
                is_whole = len(items) == self._size  # then nothing has to be sorted out, which would wait for a GPU
                inside = slice(None) if is_whole else (own >= first) & (own < last)
                scores[rows[inside], own[inside] - first] = float("-inf")
            block_best, block_listed = best_columns(scores, min(k, len(items)))
            if first == 0:
                best, listed = block_best, block_listed
            else:  # earlier blocks stand before later ones, so equal scores stay in the order of their indices
                best, order = torch.cat((best, block_best), 1).sort(dim=1, descending=True, stable=True)
                best, listed = best[:, :k], torch.cat((listed, block_listed + first), 1).gather(1, order)[:, :k]
            first = last
        best_scores, best_items = best.cpu().numpy(), listed.cpu().numpy()  # (b, k)
        refuse_nan(best_scores)  # torch ranks NaN first
        return np.where(np.isneginf(best_scores), -1, best_items), best_scores


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
