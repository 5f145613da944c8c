"""The operations of a backend in plain torch: the oracle of the compiled ones, and the fallback for any device."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from spherec.geometry import unit
from spherec.kernels.protocol import Gradient
from spherec.kernels.reference.adam import ReferenceRows
from spherec.kernels.reference.features import ReferenceFeatures, keep_rows
from spherec.kernels.reference.least_squares import solve_rows
from spherec.kernels.reference.negatives import ReferenceLaw, ReferenceMembership, ReferenceTwoStage


class Backend:
    """The operations whose speed decides that of training, for tensors of any device; others compile some of them."""

    adam: type[ReferenceRows] = ReferenceRows
    law: type[ReferenceLaw] = ReferenceLaw
    membership: type[ReferenceMembership] = ReferenceMembership
    two_stage: type[ReferenceTwoStage] = ReferenceTwoStage
    features: type[ReferenceFeatures] = ReferenceFeatures
    keep_rows = staticmethod(keep_rows)
    solve_rows = staticmethod(solve_rows)
    gradients: ClassVar[Mapping[str, Gradient]] = {}
    "Gradients of losses faster than autograd, by the name of their class; `spherec.kernels.fuse` calls them."

    def unit(self, rows: Tensor) -> Tensor:
        """Scale rows (…, D) to length 1 in place, and return them; a row of zeros stays zero."""
        return rows.copy_(unit(rows))

    def next_batch(
        self, pairs: tuple[Tensor, Tensor], order: Tensor, first: Tensor, size: int
    ) -> tuple[Tensor, Tensor]:
        """Return users and items (size,) of the pairs, (E,) each, at places `first` (1,) and after in `order` (E,)."""
        at = order[first + torch.arange(size, device=order.device)]  # (size,)
        users, items = pairs
        return users[at].long(), items[at].long()
