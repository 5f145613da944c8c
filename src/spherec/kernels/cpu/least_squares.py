"""Rows of a least squares problem by conjugate gradients, row by row. `spherec.kernels.reference` has the formulas."""

from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from spherec.device import run_at_once
from spherec.kernels.cpu.compiled import compiled
from spherec.kernels.protocol import Floats, Ints
from spherec.kernels.reference.least_squares import Systems

_PAIRS = 1 << 13  # of a task
_TINY = np.float32(1e-30)


def solve_rows(systems: Systems, rows: Tensor, steps: int) -> None:
    """Improve the solutions (n, D) in place by so many steps; a row without pairs becomes 0."""
    starts, others, table = systems.starts.numpy(), systems.others.numpy(), systems.table.numpy()
    weights = np.ones(0, np.float32) if systems.weights is None else systems.weights.numpy()
    diagonal, shift, solutions = systems.diagonal.numpy(), systems.shift.numpy(), rows.numpy()
    work = starts[1:] + np.arange(len(shift)) * 4  # (n,) pairs so far, and a little for each row
    cuts = np.searchsorted(work, np.arange(_PAIRS, work[-1], _PAIRS)) if len(work) else np.zeros(0, int)
    bounds = [0, *np.unique(cuts[cuts > 0]).tolist(), len(shift)]
    arrays = starts, others, weights, table, diagonal, shift, solutions
    run_at_once([partial(solve_range, *arrays, first, past, steps) for first, past in pairwise(bounds)])


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})
def solve_range(
    starts: Ints,
    others: NDArray[np.int64],
    weights: Floats,
    table: Floats,
    diagonal: Floats,
    shift: Floats,
    rows: Floats,
    first: int,
    past: int,
    steps: int,
) -> None:
    """Solve the rows from `first` to `past` - 1; without `weights`, all pairs weigh 1."""
    dim = table.shape[1]
    inverse, residual, direction, change = np.empty((4, dim), np.float32)
    for row in range(first, past):
        begin, end = starts[row], starts[row + 1]
        x = rows[row]
        for d in range(dim):
            inverse[d] = 1 / (diagonal[d] + shift[row])
        if end - begin <= steps:
            x[:] = 0
        for d in range(dim):
            residual[d] = -x[d] / inverse[d]
        for pair in range(begin, end):
            w = table[others[pair]]
            missing = np.float32(1) - dot(w, x)
            _add(residual, missing * (weights[pair] if len(weights) else np.float32(1)), w)
        for d in range(dim):
            direction[d] = residual[d] * inverse[d]
        length = dot(residual, direction)
        for _ in range(min(steps, end - begin)):
            if length <= _TINY:
                break
            for d in range(dim):
                change[d] = direction[d] / inverse[d]
            for pair in range(begin, end):
                w = table[others[pair]]
                _add(change, dot(w, direction) * (weights[pair] if len(weights) else np.float32(1)), w)
            step = length / dot(direction, change)
            _add(x, step, direction)
            _add(residual, -step, change)
            for d in range(dim):
                change[d] = residual[d] * inverse[d]
            before, length = length, dot(residual, change)
            for d in range(dim):
                direction[d] = change[d] + length / before * direction[d]


# A sum in a loop that also writes would be added up in an order that depends on addresses: so each loop does one thing.


@compiled(error_model="numpy", fastmath={"reassoc", "contract"}, inline="always")
def dot(one: Floats, other: Floats) -> np.float32:
    total = np.float32(0)
    for d in range(len(one)):
        total += one[d] * other[d]
    return total


@compiled(error_model="numpy", fastmath={"reassoc", "contract"}, inline="always")
def _add(row: Floats, times: np.float32, other: Floats) -> None:
    for d in range(len(row)):
        row[d] += times * other[d]
