"""Softmin over a pool of negatives that a batch shares, and its gradient, in plain torch."""

import math

import torch
from torch import Tensor

from spherec.geometry import SHORTEST, each_subspace


def softmin_gradient(
    rows: Tensor, valid: Tensor, log_q: Tensor | None, weights: Tensor | None, dial: Tensor | None,
    *, temperature: float, gamma: float, n_items: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the gradient, shaped as the rows, and three sums (3,): loss, active pairs, masked places.

    `rows` (P, 2 B + N, d) are, in each of P subspaces, raw rows of B users, B positives and the N negatives that all
    pairs share; the sums are means over the subspaces. `valid` (B, N) is false where a negative is the user's own item;
    `log_q` (1, N) is the log of the probability with which each was drawn; `weights` (B,) are those of pairs. With
    `dial` (B,), λ of pairs, rows are (P, 2 B + N, d + 1), and the last number of an item's row is its reach.

    Autograd takes three times as many passes over all pairs with all negatives. Here one table (B, N) is made in each
    subspace and changed in place: similarities, their exponents, and at last the forces by which each pair pulls and
    pushes,

        ∂/∂s_ik = p_ik / τ        ∂/∂s_ij = −Σ_k p_ik / τ        p_ik = e_ik / (1 + Σ_k e_ik)

    where e_ik is the exponential in the loss. With reach, s/τ + λ_i b stands for s/τ, and λ_i γ for γ.
    """
    n = len(valid)
    shares = None if dial is None else dial[:, None]  # (B, 1) λ

    def gradient_in_one(rows: Tensor) -> tuple[Tensor, Tensor]:
        if shares is not None:
            rows, reach = rows[:, :-1], rows[:, -1:]  # (2 B + N, d), (2 B + N, 1)
        length = rows.norm(dim=1, keepdim=True).clamp_min_(SHORTEST)  # (2 B + N, 1)
        vectors = rows / length
        users, positives, negatives = vectors[:n], vectors[n : 2 * n], vectors[2 * n :]
        near = (users * positives).sum(1, keepdim=True)  # (B, 1)
        table = users @ negatives.T  # (B, N) s
        if shares is not None:
            near.add_(shares * reach[n : 2 * n], alpha=temperature)
            table.addr_(shares[:, 0], reach[2 * n :, 0], alpha=temperature)
        table.masked_fill_(~valid, -torch.inf)
        active = table.amax(1, keepdim=True) > near  # (B, 1)
        table.sub_(near).div_(temperature)
        if log_q is not None:
            bias = gamma * (log_q + math.log(n_items))  # (1, N)
            table.sub_(bias if shares is None else shares * bias)
        highest = table.amax(1, keepdim=True).clamp_min_(0)  # (B, 1) the 1 in the logarithm has the exponent 0
        table.sub_(highest).exp_()
        total = table.sum(1, keepdim=True) + (-highest).exp()  # (B, 1)
        weight = torch.ones_like(total) if weights is None else weights[:, None]  # (B, 1)
        loss = weight * (highest + total.log())  # (B, 1)
        table.mul_(weight / (temperature * total))  # ∂/∂s_ik
        pull = table.sum(1, keepdim=True)  # (B, 1)
        gradient = torch.cat((table @ negatives - pull * positives, -pull * users, table.T @ users))  # of vectors
        gradient.sub_((gradient * vectors).sum(1, keepdim=True) * vectors).div_(length)  # of rows
        if shares is not None:
            push = torch.cat((torch.zeros_like(pull), -pull * shares, table.T @ shares))  # (2 B + N, 1)
            gradient = torch.cat((gradient, push * temperature), dim=1)
        return gradient, torch.stack([one.sum().double() for one in (loss, active, ~valid)])

    return each_subspace(gradient_in_one, rows)
