"""Rows of dense Adam at sparse cost: read as of now, and moved by a gradient. `spherec.optim` has the formulas.

One program for each row, in which its D numbers are one block.
"""

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from spherec.kernels.cuda import warps
from spherec.kernels.cuda.order import ascending

_LOG_OF_NOTHING = -1e6  # 2 to the power of it is 0, and of 0 times it, 1


class State(NamedTuple):
    """What the kernels need to know of the optimiser; the tensors are its own."""

    table: Tensor  # (n, D)
    mean: Tensor  # (n, D)
    square: Tensor  # (n, D)
    last: Tensor  # (n,) int64
    steps: Tensor  # (1,) int64
    rates: Tensor  # (8,) float64: lr, ε, β₁, β₂, and log₂ of β₁/√β₂, β₁/β₂, β₁, β₂
    correction: Tensor  # (S,) c
    ahead: Tensor  # (S,) A
    ahead_epsilon: Tensor  # (S,) B


def rates(learning_rate: float, epsilon: float, beta1: float, beta2: float) -> Tensor:
    """What `State.rates` holds."""
    bases = beta1 / beta2**0.5, beta1 / beta2, beta1, beta2
    logs = [math.log2(base) if base else _LOG_OF_NOTHING for base in bases]
    return torch.tensor([learning_rate, epsilon, beta1, beta2, *logs], dtype=torch.float64)


def read_rows(state: State, index: Tensor, *, ball: bool, unit: bool) -> Tensor:
    """The rows (m, D) at `index` (m,) as of now; in the ball none longer than 1, if `unit` all of length 1."""
    dim, index = state.table.shape[1], index.contiguous()
    out = torch.empty(len(index), dim, dtype=state.table.dtype, device=index.device)
    if len(index):
        _read[(len(index),)](*state, index, out, len(state.ahead) - 1, ball, unit, dim, **_shape(dim))
    return out


def move_rows(state: State, index: Tensor, gradient: Tensor, *, ball: bool) -> None:
    """The step after this one, not yet counted: each row at `index` (m,) moves once, by the sum of its gradients."""
    dim, count = state.table.shape[1], len(index)
    index, order = ascending(index.contiguous())
    _move[(count,)](*state, index, order, gradient.contiguous(), len(state.ahead) - 1, ball, count, dim, **_shape(dim))


def _shape(dim: int) -> dict[str, Any]:
    return {"WIDTH": triton.next_power_of_2(dim), "num_warps": warps(dim)}


@triton.jit
def _read(
    table, mean, square, last, steps, rates, correction, ahead, ahead_epsilon, index, out, settled,
    BALL: tl.constexpr, UNIT: tl.constexpr, dim: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64)
    row = tl.load(index + at)
    d = tl.arange(0, WIDTH)
    inside = d < dim
    weights, m, v, begun = _row(table, mean, square, last, row, d, inside, dim)
    weights = _caught_up(weights, m, v, begun, tl.load(steps), rates, ahead, ahead_epsilon, settled)
    if BALL:
        weights = _shortened(weights)
    if UNIT:
        weights = weights / tl.maximum(tl.sqrt(tl.sum(weights * weights, 0)), 1e-12)
    tl.store(out + at * dim + d, weights, mask=inside)


@triton.jit
def _move(
    table, mean, square, last, steps, rates, correction, ahead, ahead_epsilon, index, order, gradient, settled,
    BALL: tl.constexpr, count, dim: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0)
    row = tl.load(index + at)
    if row == tl.load(index + at - 1, mask=at > 0, other=-1):
        return  # the first program of the row does it all
    d = tl.arange(0, WIDTH)
    inside = d < dim
    total = tl.zeros((WIDTH,), tl.float32)
    following = row
    while following == row:
        total += tl.load(gradient + tl.load(order + at) * dim + d, mask=inside, other=0.0)
        at += 1
        following = tl.load(index + at, mask=at < count, other=-1)
    weights, m, v, begun = _row(table, mean, square, last, row, d, inside, dim)
    now = tl.load(steps)
    weights = _caught_up(weights, m, v, begun, now, rates, ahead, ahead_epsilon, settled)
    if BALL:
        weights = _shortened(weights)
    beta1, beta2 = tl.load(rates + 2), tl.load(rates + 3)
    gap = (now + 1 - begun).to(tl.float64)
    m = m * tl.exp2(gap * tl.load(rates + 6)).to(tl.float32) + (1 - beta1).to(tl.float32) * total
    v = v * tl.exp2(gap * tl.load(rates + 7)).to(tl.float32) + (1 - beta2).to(tl.float32) * total * total
    rate = tl.load(rates) * tl.load(correction + tl.minimum(now + 1, settled))
    epsilon = tl.load(rates + 1) * tl.sqrt(1 - tl.exp2((now + 1).to(tl.float64) * tl.load(rates + 7)))
    weights -= rate.to(tl.float32) * m / (tl.sqrt(v) + epsilon.to(tl.float32))
    if BALL:
        weights = _shortened(weights)
    place = row * dim + d
    tl.store(table + place, weights, mask=inside)
    tl.store(mean + place, m, mask=inside)
    tl.store(square + place, v, mask=inside)
    tl.debug_barrier()  # all threads of the row have read it by now
    tl.store(last + row, now + 1)


@triton.jit
def _row(table, mean, square, last, row, d, inside, dim: tl.constexpr):
    place = row * dim + d
    weights = tl.load(table + place, mask=inside, other=0.0)
    m = tl.load(mean + place, mask=inside, other=0.0)
    v = tl.load(square + place, mask=inside, other=0.0)
    return weights, m, v, tl.load(last + row)


@triton.jit
def _caught_up(weights, m, v, begun, now, rates, ahead, ahead_epsilon, settled):
    """A row with what it missed between the steps `begun` and `now`."""
    gap = (now - begun).to(tl.float64)
    since, until = tl.minimum(begun, settled), tl.minimum(now, settled)
    moves = tl.load(ahead + since) - tl.exp2(gap * tl.load(rates + 4)) * tl.load(ahead + until)
    epsilons = tl.load(ahead_epsilon + since) - tl.exp2(gap * tl.load(rates + 5)) * tl.load(ahead_epsilon + until)
    epsilon = tl.load(rates + 1) * tl.where(moves > 0, epsilons / moves, 1.0)
    scale = tl.load(rates) * moves
    return weights - scale.to(tl.float32) * m / (tl.sqrt(v) + epsilon.to(tl.float32))


@triton.jit
def _shortened(weights):
    """The row, scaled back to length 1 if it is longer."""
    length = tl.sqrt(tl.sum(weights * weights, 0))
    return tl.where(length > 1, weights / length, weights)
