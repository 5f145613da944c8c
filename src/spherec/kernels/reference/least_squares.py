"""Rows of a least squares problem, one small system each, by conjugate gradients on batches of rows of equal length.

Row r has n pairs, with items w_k of length D and weights c_k, and wants

    (diag(b + s_r) + Wᵀ C W) x = Wᵀ C 1        W (n, D), C = diag(c)

The diagonal is the preconditioner. What is left has rank n, so from 0 a row with n pairs is solved exactly in n steps.
A row with more pairs than there are steps begins with its solution of before.
"""

from typing import NamedTuple

import torch
from torch import Tensor

_LARGEST = 1 << 24  # numbers held at once


class Systems(NamedTuple):
    """One system for each row."""

    starts: Tensor
    "(n + 1,) int64: where the pairs of each row begin."
    others: Tensor
    "(E,) int64: the row of `table` in each pair."
    weights: Tensor | None
    "(E,) float32: c; None if all are 1."
    table: Tensor
    "(m, D) float32: w."
    diagonal: Tensor
    "(D,) float32: b."
    shift: Tensor
    "(n,) float32: s."


def solve_rows(systems: Systems, rows: Tensor, steps: int) -> None:
    """Improve the solutions (n, D) in place by so many steps; a row without pairs becomes 0."""
    counts = systems.starts.diff()  # (n,)
    order = counts.argsort(stable=True)
    sizes = counts[order].tolist()
    first = 0
    while first < len(sizes):
        past = first + 1
        while past < len(sizes) and _fits(sizes[first], sizes[past], past - first, rows.shape[1]):
            past += 1
        _solve_batch(systems, order[first:past], sizes[past - 1], rows, steps)
        first = past


def _fits(least: int, most: int, count: int, dim: int) -> bool:
    """Tell whether a longer row fits into a batch: it is not much longer, and memory stays small."""
    return most <= least + least // 8 and (count + 1) * max(most, 1) * dim <= _LARGEST


def _solve_batch(systems: Systems, batch: Tensor, longest: int, rows: Tensor, steps: int) -> None:
    if longest == 0:
        rows[batch] = 0
        return
    starts, table = systems.starts, systems.table
    place = starts[batch, None] + torch.arange(longest, device=table.device)  # (b, n)
    is_pair = place < starts[batch + 1, None]  # (b, n), false where a row is shorter
    place = place.clamp_(max=len(systems.others) - 1)
    items = table[systems.others[place]]  # W (b, n, D)
    weights = is_pair.to(table.dtype) if systems.weights is None else systems.weights[place] * is_pair  # (b, n)
    diagonal = systems.diagonal + systems.shift[batch, None]  # (b, D)
    is_short = (starts[batch + 1] - starts[batch] <= steps)[:, None]
    solution = rows[batch].masked_fill_(is_short, 0)  # (b, D)

    def product(vector: Tensor) -> Tensor:  # (b, D) -> (b, D)
        along = (items @ vector[..., None])[..., 0] * weights  # (b, n)
        return diagonal * vector + (along[:, None] @ items)[:, 0]

    residual = (weights[:, None] @ items)[:, 0] - product(solution)
    scaled = residual / diagonal
    direction, length = scaled, (residual * scaled).sum(1, keepdim=True)  # (b, D), (b, 1)
    for _ in range(steps):
        change = product(direction)
        step = length / (direction * change).sum(1, keepdim=True).clamp_(min=torch.finfo(table.dtype).tiny)
        solution += step * direction
        residual = residual - step * change
        scaled = residual / diagonal
        before, length = length, (residual * scaled).sum(1, keepdim=True)
        direction = scaled + length / before.clamp(min=torch.finfo(table.dtype).tiny) * direction
    rows[batch] = solution
