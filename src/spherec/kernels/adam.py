"""Rows of dense Adam at sparse cost: read as of now, and moved by a gradient. `spherec.optim` has the formulas."""

import math

import numpy as np
from numpy.typing import NDArray

from spherec.kernels.compiled import compiled

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
State = tuple[Floats, Floats, Floats, Ints]
"""table, mean, square (n, D), last (n,)"""
Constants = tuple[Doubles, Doubles, Doubles, Doubles]
"""lr, ε, β₁, β₂ (4,); A, B (S,); powers (G, 4) of what `_bases` gives, so that short gaps need no call of pow"""

_SHORTEST = 1e-12  # below it a row has no direction, and stays where it is


# Divisions by 0 as in NumPy: Python's would need a branch, and loops with branches are not done 16 numbers at a time.
# What differs from row to row is computed first: calls among the loops over rows would count references to arrays.
@compiled(error_model="numpy")
def read_rows(
    state: State,
    now: int,
    index: Ints,  # (m,)
    constants: Constants,
    longest: float,
    to_unit: bool,
    out: Floats,  # (m, D)
) -> None:
    """The rows at `index` as of step `now`, none longer than `longest`, or all scaled to length 1."""
    table, mean, square, last = state
    factors = _factors(last, now, index, constants)
    for at in range(len(index)):
        row, scale, epsilon = index[at], factors[at, 0], factors[at, 1]
        weights, m, v, to = table[row], mean[row], square[row], out[at]
        for d in range(len(weights)):
            to[d] = weights[d] - scale * m[d] / (np.sqrt(v[d]) + epsilon)
    if to_unit or longest < np.inf:
        for at in range(len(out)):
            _scale(out, at, longest, to_unit)


@compiled(error_model="numpy")
def move_rows(
    state: State,
    now: int,
    index: Ints,  # (m,)
    gradient: Floats,  # (m, D)
    constants: Constants,
    correction: float,  # c at the step after `now`
    longest: float,
    place: NDArray[np.int32],  # (n,) all -1, and so again when done
) -> None:
    """Step `now` + 1: each row at `index` moves once, by the sum of its gradients.

    A row without a gradient may be left alone, for reading it later gives the same; but where rows are shortened, it
    is shortened now.
    """
    table, mean, square, last = state
    rates = constants[0]
    rate = np.float32(rates[0] * correction)
    epsilon = np.float32(rates[1] * math.sqrt(1 - rates[3] ** (now + 1)))
    new_mean, new_square = np.float32(1 - rates[2]), np.float32(1 - rates[3])
    firsts, following = _grouped(index, gradient, longest, place)
    factors = _factors(last, now, index[firsts], constants)
    total = np.empty(table.shape[1], np.float32)
    for k in range(len(firsts)):
        row, more = index[firsts[k]], following[firsts[k]]
        weights, m, v, one = table[row], mean[row], square[row], gradient[firsts[k]]
        for d in range(len(total)):
            total[d] = one[d]
        while more >= 0:
            other = gradient[more]
            for d in range(len(total)):
                total[d] += other[d]
            more = following[more]
        scale, old_epsilon, old_mean, old_square = factors[k, 0], factors[k, 1], factors[k, 2], factors[k, 3]
        for d in range(len(weights)):
            weights[d] -= scale * m[d] / (np.sqrt(v[d]) + old_epsilon)
        if longest < np.inf:
            _scale(table, row, longest, False)
        for d in range(len(total)):
            m[d] = m[d] * old_mean + new_mean * total[d]
            v[d] = v[d] * old_square + new_square * total[d] * total[d]
            weights[d] -= rate * m[d] / (np.sqrt(v[d]) + epsilon)
        if longest < np.inf:
            _scale(table, row, longest, False)
        last[row] = now + 1


def powers_of(rates: Doubles, gaps: int) -> Doubles:
    """(gaps, 4): each of the bases to the powers 0, 1, …"""
    powers: Doubles = np.array(_bases(rates)) ** np.arange(gaps)[:, None]
    return powers


@compiled(error_model="numpy")
def _grouped(
    index: Ints, gradient: Floats, longest: float, place: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Where each row comes first, and for each place of (m,) where its row comes next, -1 if nowhere.

    Places whose gradient is 0 are passed over if rows are not shortened.
    """
    following = np.full(len(index), -1, np.int32)
    firsts = np.empty(len(index), np.int32)
    count = 0
    for at in range(len(index)):
        if longest == np.inf:
            one, found = gradient[at], False
            for d in range(len(one)):
                found |= one[d] != 0
            if not found:
                continue
        before = place[index[at]]  # where this row came last
        if before < 0:
            firsts[count] = at
            count += 1
        else:
            following[before] = at
        place[index[at]] = at
    for first in firsts[:count]:
        place[index[first]] = -1
    return firsts[:count], following


@compiled(error_model="numpy")
def _factors(last: Ints, now: int, index: Ints, constants: Constants) -> Floats:
    """(m, 4) of each row: how far it moved, in units of m/√v; ε beside √v; what the next step leaves of m and v."""
    rates, moves_ahead, epsilons_ahead, powers = constants
    bases = _bases(rates)
    factors = np.empty((len(index), 4), np.float32)
    for at in range(len(index)):
        then = last[index[at]]
        gap = now - then
        moves = _at(moves_ahead, then) - _power(powers, bases, 0, gap) * _at(moves_ahead, now)
        epsilons = _at(epsilons_ahead, then) - _power(powers, bases, 1, gap) * _at(epsilons_ahead, now)
        factors[at, 0] = rates[0] * moves
        factors[at, 1] = rates[1] * (epsilons / moves if moves > 0 else 1.0)
        factors[at, 2] = _power(powers, bases, 2, gap + 1)
        factors[at, 3] = _power(powers, bases, 3, gap + 1)
    return factors


@compiled(error_model="numpy")
def _bases(rates: Doubles) -> tuple[float, float, float, float]:
    """What fades with the steps: what is ahead of a row, the same for ε, and the two moments."""
    beta1, beta2 = rates[2], rates[3]
    return beta1 / math.sqrt(beta2), beta1 / beta2, beta1, beta2


@compiled(inline="always")
def _power(powers: Doubles, bases: tuple[float, float, float, float], which: int, gap: int) -> float:
    power: float = powers[gap, which] if gap < len(powers) else bases[which] ** gap
    return power


@compiled(inline="always")
def _at(table: Doubles, step: int) -> float:
    value: float = table[min(step, len(table) - 1)]
    return value


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})
def _scale(rows: Floats, at: int, longest: float, to_unit: bool) -> None:
    """Scale a row to length 1, or back to length `longest` if it is longer."""
    square = np.float32(0)
    for d in range(rows.shape[1]):
        square += rows[at, d] * rows[at, d]
    length = max(np.sqrt(square), np.float32(_SHORTEST))
    if to_unit or length > longest:
        factor = np.float32(1 if to_unit else longest) / length
        for d in range(rows.shape[1]):
            rows[at, d] *= factor
