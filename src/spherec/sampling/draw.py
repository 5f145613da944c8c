"""Draws from a fixed law over items, exactly without the items that a user has.

Each item owns as many of the whole numbers 0 … T − 1 as its weight says, in the order of items. A draw for a user is a
number below T less what her own items own; it names an item once it has been moved past the numbers of those of her
items that lie before it. Which ones do is one binary search, for along a user's row the numbers left free before each
of her items only grow. So nothing is drawn in vain, and there is no bound on tries: a user with all items but one gets
that one, a user with all gets none.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.errors import DataError
from spherec.kernels import cuda
from spherec.kernels import draw as kernels

_FINEST = 1 << 44  # numbers that weights are spread over: relative errors of 1e-6 and less for all but extreme laws


class Draw:
    """Independent draws, with replacement, from the law of `weights` (I,); on request without a user's own items."""

    def __init__(
        self, train: Interactions, weights: NDArray[np.float64], device: torch.device, *, compiled: bool | None = None
    ) -> None:
        if not np.any(weights > 0):
            raise DataError("there is no item to draw as a negative; give interactions with some")
        whole = _whole_numbers(weights, train.n_users)  # (I,)
        owned = np.zeros(len(train) + 1, np.int64)  # (E + 1,) numbers owned by all pairs before
        np.cumsum(whole[train.indices], out=owned[1:])
        of_row = owned[train.indptr]  # (U + 1,)
        ends = np.cumsum(whole)  # (I,) past the numbers of each item
        self.total = int(whole.sum())  # T
        keys = ends[train.indices]  # (E,) ascending: T times the user, and the numbers before an item, not her own
        keys -= owned[1:]
        keys += of_row[train.users]
        keys += train.users * np.int64(self.total)
        self._train = train
        # Of a CPU these are the arrays themselves: with ten million items a second copy would be felt.
        self.ends, self._owned, self._free, self._keys = (
            torch.as_tensor(one, device=device) for one in (ends, owned, self.total - np.diff(of_row), keys)
        )  # (I,), (E + 1,), (U,), (E,)
        self._log_law = self.probabilities().log_().float()  # (I,)
        self._starts = torch.tensor(train.indptr, device=device)  # (U + 1,)
        self._triton = cuda.kernels("draw", device)
        if self._triton:
            tables = self.ends, self._owned, self._starts, self._free, self._keys
            self._state = self._triton.State(self.total, *tables)
        # On a CPU compiled loops do the same searches, in far fewer steps.
        self._compiled = device.type == "cpu" if compiled is None else compiled
        self._guide, self._shift = kernels.guide_of(ends) if self._compiled else (np.empty(0, np.int32), 0)

    def probabilities(self) -> Tensor:
        """The law (I,), float64, before any user's items are left out."""
        return self._whole().double() / self.total

    def log_probabilities(self, items: Tensor) -> Tensor:
        """The logarithm of the law at item indices (…), float32."""
        return self._log_law[items]

    def probabilities_for(self, users: Tensor) -> Tensor:
        """The law (B, I) for each user (B,), without her items; all zero for one who has every item of the law."""
        law = self._whole().double().repeat(len(users), 1)  # (B, I)
        for row, user in enumerate(users.tolist()):
            law[row, self._train.items_of(user).tolist()] = 0
        return law / law.sum(1, keepdim=True).clamp_min(1)

    def _whole(self) -> Tensor:
        """How many numbers each item owns (I,)."""
        return self.ends.diff(prepend=torch.zeros_like(self.ends[:1]))

    def any(self, n: int, generator: torch.Generator) -> Tensor:
        """Items (n,)."""
        numbers = self.numbers((n,), generator)
        if self._compiled:
            ends, found = self.ends.numpy(), torch.empty_like(numbers)
            kernels.name_items(numbers.numpy(), self.total, ends, self._guide, self._shift, found.numpy())
            return found
        return torch.searchsorted(self.ends, numbers % self.total, right=True)

    def numbers(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Random whole numbers from 0 to 2^63 − 1."""
        return torch.empty(shape, dtype=torch.int64, device=self.ends.device).random_(generator=generator)

    def without(self, users: Tensor, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """For each user (B,), n items that she does not have (B, n), and whether there is any (B, n)."""
        numbers = self.numbers((len(users), n), generator)
        if self._triton:
            items, valid = self._triton.without(self._state, users, numbers)
            return items, valid
        if self._compiled:
            return self._free_items(users, numbers)
        free = self._free[users][:, None]  # (B, 1)
        numbers %= free.clamp_min(1)
        place = torch.searchsorted(self._keys, users[:, None] * self.total + numbers, right=True)  # (B, n)
        numbers += self._owned[place] - self._owned[self._starts[users]][:, None]
        items = torch.searchsorted(self.ends, numbers, right=True).clamp_max_(self._train.n_items - 1)
        return items, (free > 0).expand(-1, n)

    def _free_items(self, users: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """What numbers (B, n) name among the items that users (B,) do not have, and whether there is any."""
        items, valid = torch.empty_like(numbers), torch.empty(numbers.shape, dtype=torch.bool)
        rows = self._starts.numpy(), self._owned.numpy(), self._keys.numpy()
        law = self._free.numpy(), (self.ends.numpy(), self._guide, self._shift)
        kernels.name_free_items(users.numpy(), numbers.numpy(), rows, *law, items.numpy(), valid.numpy())
        return items, valid


def _whole_numbers(weights: NDArray[np.float64], n_users: int) -> NDArray[np.int64]:
    """The weights (I,) as whole numbers, none of them 0 but where the weight is; exact where all are alike."""
    positive = weights > 0
    if np.all(weights[positive] == weights[positive][:1]):
        return positive.astype(np.int64)
    finest = min(_FINEST, (1 << 62) // max(n_users, 1))  # users times numbers must fit into 64 bits
    return np.where(positive, np.maximum(np.rint(weights / weights.sum() * finest), 1), 0).astype(np.int64)
