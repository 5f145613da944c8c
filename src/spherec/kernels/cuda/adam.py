"""Rows of dense Adam at sparse cost: read as of now, and moved by a gradient. `spherec.optim` has the formulas.

One program for each row, in which its D numbers are one block.
"""

import math
from typing import NamedTuple, TypedDict

import torch
import triton
import triton.language as tl
from torch import Tensor

from spherec.geometry import SHORTEST
from spherec.kernels.protocol import AdamRates, AdamState
from spherec.kernels.reference.adam import ReferenceRows

_LOG_OF_NOTHING = -1e6  # 2 to the power of it is 0, and of 0 times it, 1
_SHORTEST = tl.constexpr(SHORTEST)

# Places in `_Pointers.rates`; the last four are log₂ of what fades from step to step.
_LEARNING_RATE = tl.constexpr(0)
_EPSILON = tl.constexpr(1)
_BETA1 = tl.constexpr(2)
_BETA2 = tl.constexpr(3)
_LOG_FADE_OF_MOVES = tl.constexpr(4)  # β₁/√β₂
_LOG_FADE_OF_EPSILONS = tl.constexpr(5)  # β₁/β₂
_LOG_BETA1 = tl.constexpr(6)
_LOG_BETA2 = tl.constexpr(7)

_MOST_COUNTED = 8192  # numbers; beyond it, torch's sort is faster
_ROWS, _COLUMNS = 8, 2048


class _Pointers(NamedTuple):
    """The tensors that the kernels read and write, in the order of their arguments."""

    table: Tensor  # (n, D)
    mean: Tensor  # (n, D)
    square: Tensor  # (n, D)
    last: Tensor  # (n,) int64
    steps: Tensor  # (1,) int64
    rates: Tensor  # (8,) float64
    correction: Tensor  # (S,) c
    ahead: Tensor  # (S,) A
    ahead_epsilon: Tensor  # (S,) B


class Shape(TypedDict):
    """Launch options of a kernel with one program for each row."""

    WIDTH: int
    num_warps: int


class CudaRows(ReferenceRows):
    """Rows of a table; whole ranges of rows are read in plain torch."""

    def __init__(self, state: AdamState, rates: AdamRates, *, ball: bool) -> None:
        super().__init__(state, rates, ball=ball)
        self._ball = ball
        numbers = _to_numbers(rates).to(state.table.device)
        self._pointers = _Pointers(*state, numbers, rates.correction, rates.ahead, rates.ahead_epsilon)

    def read(self, index: Tensor, parts: int = 1) -> Tensor:
        dim, index = self.state.table.shape[1], index.contiguous()
        out = torch.empty(parts * len(index), dim, dtype=self.state.table.dtype, device=index.device)
        if len(index):
            settled = len(self._pointers.ahead) - 1
            _read[(len(index), parts)](*self._pointers, index, out, settled, self._ball, dim, **shape_of(dim))
        return out

    def move(self, index: Tensor, gradient: Tensor, parts: int = 1) -> None:
        dim, count = self.state.table.shape[1], len(index)
        index, order = sort_stably(index.contiguous(), self.state.steps)
        if count:
            given = index, order, gradient.contiguous(), len(self._pointers.ahead) - 1, self._ball, count, dim
            _move[(count, parts)](*self._pointers, *given, **shape_of(dim))


