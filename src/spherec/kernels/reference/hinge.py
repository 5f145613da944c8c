"""The hinge and its gradient by autograd. `spherec.losses.hinge` has the formula."""

import torch
from torch import Tensor

from spherec.geometry import squared_distance, unit


def hinge_gradient(
    rows: Tensor, valid: Tensor, *, margin: float, ranked: bool, n_items: int, on_sphere: bool
) -> tuple[Tensor, Tensor]:
    """Return the gradient, shaped as the rows, and three sums (3,): loss, active pairs, places without a negative.

    `rows` (2 B + B N, D) are raw rows of B users, B positives, the N negatives of the first pair, of the second …;
    `valid` (B, N) is false in places without a negative. With `ranked`, pairs are weighted by rank.
    """
    n = len(valid)
    with torch.enable_grad():
        rows = rows.detach().requires_grad_()
        vectors = unit(rows) if on_sphere else rows
        user, positive = vectors[:n], vectors[n : 2 * n]  # (B, D), (B, D)
        negative = vectors[2 * n :].view(*valid.shape, rows.shape[1])  # (B, N, D); B may be 0
        near, far = squared_distance(user, positive), squared_distance(user, negative)  # (B,), (B, N)
        violation = near - far.masked_fill(~valid, float("inf")).amin(1) + margin  # (B,)
        loss = violation.clamp_min(0.0)
        if ranked:
            inside = (near[:, None] - far + margin > 0) & valid  # (B, N)
            loss = loss * torch.log1p(n_items * inside.sum(1) / valid.sum(1).clamp_min(1))
        (gradient,) = torch.autograd.grad(loss.sum(), rows)
    sums = loss.detach().sum(), (violation > 0).sum(), (~valid).sum()
    return gradient, torch.stack([one.double() for one in sums])
