"""The sampler for laws that do not change while the model learns: uniform and popularity."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.geometry import Geometry
from spherec.sampling.draw import Draw
from spherec.sampling.membership import Membership
from spherec.sampling.sampler import Negatives


class FixedLawSampler:
    """Negatives drawn independently, with replacement, in proportion to fixed weights of items.

    Drawn per pair, from the items that the user does not have; a user who has all items of the law gets none, and her
    places are masked. Or, if `shared`, drawn once per batch from all items; then each user's own items are masked.
    """

    def __init__(
        self, train: Interactions, weights: NDArray[np.float64], negatives: int, device: torch.device, *, shared: bool
    ) -> None:
        # A shared pool of more than all items would hold the same ones again, and take as long.
        self.negatives = min(negatives, max(train.n_items, 1)) if shared else negatives
        self._draw = Draw(train, weights, device)
        self._membership = Membership(train, device) if shared else None

    def probabilities(self) -> Tensor:
        """The law (I,), before any user's items are left out."""
        return self._draw.probabilities()

    def probabilities_for(self, users: Tensor) -> Tensor:
        """The law (B, I) of each negative for users (B,), their own items left out."""
        return self._draw.probabilities_for(users)

    def sample(self, users: Tensor, positives: Tensor, geometry: Geometry, generator: torch.Generator) -> Negatives:  # noqa: ARG002
        """N negatives for each of users (B,), or N for all of them; positives and geometry play no part."""
        if self._membership is None:
            items, valid = self._draw.without(users, self.negatives, generator)  # (B, N)
        else:
            items = self._draw.any(self.negatives, generator)[None]  # (1, N)
            valid = ~self._membership.mask(users, items[0])  # (B, N)
        return Negatives(items, valid, self._draw.log_probabilities(items))
