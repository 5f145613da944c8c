"""A user who was not there in training, placed by the items that she has."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.geometry import Vectors, unit
from spherec.training import Training


class Placing:
    """Places users in a space whose items stand still."""

    def __init__(self, vectors: Vectors, data: Interactions, config: Training) -> None:
        self._items = vectors.item_table

    def place(self, items: NDArray[np.int32]) -> Tensor:
        """The vector (D,) of a user who has these items (n,)."""
        return unit(self._items[torch.from_numpy(items).long()].sum(0))
