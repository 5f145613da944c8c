"""Softmin over a shared pool and its gradient: three products, and one pass over the table between them.

Autograd takes three times as many passes over all pairs with all negatives. Here one table (B, N) is made in each
subspace and changed in place: similarities, their exponents, and at last the forces by which each pair pulls and
pushes,

    ∂/∂s_ik = p_ik / τ        ∂/∂s_ij = −Σ_k p_ik / τ        p_ik = e_ik / (1 + Σ_k e_ik)

where e_ik is the exponential in the loss. With reach, s/τ + λ_i b stands for s/τ, and λ_i γ for γ.

A row of the table stays in the cache from the similarities to the forces. The threads of a step share the subspaces, or
where these do not divide evenly, the pairs of each. The factors of large products are rounded to bfloat16 where the
processor gains by it.
"""

import math
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.device import run_at_once, split_work
from spherec.geometry import SHORTEST
from spherec.kernels.cpu.compiled import choose_factors, compiled
from spherec.kernels.protocol import Flags, Floats

_MASKED = np.float32(-1e30)  # exponent in places without a negative
_LEAST_ROUNDED = 0.02  # temperature; below it, products that are rounded to bfloat16 change the gradient by percents
_LEAST = np.float32(-87)  # exponent below which e^x is taken as 0; float32 has no smaller number of full precision


def softmin_gradient(
    rows: Tensor, valid: Tensor, log_q: Tensor | None, weights: Tensor | None, dial: Tensor | None,
    *, temperature: float, gamma: float, n_items: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return what `protocol.FusedGradient` says, for a pool of M = N negatives that all pairs share."""
    n, pool = valid.shape
    bias = np.zeros(pool, "f4") if log_q is None else gamma * (log_q[0].numpy() + np.float32(math.log(n_items)))  # (N,)
    shares, weight = (np.ones(n, "f4") if one is None else one.numpy() for one in (dial, weights))  # (B,)
    gradient, dim = torch.empty_like(rows), rows.shape[2] - (dial is not None)
    factors = choose_factors(n * pool * dim) if temperature >= _LEAST_ROUNDED else torch.float32
    parts = _split_pairs(rows, n, pool)
    batch = _Batch(valid, bias, shares, weight, np.float32(temperature), factors, parts)
    spaces = [_Subspace(batch, *each, dim=dim) for each in zip(rows, gradient, strict=True)]
    if len(batch.parts) == 1:
        sums = run_at_once([space.compute for space in spaces])
    else:  # each pass needs what all parts computed in the one before
        tasks = list(product(spaces, range(len(batch.parts))))
        run_at_once([partial(space.normalize, part) for space, part in tasks])
        sums = run_at_once([partial(space.compute_forces, part) for space, part in tasks])
        run_at_once([partial(space.fill_gradient, part) for space, part in tasks])
    loss, active = (sum(each) / len(spaces) for each in zip(*sums, strict=True))
    masked = valid.numel() - np.count_nonzero(valid.numpy())
    is_finite = all(space.is_finite for space in spaces)
    return gradient, torch.tensor([loss if is_finite else math.nan, active, masked], dtype=torch.float64)


def _split_pairs(rows: Tensor, n: int, pool: int) -> list[slice]:
    """Return the ranges of n pairs that are computed by themselves in each subspace: one if subspaces suffice."""
    spaces, _, dim = rows.shape
    parts = split_work(n, spaces * n * pool * dim)
    return [slice(0, n)] if spaces % len(parts) == 0 else parts


class _Batch(NamedTuple):
    """The arguments of a gradient that all subspaces share."""

    valid: Tensor
    "(B, N)"
    bias: Floats
    "(N,) γ log(q I)"
    dial: Floats
    "(B,) λ"
    weight: Floats
    "(B,)"
    temperature: np.float32
    factors: torch.dtype
    "Type of the factors of products."
    parts: list[slice]
    "Ranges of pairs."


class _Subspace:
    """The gradient in one subspace, in three passes. Each is called once for each part of the batch."""

    def __init__(self, batch: _Batch, rows: Tensor, gradient: Tensor, *, dim: int) -> None:
        (n, pool), parts = batch.valid.shape, len(batch.parts)
        self._batch, self._rows, self._gradient = batch, rows, gradient  # …, (2 B + N, d | d + 1), the same
        self._vectors, self._inverse = torch.empty(len(rows), dim), np.empty(len(rows), np.float32)
        self._reach = np.zeros(len(rows), np.float32)
        self._pulled, self._pull = torch.empty(n, dim), np.empty(n, np.float32)
        self._pushed, self._pushed_reach = torch.empty(parts, pool, dim), np.zeros((parts, pool), np.float32)
        self.is_finite = True  # are all numbers of the rows

    def compute(self) -> tuple[float, int]:
        """Make all passes, for a batch that is not divided; return what `compute_forces` does."""
        self.normalize(0)
        sums = self.compute_forces(0)
        self.fill_gradient(0)
        return sums

    def normalize(self, part: int) -> None:
        """Compute the vectors of a share of the rows."""
        some = slice(*self._share(part))
        given = self._rows[some].numpy(), self._vectors[some].numpy()
        if not normalize_rows(*given, self._inverse[some], self._reach[some]):
            self.is_finite = False

    def compute_forces(self, part: int) -> tuple[float, int]:
        """Compute the forces between some pairs and the pool; return the losses' sum and the number of active pairs."""
        batch, (n, _) = self._batch, self._batch.valid.shape
        pairs = batch.parts[part]
        both = self._vectors[pairs], self._vectors[2 * n :]
        users, negatives = (vectors.to(batch.factors) for vectors in both)  # (b, d), (N, d)
        table = (users @ negatives.T).float()  # (b, N) s
        given = self._vectors.numpy(), self._reach, batch.bias, batch.dial, batch.weight
        forces = self._pull, self._pushed_reach[part]
        valid = batch.valid[pairs].numpy()
        sums = fill_forces(table.numpy(), valid, given, batch.temperature, (pairs.start, n), forces)
        pushes = table.to(batch.factors)
        self._pulled[pairs] = pushes @ negatives
        self._pushed[part] = pushes.T @ users
        return sums

    def fill_gradient(self, part: int) -> None:
        """Write the gradient of a share of the rows."""
        forces = self._pulled.numpy(), self._pushed.numpy(), self._pull, self._pushed_reach
        loss = self._batch.dial, self._batch.temperature
        fill_rows(self._share(part), self._vectors.numpy(), self._inverse, forces, loss, self._gradient.numpy())

    def _share(self, part: int) -> tuple[int, int]:
        """Return the first row of a share of the rows, and that past the last."""
        parts = len(self._batch.parts)
        return len(self._rows) * part // parts, len(self._rows) * (part + 1) // parts


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})
def normalize_rows(rows: Floats, vectors: Floats, inverse: Floats, reach: Floats) -> bool:
    """Write the vectors, 1 over the lengths of the rows, and their reach; return whether all numbers are finite.

    Rows are (m, D), with reach (m, D + 1); `reach` (m,) is all 0 before.
    """
    is_finite = True
    dim = vectors.shape[1]
    for at in range(len(rows)):
        row, vector = rows[at], vectors[at]
        square = np.float32(0)
        for d in range(dim):
            square += row[d] * row[d]
        inverse[at] = np.float32(1) / max(np.sqrt(square), np.float32(SHORTEST))
        for d in range(dim):
            vector[d] = row[d] * inverse[at]
        if len(row) > dim:
            reach[at] = row[dim]
        is_finite &= bool(np.isfinite(square + reach[at]))
    return is_finite


