"""The operations of a backend in plain torch: the oracle of the compiled ones, and the fallback for any device."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from spherec.geometry import unit
from spherec.kernels.protocol import Gradient
from spherec.kernels.reference.adam import ReferenceRows
from spherec.kernels.reference.features import ReferenceFeatures, keep_rows
from spherec.kernels.reference.hinge import hinge_gradient
from spherec.kernels.reference.negatives import ReferenceLaw, ReferenceMembership, ReferenceTwoStage
from spherec.kernels.reference.softmin import softmin_gradient


class ReferenceBackend:
    """Plain torch on any device."""

    adam = ReferenceRows
    law = ReferenceLaw
    membership = ReferenceMembership
    two_stage = ReferenceTwoStage
    gradients: ClassVar[Mapping[str, Gradient]] = {"Hinge": hinge_gradient, "Softmin": softmin_gradient}
    keep_rows = staticmethod(keep_rows)
    features = ReferenceFeatures

    def unit(self, rows: Tensor) -> Tensor:
        return rows.copy_(unit(rows))

    def next_batch(
        self, pairs: tuple[Tensor, Tensor], order: Tensor, first: Tensor, size: int
    ) -> tuple[Tensor, Tensor]:
        at = order[first + torch.arange(size, device=order.device)]  # (size,)
        users, items = pairs
        return users[at].long(), items[at].long()