def scale_to_unit(rows: Tensor) -> Tensor:
    """Scale rows (…, D), contiguous, to length 1 in place, and return them; a row of zeros stays zero."""
    dim = rows.shape[-1]
    if rows.numel():
        _unit[(rows.numel() // dim,)](rows, dim, **shape_of(dim))
    return rows


def sort_stably(index: Tensor, counter: Tensor) -> tuple[Tensor, Tensor]:
    """Return numbers below 2^31 − 1 (m,) in ascending order and where each stood (m,); equal ones stay in their order.

    Up to a few thousand are sorted by counting for each how many come before it. That is far more work than any sort,
    but all of it at once: one short kernel instead of several. On the way, 1 is added to a counter (1,): a kernel of
    its own would take as long as the sort.
    """
    count = len(index)
    if not 0 < count <= _MOST_COUNTED:
        counter.add_(1)
        return index.sort(stable=True)
    sorted_index, order = torch.empty_like(index), torch.empty_like(index)
    _place[(triton.cdiv(count, _ROWS),)](index, sorted_index, order, counter, count, _ROWS, _COLUMNS, num_warps=8)
    return sorted_index, order


def warps(dim: int) -> int:
    """Return the number of groups of 32 threads for a row: a power of 2, as Triton requires."""
    return 1 << min(2, max(0, (dim // 128).bit_length() - 1))


def shape_of(dim: int) -> Shape:
    """Return the launch options for rows of D numbers."""
    return {"WIDTH": triton.next_power_of_2(dim), "num_warps": warps(dim)}


def _to_numbers(rates: AdamRates) -> Tensor:
    """Return what `_Pointers.rates` holds."""
    _, _, beta1, beta2, *_ = numbers = rates[:4]
    logs = [math.log2(base) if base else _LOG_OF_NOTHING for base in (beta1 / beta2**0.5, beta1 / beta2, beta1, beta2)]
    return torch.tensor([*numbers, *logs], dtype=torch.float64)


@triton.jit
def _read(
    table, mean, square, last, steps, rates, correction, ahead, ahead_epsilon, index, out, settled,
    BALL: tl.constexpr, dim: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64)
    row = tl.load(index + at) * tl.num_programs(1) + tl.program_id(1)
    at += tl.program_id(1).to(tl.int64) * tl.num_programs(0)
    d = tl.arange(0, WIDTH)
    inside = d < dim
    weights, m, v, begun = _row(table, mean, square, last, row, d, inside, dim)
    weights = _caught_up(weights, m, v, begun, tl.load(steps), rates, ahead, ahead_epsilon, settled)
    if BALL:
        weights = _shortened(weights)
    tl.store(out + at * dim + d, weights, mask=inside)


@triton.jit
def _unit(rows, dim: tl.constexpr, WIDTH: tl.constexpr):
    d = tl.arange(0, WIDTH)
    place = tl.program_id(0).to(tl.int64) * dim + d
    row = tl.load(rows + place, mask=d < dim, other=0.0)
    row = row / tl.maximum(tl.sqrt(tl.sum(row * row, 0)), _SHORTEST)
    tl.store(rows + place, row, mask=d < dim)


@triton.jit
def _move(
    table, mean, square, last, steps, rates, correction, ahead, ahead_epsilon, index, order, gradient, settled,
    BALL: tl.constexpr, count, dim: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0)
    number = tl.load(index + at)
    if number == tl.load(index + at - 1, mask=at > 0, other=-1):
        return  # the first program of the row does it all
    row = number * tl.num_programs(1) + tl.program_id(1)
    gradient += tl.program_id(1).to(tl.int64) * count * dim
    d = tl.arange(0, WIDTH)
    inside = d < dim
    total = tl.zeros((WIDTH,), tl.float32)
    following = number
    while following == number:
        total += tl.load(gradient + tl.load(order + at) * dim + d, mask=inside, other=0.0)
        at += 1
        following = tl.load(index + at, mask=at < count, other=-1)
    weights, m, v, begun = _row(table, mean, square, last, row, d, inside, dim)
    now = tl.load(steps) - 1  # sorting has counted this step
    weights = _caught_up(weights, m, v, begun, now, rates, ahead, ahead_epsilon, settled)
    if BALL:
        weights = _shortened(weights)
    beta1, beta2 = tl.load(rates + _BETA1), tl.load(rates + _BETA2)
    gap = (now + 1 - begun).to(tl.float64)
    m = m * tl.exp2(gap * tl.load(rates + _LOG_BETA1)).to(tl.float32) + (1 - beta1).to(tl.float32) * total
    v = v * tl.exp2(gap * tl.load(rates + _LOG_BETA2)).to(tl.float32) + (1 - beta2).to(tl.float32) * total * total
    rate = tl.load(rates + _LEARNING_RATE) * tl.load(correction + tl.minimum(now + 1, settled))
    epsilon = tl.load(rates + _EPSILON) * tl.sqrt(1 - tl.exp2((now + 1).to(tl.float64) * tl.load(rates + _LOG_BETA2)))
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
    """Return a row with the moves that it missed between the steps `begun` and `now`."""
    gap = (now - begun).to(tl.float64)
    since, until = tl.minimum(begun, settled), tl.minimum(now, settled)
    moves = tl.load(ahead + since) - tl.exp2(gap * tl.load(rates + _LOG_FADE_OF_MOVES)) * tl.load(ahead + until)
    faded = tl.exp2(gap * tl.load(rates + _LOG_FADE_OF_EPSILONS))
    epsilons = tl.load(ahead_epsilon + since) - faded * tl.load(ahead_epsilon + until)
    epsilon = tl.load(rates + _EPSILON) * tl.where(moves > 0, epsilons / moves, 1.0)
    scale = tl.load(rates + _LEARNING_RATE) * moves
    return weights - scale.to(tl.float32) * m / (tl.sqrt(v) + epsilon.to(tl.float32))


@triton.jit
def _shortened(weights):
    """Return the row, scaled back to length 1 if it is longer."""
    length = tl.sqrt(tl.sum(weights * weights, 0))
    return tl.where(length > 1, weights / length, weights)


@triton.jit
def _place(index, sorted_index, order, counter, count, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(counter, tl.load(counter) + 1)
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    mine = tl.load(index + at, mask=at < count, other=0).to(tl.int32)
    before = tl.zeros((ROWS,), tl.int32)
    for first in range(0, count, COLUMNS):
        others = first + tl.arange(0, COLUMNS)
        theirs = tl.load(index + others, mask=others < count, other=2147483647).to(tl.int32)
        bound = mine[:, None] + (others[None, :] < at[:, None]).to(tl.int32)  # of equal ones, the first comes first
        before += tl.sum((theirs[None, :] < bound).to(tl.int32), 1)
    tl.store(sorted_index + before, mine.to(tl.int64), mask=at < count)
    tl.store(order + before, at.to(tl.int64), mask=at < count)
