"""Rows of dense Adam at sparse cost: read as of now, and moved by a gradient. `spherec.optim` has the formulas."""

import math

import numpy as np
from numpy.typing import NDArray

from spherec.kernels.compiled import compiled

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]


@compiled()
def read_rows(
    state: tuple[Floats, Floats, Floats, Ints],  # table, mean, square (n, D), last (n,)
    now: int,
    index: Ints,  # (m,)
    rates: Doubles,  # lr, ε, β₁, β₂
    ahead: tuple[Doubles, Doubles],  # A, B (S,)
    longest: float,
    out: Floats,  # (m, D)
) -> None:
    """The rows at `index` as of step `now`, none longer than `longest`."""
    table, mean, square, last = state
    for at in range(len(index)):
        row = index[at]
        _catch_up(table[row], mean[row], square[row], last[row], now, rates, ahead, longest, out[at])


@compiled()
def move_rows(
    state: tuple[Floats, Floats, Floats, Ints],
    now: int,
    index: Ints,  # (m,)
    order: Ints,  # (m,) by which `index` ascends
    gradient: Floats,  # (m, D)
    rates: Doubles,
    ahead: tuple[Doubles, Doubles],
    correction: float,  # c at the step after `now`
    longest: float,
) -> None:
    """Step `now` + 1: each row at `index` moves once, by the sum of its gradients."""
    table, mean, square, last = state
    rate = np.float32(rates[0] * correction)
    epsilon = np.float32(rates[1] * math.sqrt(1 - rates[3] ** (now + 1)))
    new_mean, new_square = np.float32(1 - rates[2]), np.float32(1 - rates[3])
    total = np.empty(table.shape[1], np.float32)
    first = 0
    while first < len(order):
        row = index[order[first]]
        total[:] = 0
        while first < len(order) and index[order[first]] == row:
            total += gradient[order[first]]
            first += 1
        weights, m, v = table[row], mean[row], square[row]
        _catch_up(weights, m, v, last[row], now, rates, ahead, longest, weights)
        gap = now + 1 - last[row]
        old_mean, old_square = np.float32(rates[2] ** gap), np.float32(rates[3] ** gap)
        for d in range(len(total)):
            m[d] = m[d] * old_mean + new_mean * total[d]
            v[d] = v[d] * old_square + new_square * total[d] * total[d]
            weights[d] -= rate * m[d] / (np.sqrt(v[d]) + epsilon)
        _shorten(weights, longest)
        last[row] = now + 1


@compiled()
def _catch_up(
    weights: Floats,  # (D,)
    mean: Floats,
    square: Floats,
    last: int,
    now: int,
    rates: Doubles,
    ahead: tuple[Doubles, Doubles],
    longest: float,
    out: Floats,  # (D,)
) -> None:
    """A row with what it missed between the steps `last` and `now`."""
    gap = now - last
    beta1, beta2 = rates[2], rates[3]
    moves = _at(ahead[0], last) - (beta1 / math.sqrt(beta2)) ** gap * _at(ahead[0], now)
    epsilons = _at(ahead[1], last) - (beta1 / beta2) ** gap * _at(ahead[1], now)
    scale, epsilon = np.float32(rates[0] * moves), np.float32(rates[1] * (epsilons / moves if moves > 0 else 1.0))
    for d in range(len(weights)):
        out[d] = weights[d] - scale * mean[d] / (np.sqrt(square[d]) + epsilon)
    _shorten(out, longest)


@compiled()
def _at(table: Doubles, step: int) -> float:
    value: float = table[min(step, len(table) - 1)]
    return value


@compiled()
def _shorten(row: Floats, longest: float) -> None:
    """Scale the row back to length `longest` if it is longer."""
    if longest == np.inf:
        return
    length = np.float32(0)
    for d in range(len(row)):
        length += row[d] * row[d]
    length = np.sqrt(length)
    if length > longest:
        row *= np.float32(longest) / length
