"""Draws from a fixed law over items, exactly without the items that a user has.

Each item owns as many of the whole numbers 0 … T − 1 as its weight says, in the order of items. A draw for a user is a
number below T less the numbers that their own items own; it names an item once it has been moved past the numbers of
those of their items that lie before it. One binary search finds these, because along a user's row the numbers left free
before each of their items only grow. So no draw is made in vain, and there is no bound on tries: a user with all items
but one gets that one, a user with all gets none.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.errors import DataError
from spherec.geometry import Geometry
from spherec.kernels import backend
from spherec.kernels.protocol import LawTables, OwnItems
from spherec.sampling.sampler import Negatives

_FINEST = 1 << 44  # numbers that weights are spread over: relative errors of 1e-6 and less for all but extreme laws


class ItemLaw:
    """Independent draws, with replacement, from the law of `weights` (I,); on request without a user's own items."""

    def __init__(self, train: Interactions, weights: NDArray[np.float64], device: torch.device) -> None:
        self._train = train
        self.tables = make_law_tables(train, weights, device)
        self.log_law = self.probabilities().log_().float()  # (I,)
        draws = backend(device).law(self.tables)
        self.any, self.without = draws.any, draws.without

    def probabilities(self) -> Tensor:
        """Return the law (I,), float64, before any user's items are left out."""
        return self._whole_numbers().double() / self.tables.total

    def probabilities_for(self, users: Tensor) -> Tensor:
        """Return the law (B, I) for each user (B,), without their items; all zero for one who has every item."""
        law = self._whole_numbers().double().repeat(len(users), 1)  # (B, I)
        for row, user in enumerate(users.tolist()):
            law[row, self._train.items_of(user).tolist()] = 0
        return law / law.sum(1, keepdim=True).clamp_min(1)

    def _whole_numbers(self) -> Tensor:
        """Return how many numbers each item owns (I,)."""
        ends = self.tables.ends
        return ends.diff(prepend=torch.zeros_like(ends[:1]))


class FixedLawSampler:
    """Negatives drawn independently, with replacement, from a law that does not change while the model learns.

    They are drawn per pair, from the items that the user does not have; a user who has all items of the law gets none,
    and their places are masked. Or, if `shared`, they are drawn once per batch from all items, and each user's own
    items are masked.
    """

    def __init__(
        self, train: Interactions, weights: NDArray[np.float64], negatives: int, device: torch.device, *, shared: bool
    ) -> None:
        # A shared pool of more than all items would hold the same ones again, and take as long.
        self.negatives = min(negatives, max(train.n_items, 1)) if shared else negatives
        self._law = ItemLaw(train, weights, device)
        self._membership = backend(device).membership(items_of_users(train), device) if shared else None

    def probabilities(self) -> Tensor:
        return self._law.probabilities()

    def probabilities_for(self, users: Tensor) -> Tensor:
        """Return the law (B, I) of each negative for users (B,), their own items left out."""
        return self._law.probabilities_for(users)

    def sample(self, users: Tensor, positives: Tensor, geometry: Geometry, generator: torch.Generator) -> Negatives:
        del positives, geometry
        if self._membership is None:
            items, valid = self._law.without(users, self.negatives, generator)  # (B, N)
        else:
            items = self._law.any(self.negatives, generator)[None]  # (1, N)
            valid = ~self._membership.mask(users, items[0])  # (B, N)
        return Negatives(items, valid, self._law.log_law[items])


def items_of_users(train: Interactions) -> OwnItems:
    """Return the items of every user as the kernels take them."""
    return OwnItems(train.indptr, train.indices, train.n_items)


def popularity_weights(train: Interactions, beta: float) -> NDArray[np.float64]:
    """Return f^β (I,) of the numbers f of users who have each item, scaled so that the largest is 1; 0 where f is."""
    count = train.users_per_item  # (I,)
    drawable = count > 0
    log_weights = beta * np.log(np.maximum(count, 1))  # (I,) logarithms, because f^β may be beyond any float
    highest = log_weights[drawable].max() if drawable.any() else 0.0
    return np.where(drawable, np.exp(np.minimum(log_weights - highest, 0.0)), 0.0)


def make_law_tables(train: Interactions, weights: NDArray[np.float64], device: torch.device) -> LawTables:
    """Return the law of `weights` (I,) in whole numbers."""
    if not np.any(weights > 0):
        raise DataError("there is no item to draw as a negative; give interactions with some")
    whole = _to_whole_numbers(weights, train.n_users)  # (I,)
    total = int(whole.sum())  # T
    owned = np.zeros(len(train) + 1, np.int64)  # (E + 1,)
    np.cumsum(whole[train.indices], out=owned[1:])
    of_row = owned[train.indptr]  # (U + 1,)
    ends = np.cumsum(whole)  # (I,)
    keys = ends[train.indices]  # (E,)
    keys -= owned[1:]
    keys += of_row[train.users]
    keys += train.users * np.int64(total)
    # On a CPU these tensors are the arrays themselves: with ten million items a second copy would be felt.
    arrays = ends, owned, train.indptr.copy(), total - np.diff(of_row), keys
    return LawTables(total, *(torch.as_tensor(array, device=device) for array in arrays))


def _to_whole_numbers(weights: NDArray[np.float64], n_users: int) -> NDArray[np.int64]:
    """Return the weights (I,) as whole numbers, 0 only where the weight is; exact where all are alike."""
    positive = weights > 0
    if np.all(weights[positive] == weights[positive][:1]):
        return positive.astype(np.int64)
    finest = min(_FINEST, (1 << 62) // max(n_users, 1))  # users times numbers must fit into 64 bits
    return np.where(positive, np.maximum(np.rint(weights / weights.sum() * finest), 1), 0).astype(np.int64)
