"""Softmin over a pool of negatives that a batch shares, and its gradient, on the sphere.

`spherec.losses.softmin` and autograd do the same in three times as many passes over all pairs with all negatives. Here
one table (B, N) is made and changed in place: similarities, their exponents, and at last what each pair pulls and
pushes with,

    ∂/∂s_ik = p_ik / τ        ∂/∂s_ij = −Σ_k p_ik / τ        p_ik = e_ik / (1 + Σ_k e_ik)

where e_ik is the exponential in the loss.
"""

import math

import torch
from torch import Tensor

from spherec.threads import product

_SHORTEST = 1e-12  # a row of zeros is divided by it


def shared_softmin_gradient(
    rows: Tensor,  # (2 B + N, D) of B users, B positives, N negatives
    valid: Tensor,  # (B, N)
    log_q: Tensor | None,  # (1, N)
    weights: Tensor | None,  # (B,) of pairs
    *,
    temperature: float,
    gamma: float,
    n_items: int,
) -> tuple[Tensor, Tensor]:
    """The gradient (2 B + N, D); and (3,) the loss, pairs with a negative nearer than the positive, places masked."""
    n = len(valid)
    length = rows.norm(dim=1, keepdim=True).clamp_min_(_SHORTEST)  # (2 B + N, 1)
    vectors = rows / length
    users, positives, negatives = vectors[:n], vectors[n : 2 * n], vectors[2 * n :]
    near = (users * positives).sum(1, keepdim=True)  # (B, 1)
    table = product(users, negatives.T)  # (B, N) s
    table.masked_fill_(~valid, -torch.inf)
    active = table.amax(1, keepdim=True) > near  # (B, 1)
    table.sub_(near).div_(temperature)
    if log_q is not None:
        table.sub_(gamma * (log_q + math.log(n_items)))
    highest = table.amax(1, keepdim=True).clamp_min_(0)  # (B, 1) for the 1 in the logarithm has the exponent 0
    table.sub_(highest).exp_()
    total = table.sum(1, keepdim=True) + (-highest).exp()  # (B, 1)
    weight = torch.ones_like(total) if weights is None else weights[:, None]  # (B, 1)
    loss = weight * (highest + total.log())  # (B, 1)
    table.mul_(weight / (temperature * total))  # ∂/∂s_ik
    pull = table.sum(1, keepdim=True)  # (B, 1)
    gradient = torch.cat(
        (product(table, negatives) - pull * positives, -pull * users, product(table.T, users))
    )  # of vectors
    gradient.sub_((gradient * vectors).sum(1, keepdim=True) * vectors).div_(length)  # of rows
    return gradient, torch.stack([one.sum().double() for one in (loss, active, ~valid)])
