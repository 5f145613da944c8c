"""The hinge and its gradient in one pass. `spherec.losses.hinge` has the formula."""

import math

import numpy as np
import torch
from torch import Tensor

from spherec.geometry import SHORTEST
from spherec.kernels.cpu.compiled import compiled
from spherec.kernels.protocol import Flags, Floats


def hinge_gradient(
    rows: Tensor, valid: Tensor, *, margin: float, ranked: bool, n_items: int, on_sphere: bool
) -> tuple[Tensor, Tensor]:
    """Return the gradient, shaped as the rows, and three sums (3,): loss, active pairs, places without a negative.

    `rows` (2 B + B N, D) are raw rows of B users, B positives, the N negatives of the first pair, of the second …;
    `valid` (B, N) is false in places without a negative. With `ranked`, pairs are weighted by rank.
    """
    gradient = torch.zeros_like(rows)
    mask = valid.numpy()  # (B, N)
    loss, active = fill_gradient(rows.numpy(), mask, (margin, ranked, n_items, on_sphere), gradient.numpy())
    return gradient, torch.tensor([loss, active, mask.size - mask.sum()], dtype=torch.float64)


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})
def fill_gradient(
    rows: Floats, valid: Flags, settings: tuple[float, bool, int, bool], gradient: Floats
) -> tuple[float, int]:
    """Fill in the gradient, which is all 0; return the sum of the losses and the number of pairs that have one."""
    margin, ranked, n_items, on_sphere = settings
    pairs, n = valid.shape
    dim = rows.shape[1]
    inverse = np.ones(len(rows), np.float32)  # 1 / length, or 1 in the ball
    if on_sphere:
        for row in range(len(rows)):
            inverse[row] = 1 / max(math.sqrt(_dot(rows[row], rows[row])), SHORTEST)
    loss, active = 0.0, 0
    for pair in range(pairs):
        user, positive, first = pair, pairs + pair, 2 * pairs + pair * n
        near = float(_distance(rows, inverse, user, positive, on_sphere))
        nearest, chosen, inside, count = np.inf, -1, 0, 0
        for k in range(n):
            if valid[pair, k]:
                far = float(_distance(rows, inverse, user, first + k, on_sphere))
                count += 1
                inside += int(near - far + margin > 0)
                if far < nearest:
                    nearest, chosen = far, first + k
        if count == 0 or near - nearest + margin <= 0:
            continue
        if chosen < 0:  # there are negatives, but none is nearest: some number is NaN
            return np.nan, active
        weight = math.log1p(n_items * inside / count) if ranked else 1.0
        loss += weight * (near - nearest + margin)
        active += 1
        scale = np.float32(2 * weight)
        u, p, q = inverse[user], inverse[positive], inverse[chosen]
        for d in range(dim):
            gradient[user, d] = scale * (q * rows[chosen, d] - p * rows[positive, d])
            gradient[positive, d] = scale * (p * rows[positive, d] - u * rows[user, d])
            gradient[chosen, d] = scale * (u * rows[user, d] - q * rows[chosen, d])
        if on_sphere:
            for row in (user, positive, chosen):
                _through_unit(rows[row], inverse[row], gradient[row])
    return loss, active


@compiled(error_model="numpy", fastmath={"reassoc", "contract"}, inline="always")
def _dot(one: Floats, other: Floats) -> np.float32:
    total = np.float32(0)
    for d in range(len(one)):
        total += one[d] * other[d]
    return total


@compiled(error_model="numpy", inline="always")
def _distance(rows: Floats, inverse: Floats, one: int, other: int, on_sphere: bool) -> np.float32:
    """Return the squared distance of two vectors."""
    dot = inverse[one] * inverse[other] * _dot(rows[one], rows[other])
    squares = np.float32(2) if on_sphere else _dot(rows[one], rows[one]) + _dot(rows[other], rows[other])
    distance: np.float32 = squares - np.float32(2) * dot
    return distance


@compiled(error_model="numpy", fastmath={"reassoc", "contract"}, inline="always")
def _through_unit(row: Floats, inverse: float, gradient: Floats) -> None:
    """Turn the gradient of a unit vector into that of its raw row: the part along the vector falls away."""
    along = _dot(row, gradient) * inverse * inverse
    for d in range(len(row)):
        gradient[d] = (gradient[d] - along * row[d]) * inverse
