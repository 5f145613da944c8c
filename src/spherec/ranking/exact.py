"""The nearest items of each user, exactly: all items are looked at, in blocks of users."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError
from spherec.geometry import Vectors

_BLOCK = 1 << 24  # scores held at once: 64 MB of float32
_TIMES_ON_GPU = 16


@dataclass(frozen=True)
class Ranking:
    """The best items of B users, best first."""

    items: NDArray[np.int64]
    "(B, K) item indices; -1 where a user has fewer than K items left."
    scores: NDArray[np.float32]
    "(B, K) the larger the nearer; -inf where there is no item."


class ExactRanker:
    """Ranks all items for users by squared distance; of items equally near, the one with the lower index comes first.

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
        if k < 1:
            raise ArgumentError(f"k must be a whole number >= 1, got {k}")
        n_items = len(self.vectors.item_table)
        items = np.full((len(users), k), -1, dtype=np.int64)
        scores = np.full((len(users), k), -np.inf, dtype=np.float32)
        held = _BLOCK * (_TIMES_ON_GPU if self.vectors.item_table.is_cuda else 1)
        block = max(held // max(n_items, 1), 1)
        for first in range(0, len(users), block):
            part = users[first : first + block]
            best, found = _best(self._scores(part, without), min(k, n_items))  # (b, k)
            items[first : first + block, : found.shape[1]] = np.where(np.isneginf(best), -1, found)
            scores[first : first + block, : found.shape[1]] = best
        return Ranking(items, scores)

    def _scores(self, users: NDArray[np.int64], without: Interactions | None) -> Tensor:
        """(b, I), -inf for items left out."""
        table = self.vectors.item_table
        index = torch.as_tensor(users, device=table.device)
        scores = self.vectors.users(index) @ table.T  # (b, I)
        if self._offset is not None:
            scores -= self._offset
        if self._unlisted is not None:
            scores.masked_fill_(self._unlisted, float("-inf"))
        if without is not None:
            lengths = without.items_per_user[users]  # (b,)
            rows = np.repeat(np.arange(len(users)), lengths)  # (r,) all items of all these users
            at = np.arange(len(rows)) + np.repeat(without.indptr[users] - np.cumsum(lengths) + lengths, lengths)
            own = (torch.as_tensor(one, device=table.device) for one in (rows, without.indices[at].astype(np.int64)))
            scores[tuple(own)] = float("-inf")
        return scores


def _best(scores: Tensor, k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
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