@compiled(error_model="numpy", fastmath=True)
def fill_forces(
    table: Floats, valid: Flags, batch: tuple[Floats, Floats, Floats, Floats, Floats], temperature: np.float32,
    place: tuple[int, int], forces: tuple[Floats, Floats],
) -> tuple[float, int]:  # fmt: skip
    """Turn similarities into forces, and return the sum of the losses and the number of active pairs.

    `table` (b, N) has s of some pairs, then the forces; `place` is the number of its first pair, and B. Of the forces,
    `pull` (B,) becomes Σ_k, `pushed_reach` (N,), all 0 before, Σ_i λ_i of them. All else is as in `_Batch`.
    """
    (vectors, reach, bias, dial, weight), (first, pairs), (pull, pushed_reach) = batch, place, forces
    slope = np.float32(1) / temperature
    lift = temperature * reach[2 * pairs :]  # (N,)
    mantissa, power = np.empty(table.shape[1], np.float32), np.empty(table.shape[1], np.int32)  # scratch of a row
    loss, active = 0.0, 0
    for at in range(len(table)):
        row, pair = table[at], first + at
        near = dial[pair] * temperature * reach[pairs + pair]
        for d in range(vectors.shape[1]):
            near += vectors[pair, d] * vectors[pairs + pair, d]
        active += _to_exponents(row, valid[at], (lift, bias), dial[pair], near, slope)
        highest = _find_highest(row, power)
        total = exponentiate(row, highest, mantissa, power)
        whole = total + np.float32(math.exp(-highest))
        loss += weight[pair] * (highest + math.log(whole))
        scale = weight[pair] * slope / whole
        pull[pair] = scale * total
        for k in range(len(row)):
            row[k] *= scale
            pushed_reach[k] += dial[pair] * row[k]
    return loss, active


