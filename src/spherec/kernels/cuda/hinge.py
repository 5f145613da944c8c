"""The hinge and its gradient in one pass, a program for each pair. `spherec.losses.hinge` has the formula."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from spherec.geometry import SHORTEST
from spherec.kernels.cuda.adam import shape_of

_SHORTEST = tl.constexpr(SHORTEST)


def hinge_gradient(
    rows: Tensor, valid: Tensor, *, margin: float, ranked: bool, n_items: int, on_sphere: bool
) -> tuple[Tensor, Tensor]:
    """Return the gradient, and (3, B): the loss of each pair, whether it has one, its places without a negative.

    `kernels.cpu.hinge` describes the arguments.
    """
    pairs, n = valid.shape
    dim = rows.shape[1]
    gradient = torch.empty(rows.shape, dtype=rows.dtype, device=rows.device)
    of_pairs = torch.empty(3, pairs, dtype=torch.float64, device=rows.device)
    arrays = rows.contiguous(), valid.contiguous(), gradient, of_pairs
    _pair[(pairs,)](*arrays, float(margin), float(n_items), pairs, ranked, on_sphere, n, dim, **shape_of(dim))
    return gradient, of_pairs


@triton.jit
def _pair(
    rows, valid, gradient, of_pairs, margin, n_items, pairs,
    RANKED: tl.constexpr, ON_SPHERE: tl.constexpr, N: tl.constexpr, dim: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    pair = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, WIDTH)
    inside = d < dim
    user, user_scale = _vector(rows, pair, d, inside, ON_SPHERE, dim)
    positive, positive_scale = _vector(rows, pairs + pair, d, inside, ON_SPHERE, dim)
    near = _distance(user, positive, ON_SPHERE)
    first = 2 * pairs + pair * N
    nearest, chosen, within, count = float("inf"), -1, 0, 0
    for k in range(N):
        is_there = tl.load(valid + pair * N + k) != 0
        negative, _ = _vector(rows, first + k, d, d < tl.where(is_there, dim, 0), ON_SPHERE, dim)
        far = _distance(user, negative, ON_SPHERE)
        count += is_there.to(tl.int32)
        within += (is_there & (near - far + margin > 0)).to(tl.int32)
        nearer = is_there & ((far < nearest) | (far != far))  # NaN must show
        chosen = tl.where(nearer, k, chosen)
        nearest = tl.where(nearer, far, nearest)
    violation = near - nearest + margin
    active = (count > 0) & ~(violation <= 0)
    weight = 1.0
    if RANKED:
        weight = tl.log(1 + n_items * within / tl.maximum(count, 1))
    tl.store(of_pairs + pair, tl.where(active, weight * violation, 0.0))
    tl.store(of_pairs + pairs + pair, active.to(tl.float64))
    tl.store(of_pairs + 2 * pairs + pair, 1.0 * (N - count))
    scale = tl.where(active, 2 * weight, 0.0)
    negative, negative_scale = _vector(rows, first + tl.maximum(chosen, 0), d, inside, ON_SPHERE, dim)
    of_user = _through_unit(scale * (negative - positive), user, user_scale, ON_SPHERE)
    of_positive = _through_unit(scale * (positive - user), positive, positive_scale, ON_SPHERE)
    of_negative = _through_unit(scale * (user - negative), negative, negative_scale, ON_SPHERE)
    tl.store(gradient + pair * dim + d, of_user, mask=inside)
    tl.store(gradient + (pairs + pair) * dim + d, of_positive, mask=inside)
    for k in range(N):
        mine = active & (chosen == k)
        tl.store(gradient + (first + k) * dim + d, tl.where(mine, of_negative, 0.0), mask=inside)


@triton.jit
def _vector(rows, row, d, inside, ON_SPHERE: tl.constexpr, dim: tl.constexpr):
    """Return the vector of a row, and the factor by which the row was scaled."""
    vector = tl.load(rows + row * dim + d, mask=inside, other=0.0)
    scale = 1.0
    if ON_SPHERE:
        scale = 1 / tl.maximum(tl.sqrt(tl.sum(vector * vector, 0)), _SHORTEST)
        vector = vector * scale
    return vector, scale


@triton.jit
def _distance(one, other, ON_SPHERE: tl.constexpr):
    squares = 2.0
    if not ON_SPHERE:
        squares = tl.sum(one * one, 0) + tl.sum(other * other, 0)
    return squares - 2 * tl.sum(one * other, 0)


@triton.jit
def _through_unit(gradient, vector, scale, ON_SPHERE: tl.constexpr):
    """Turn the gradient of a vector into that of its raw row: on the sphere, the part along the vector falls away."""
    if ON_SPHERE:
        gradient = (gradient - tl.sum(gradient * vector, 0) * vector) * scale
    return gradient
