"""Rows of dense Adam at sparse cost: read as of now, and moved by a gradient. `spherec.optim` has the formulas."""

import math
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.device import run_at_once, split_work
from spherec.geometry import SHORTEST
from spherec.kernels.cpu.compiled import compiled
from spherec.kernels.protocol import AdamRates, AdamState, Floats, Ints
from spherec.kernels.reference.adam import ReferenceRows, spread_parts

Doubles = NDArray[np.float64]
State = tuple[Floats, Floats, Floats, Ints]
"""table, mean, square (n, D), last (n,)"""
Constants = tuple[Doubles, Doubles, Doubles, Doubles]
"""lr, ε, β₁, β₂ (4,); A, B (S,); powers (G, 4) of the `_bases`, so that short gaps need no call of pow"""
_Lists = tuple[NDArray[np.int32], NDArray[np.int32]]

_WORK = 50  # multiplications that take as long as one number of a row: a root, a quotient, memory
_SHORT_GAP = 4096  # G, steps; for longer gaps powers are computed anew


class CpuRows(ReferenceRows):
    """Rows of a table, read and moved in one pass each, divided among the threads of a step."""

    def __init__(self, state: AdamState, rates: AdamRates, *, ball: bool) -> None:
        self._steps = state.steps
        self._dim = state.table.shape[1]
        self._arrays: State = (state.table.numpy(), state.mean.numpy(), state.square.numpy(), state.last.numpy())
        numbers = np.array([rates.learning_rate, rates.epsilon, rates.beta1, rates.beta2])
        self._constants: Constants = (
            numbers,
            rates.ahead.numpy(),
            rates.ahead_epsilon.numpy(),
            np.array(_bases(numbers)) ** np.arange(_SHORT_GAP)[:, None],
        )
        self._correction = rates.correction.numpy()  # (S,)
        self._longest = 1.0 if ball else float("inf")
        self._latest = np.full(len(state.table), -1, np.int32)  # (n,) scratch of `link_rows`

    def read(self, index: Tensor, parts: int = 1) -> Tensor:
        index = index if parts == 1 else spread_parts(index, parts)
        rows, places, now = torch.empty(len(index), self._dim), index.numpy(), int(self._steps)

        def read(some: slice) -> None:
            catch_up_rows(self._arrays, now, places[some], self._constants, self._longest, rows[some].numpy())

        run_at_once([partial(read, some) for some in split_work(len(rows), rows.numel() * _WORK)])
        return rows

    def read_range(self, first: int, past: int) -> Tensor:
        return self.read(torch.arange(first, past))

    def move(self, index: Tensor, gradient: Tensor, parts: int = 1) -> None:
        now, index = int(self._steps), index if parts == 1 else spread_parts(index, parts)
        correction = float(self._correction[min(now + 1, len(self._correction) - 1)])  # c
        given = index.numpy(), gradient.numpy()
        heads, next_of = link_rows(*given, self._longest, self._latest)

        def move(some: slice) -> None:
            lists = heads[some], next_of
            move_rows(self._arrays, *given, lists, self._constants, (now, correction, self._longest))

        run_at_once([partial(move, some) for some in split_work(len(heads), len(heads) * self._dim * _WORK)])
        self._steps.add_(1)


def scale_to_unit(rows: Tensor) -> Tensor:
    _scale_to_unit(rows.view(-1, rows.shape[-1]).numpy())
    return rows


@compiled(error_model="numpy")
def _scale_to_unit(rows: Floats) -> None:
    for at in range(len(rows)):
        _scale(rows, at, np.inf, True)


# Divisions by 0 follow NumPy: Python's would need a branch, and loops with branches are not vectorised. Factors that
# differ from row to row are computed first: calls between the loops over rows would count references to arrays.
@compiled(error_model="numpy")
def catch_up_rows(state: State, now: int, index: Ints, constants: Constants, longest: float, out: Floats) -> None:
    """Write the rows at `index` (m,) as of step `now` into `out` (m, D), none longer than `longest`."""
    table, mean, square, last = state
    factors = _factors(last, now, index, constants)
    for at in range(len(index)):
        row, scale, epsilon = index[at], factors[at, 0], factors[at, 1]
        weights, m, v, to = table[row], mean[row], square[row], out[at]
        for d in range(len(weights)):
            to[d] = weights[d] - scale * m[d] / (np.sqrt(v[d]) + epsilon)
    if longest < np.inf:
        for at in range(len(out)):
            _scale(out, at, longest, False)


@compiled(error_model="numpy")
def move_rows(
    state: State, index: Ints, gradient: Floats, lists: _Lists, constants: Constants, step: tuple[int, float, float]
) -> None:
    """Make step `now` + 1: each row of the lists moves once, by the sum of its gradients (m, D) at `index` (m,).

    The lists are those of `link_rows`, with the heads of the rows to move; `step` is now, c at the step after it, and
    the length of the longest row. A row without a gradient may be left alone, because reading it later gives the same;
    but where rows are shortened, it is shortened now.
    """
    table, mean, square, last = state
    now, correction, longest = step
    rates = constants[0]
    rate = np.float32(rates[0] * correction)
    epsilon = np.float32(rates[1] * math.sqrt(1 - rates[3] ** (now + 1)))
    new_mean, new_square = np.float32(1 - rates[2]), np.float32(1 - rates[3])
    firsts, next_of = lists
    factors = _factors(last, now, index[firsts], constants)
    total = np.empty(table.shape[1], np.float32)
    for k in range(len(firsts)):
        row, more = index[firsts[k]], next_of[firsts[k]]
        weights, m, v, first = table[row], mean[row], square[row], gradient[firsts[k]]
        for d in range(len(total)):
            total[d] = first[d]
        while more >= 0:  # along the linked list of this row's gradients
            other = gradient[more]
            for d in range(len(total)):
                total[d] += other[d]
            more = next_of[more]
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


@compiled(error_model="numpy")
def link_rows(index: Ints, gradient: Floats, longest: float, latest: NDArray[np.int32]) -> _Lists:
    """Link the places (m,) that name the same row into one list for each row. `latest` (n,) is -1 before and after.

    Returns the head of each list, and `next_of` (m,): the place after each in its list, -1 at the end. For the index
    [7, 3, 7, 7] the heads are [0, 1] and `next_of` is [2, -1, 3, -1]. Places whose gradient is 0 are skipped if rows
    are not shortened.
    """
    next_of = np.full(len(index), -1, np.int32)
    heads = np.empty(len(index), np.int32)
    count = 0
    for at in range(len(index)):
        if longest == np.inf:
            values = gradient[at]
            has_gradient = values[0] != 0
            if not has_gradient:  # rare, unless all of them are 0
                for d in range(1, len(values)):
                    has_gradient |= values[d] != 0
            if not has_gradient:
                continue
        before = latest[index[at]]  # the last place of this row so far
        if before < 0:
            heads[count] = at
            count += 1
        else:
            next_of[before] = at
        latest[index[at]] = at
    for head in heads[:count]:
        latest[index[head]] = -1
    return heads[:count], next_of


@compiled(error_model="numpy")
def _factors(last: Ints, now: int, index: Ints, constants: Constants) -> Floats:
    """Return four factors of each row (m, 4): its move so far in units of m/√v, ε, the shares of m and v that stay."""
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
    """Return the ratios by which things fade from step to step: A, B, and the two moments."""
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
    length = max(np.sqrt(square), np.float32(SHORTEST))
    if to_unit or length > longest:
        factor = np.float32(1 if to_unit else longest) / length
        for d in range(rows.shape[1]):
            rows[at, d] *= factor