# LLVM turns these loops into instructions for 8 or 16 numbers at once: sums and comparisons of each number with
# another, but not the largest of many float32, nor calls.


@compiled(fastmath=True, inline="always")
def _to_exponents(
    row: Floats, valid: Flags, pool: tuple[Floats, Floats], share: np.float32, near: np.float32, slope: np.float32
) -> bool:
    """Turn similarities into the exponents of the loss; return whether a negative is nearer than the positive."""
    lift, bias = pool  # (N,), (N,)
    nearer = 0
    for k in range(len(row)):
        ahead = row[k] + share * lift[k] - near if valid[k] else _MASKED
        nearer += int(ahead > 0)
        row[k] = ahead * slope - share * bias[k]
    return nearer > 0


@compiled(inline="always")
def _find_highest(row: Floats, scratch: NDArray[np.int32]) -> np.float32:
    """Return the largest of the numbers and 0. As bits, float32 >= 0 have the order of whole numbers."""
    bits = row.view(np.int32)
    largest = np.int32(0)
    for k in range(len(bits)):
        largest = max(largest, bits[k])
    scratch[0] = largest
    highest: np.float32 = scratch.view(np.float32)[0]
    return highest


@compiled(fastmath={"contract", "nsz", "reassoc"}, inline="always")
def exponentiate(row: Floats, highest: np.float32, mantissa: Floats, power: NDArray[np.int32]) -> np.float32:
    """Replace x by e^(x − highest), at most 1, and return the sum.

    e^x = 2^n e^f with n = round(x / log 2) and |f| < 0.35, where e^f is a polynomial (Cephes' expf: a relative error
    of 1e-7) and 2^n a float32 whose bits are written as a whole number.
    """
    for k in range(len(row)):
        x = row[k] - highest
        is_least = x < _LEAST
        x = _LEAST if is_least else x
        n = np.int32(x * np.float32(1.44269504) - np.float32(0.5))  # x <= 0, and what is after the point is cut off
        whole = np.float32(n)
        f = x - whole * np.float32(0.693359375) + whole * np.float32(2.12194440e-4)  # log 2 in two parts
        p = np.float32(1.9875691500e-4)
        p = p * f + np.float32(1.3981999507e-3)
        p = p * f + np.float32(8.3334519073e-3)
        p = p * f + np.float32(4.1665795894e-2)
        p = p * f + np.float32(1.6666665459e-1)
        p = p * f + np.float32(5.0000001201e-1)
        mantissa[k] = np.float32(0) if is_least else p * f * f + f + np.float32(1)
        power[k] = (n + np.int32(127)) << np.int32(23)
    scale = power.view(np.float32)
    for k in range(len(row)):
        row[k] = mantissa[k] * scale[k]
    # By itself: of a loop that also writes there are two forms, and where the arrays lie decides which one adds up.
    total = np.float32(0)
    for k in range(len(row)):
        total += row[k]
    return total


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})
def fill_rows(
    some: tuple[int, int], vectors: Floats, inverse: Floats, forces: tuple[Floats, Floats, Floats, Floats],
    loss: tuple[Floats, np.float32], gradient: Floats,
) -> None:  # fmt: skip
    """Write the gradient of some raw rows: what is left of the forces on unit vectors without the part along them.

    `some` are the first row and that past the last; the forces are those on users (B, D) and on negatives
    (parts, N, D), pull and pushed_reach; the loss is λ (B,) and the temperature.
    """
    (pulled, pushed, pull, pushed_reach), (dial, temperature) = forces, loss
    pairs, dim = pulled.shape
    for at in range(*some):
        row, vector = gradient[at], vectors[at]
        if at < pairs:
            for d in range(dim):
                row[d] = pulled[at, d] - pull[at] * vectors[pairs + at, d]
        elif at < 2 * pairs:
            for d in range(dim):
                row[d] = -pull[at - pairs] * vectors[at - pairs, d]
        else:
            for d in range(dim):
                row[d] = pushed[0, at - 2 * pairs, d]
            for part in range(1, len(pushed)):
                for d in range(dim):
                    row[d] += pushed[part, at - 2 * pairs, d]
        along = np.float32(0)
        for d in range(dim):
            along += row[d] * vector[d]
        for d in range(dim):
            row[d] = (row[d] - along * vector[d]) * inverse[at]
        if len(row) > dim:
            row[dim] = 0
            if pairs <= at < 2 * pairs:
                row[dim] = -temperature * pull[at - pairs] * dial[at - pairs]
            elif at >= 2 * pairs:
                row[dim] = temperature * pushed_reach[:, at - 2 * pairs].sum()
