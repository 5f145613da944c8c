"""Has a user an item? Answered for many at once on the tensors' device."""

import torch
from torch import Tensor

from spherec.data.interactions import Interactions


class Membership:
    """The pairs of `train`, to be asked about."""

    def __init__(self, train: Interactions, device: torch.device) -> None:
        self.n_items = train.n_items
        self.starts = torch.tensor(train.indptr, device=device)  # (U + 1,)
        self.items = torch.tensor(train.indices, device=device)  # (E,)
        users = torch.tensor(train.users, dtype=torch.int64, device=device)
        self.keys = users * train.n_items + self.items  # (E,) ascending
        self._column = torch.full((train.n_items,), -1)  # (I,) where an item stands among those asked about

    def mask(self, users: Tensor, items: Tensor) -> Tensor:
        """(B, C) whether user b (B,) has item c (C,)."""
        if not len(self.keys):
            return torch.zeros(len(users), len(items), dtype=torch.bool, device=users.device)
        if users.device.type == "cpu":
            return self._mask_by_rows(users, items)
        wanted = users[:, None] * self.n_items + items  # (B, C)
        place = torch.searchsorted(self.keys, wanted).clamp_max_(len(self.keys) - 1)
        return self.keys[place] == wanted

    def _mask_by_rows(self, users: Tensor, items: Tensor) -> Tensor:
        """The same, going through the users' rows: far less to look at, but as many steps as the rows are long."""
        distinct, place = torch.unique(items, return_inverse=True)  # (n,), (C,)
        self._column[distinct] = torch.arange(len(distinct))
        starts = self.starts[users]  # (B,)
        lengths = self.starts[users + 1] - starts  # (B,)
        row = torch.repeat_interleave(lengths)  # (R,) all items of all these users: which user,
        at = torch.arange(len(row)) + (starts - lengths.cumsum(0) + lengths)[row]  # (R,) and where in `items`
        column = self._column[self.items[at]]  # (R,)
        mask = torch.zeros(len(users), len(distinct), dtype=torch.bool)
        mask[row[column >= 0], column[column >= 0]] = True
        self._column[distinct] = -1
        return mask[:, place]
