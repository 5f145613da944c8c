"""The operations of a backend in plain torch: the oracle of the compiled ones, and the fallback for any device."""

import torch
from torch import Tensor

from spherec.geometry import unit
from spherec.kernels.protocol import (
    AdamRates,
    AdamRows,
    AdamState,
    LawDraws,
    LawTables,
    MembershipMask,
    OwnItems,
    TwoStageDraws,
    TwoStageLaw,
)
from spherec.kernels.reference.adam import ReferenceRows
from spherec.kernels.reference.features import ReferenceFeatures, keep_rows
from spherec.kernels.reference.hinge import hinge_gradient
from spherec.kernels.reference.negatives import ReferenceLaw, ReferenceMembership, ReferenceTwoStage
from spherec.kernels.reference.softmin import softmin_gradient


class ReferenceBackend:
    """Plain torch on any device."""

    def adam(self, state: AdamState, rates: AdamRates, *, ball: bool) -> AdamRows:
        """Return the rows of a table under dense Adam."""
        return ReferenceRows(state, rates, ball=ball)

    def unit(self, rows: Tensor) -> Tensor:
        """Scale rows (…, D) to length 1 in place."""
        return rows.copy_(unit(rows))

    def law(self, tables: LawTables) -> LawDraws:
        """Return draws from a law."""
        return ReferenceLaw(tables)

    def membership(self, own: OwnItems, device: torch.device) -> MembershipMask:
        """Return the mask of who has what."""
        return ReferenceMembership(own, device)

    def two_stage(self, law: TwoStageLaw, own: OwnItems, device: torch.device) -> TwoStageDraws:
        """Return draws of two-stage sampling."""
        return ReferenceTwoStage(law, own, device)

    def hinge_gradient(
        self, rows: Tensor, valid: Tensor, *, margin: float, ranked: bool, n_items: int, on_sphere: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the gradient of the hinge and three sums."""
        return hinge_gradient(rows, valid, margin=margin, ranked=ranked, n_items=n_items, on_sphere=on_sphere)

    softmin_gradient = staticmethod(softmin_gradient)
    keep_rows = staticmethod(keep_rows)
    features = ReferenceFeatures

    def next_batch(
        self, pairs: tuple[Tensor, Tensor], order: Tensor, first: Tensor, size: int
    ) -> tuple[Tensor, Tensor]:
        """Return the next users and items (size,)."""
        at = order[first + torch.arange(size, device=order.device)]  # (size,)
        users, items = pairs
        return users[at].long(), items[at].long()
