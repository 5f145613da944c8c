"""Has a user an item? Answered for many at once on the tensors' device."""

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.kernels.membership import mark_own


class Membership:
    """The pairs of `train`, to be asked about."""

    def __init__(self, train: Interactions, device: torch.device) -> None:
        self._train = train
        self._device = device

    def mask(self, users: Tensor, items: Tensor) -> Tensor:
        """(B, C) whether user b (B,) has item c (C,)."""
        return self._by_rows(users, items) if users.device.type == "cpu" else self._by_keys(users, items)

    def _by_rows(self, users: Tensor, items: Tensor) -> Tensor:
        """Going through the users' rows."""
        mask = torch.zeros(len(users), len(items), dtype=torch.bool)
        rows = self._train.indptr, self._train.indices
        mark_own(users.numpy(), items.numpy(), *rows, self._column, mask.numpy())
        return mask

    def _by_keys(self, users: Tensor, items: Tensor) -> Tensor:
        """Looking for each pair among all; far more to look at, but all at once."""
        wanted = users[:, None] * self._train.n_items + items  # (B, C)
        if not len(self._keys):
            return torch.zeros_like(wanted, dtype=torch.bool)
        place = torch.searchsorted(self._keys, wanted).clamp_max_(len(self._keys) - 1)
        return self._keys[place] == wanted

    @cached_property
    def _column(self) -> NDArray[np.int32]:
        """(I,) where an item stands among those asked for; -1 between two calls."""
        return np.full(self._train.n_items, -1, dtype=np.int32)

    @cached_property
    def _keys(self) -> Tensor:
        """(E,) ascending: a number for each pair."""
        pairs = (self._train.users, self._train.indices)
        users, items = (torch.tensor(one, dtype=torch.int64, device=self._device) for one in pairs)
        return users * self._train.n_items + items
