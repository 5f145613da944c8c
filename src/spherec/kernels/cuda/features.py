"""Products with the features of items, and the rows that take part in a step.

The factors of products are rounded to bfloat16, which has the range of float32; the products themselves are float32.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from spherec.kernels.cuda.softmin import multiply_halves
from spherec.kernels.reference.features import FIRST, HASH_BITS, SECOND, THIRD, ReferenceFeatures, wrap

_FIRST, _SECOND, _THIRD = tl.constexpr(FIRST), tl.constexpr(SECOND), tl.constexpr(THIRD)
_MASK = tl.constexpr((1 << HASH_BITS) - 1)
_FACTORS = torch.bfloat16
_BLOCK = 256
_ALIGNED = 8  # numbers; rows of 16-bit numbers must begin at multiples of 16 bytes to be multiplied fast


def keep_rows(items: Tensor, steps: Tensor, always: Tensor, seed: int, left_out: int) -> Tensor:
    """Return 1 for items (m,) whose rows take part in this step, 0 for others. `reference.features` has the hash."""
    keep = torch.empty(len(items), device=items.device)
    if len(items):
        given = items, steps, always, keep, wrap(seed * THIRD), left_out, len(items)
        _keep[(triton.cdiv(len(items), _BLOCK),)](*given, _BLOCK)
    return keep


class CudaFeatures(ReferenceFeatures):
    """Products whose factors are rounded to bfloat16."""

    def __init__(self, numbers: Tensor) -> None:
        self._n_items, self._size = numbers.shape
        wide = triton.cdiv(self._size, _ALIGNED) * _ALIGNED  # F'
        self._table = numbers.new_zeros(self._n_items + 1, wide, dtype=_FACTORS)  # the last row is that of users
        self._table[:-1, : self._size] = numbers

    def add(self, rows: Tensor, index: Tensor, weights: Tensor, keep: Tensor | None = None) -> None:
        self._last = self._gather(index)
        rounded = _round(weights, self._table.shape[1])  # (P, F', d')
        given = multiply_halves(self._last.expand(len(rows), -1, -1), rounded)[..., : rows.shape[2]]  # (P, m, d)
        if keep is None:
            rows += given
        else:
            torch.addcmul(given, rows, keep[:, None], out=rows)

    def learn(self, gradient: Tensor, keep: Tensor | None = None) -> Tensor:
        rounded = _round(gradient, len(self._last), keep)  # (P, m, d')
        learned = multiply_halves(self._last.T.expand(len(gradient), -1, -1), rounded)  # (P, F', d')
        return learned[:, : self._size, : gradient.shape[2]]

    def _gather(self, index: Tensor) -> Tensor:
        """Return the features (m, F') of indices (m,); those of users are 0."""
        wide = self._table.shape[1]
        found = self._table.new_empty(len(index), wide)
        if len(index):
            block = triton.next_power_of_2(wide)
            _copy_rows[(len(index),)](self._table, index.contiguous(), found, self._n_items, wide, block)
        return found


def _round(matrices: Tensor, height: int, keep: Tensor | None = None) -> Tensor:
    """Return matrices (P, m, d) in bfloat16, with zeros below and at the right, (P, height, d').

    Rows of the matrices themselves become 0 where `keep` (m,) is 0.
    """
    parts, count, width = matrices.shape
    padded = triton.cdiv(width, _ALIGNED) * _ALIGNED
    rounded = torch.empty(parts, height, padded, dtype=_FACTORS, device=matrices.device)
    if height:
        strides = matrices.stride(0), matrices.stride(1)
        block = {"BLOCK": triton.next_power_of_2(padded), "num_warps": 1 if padded <= 256 else 4}
        _write_half[(height, parts)](matrices, rounded, keep, *strides, count, width, padded, **block)
    return rounded


@triton.jit
def _keep(items, steps, always, keep, seed, left_out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    item = tl.load(items + at, mask=inside, other=0)
    mixed = item * _FIRST + (tl.load(steps) * _SECOND + seed)
    mixed = (mixed ^ (mixed >> 31)) * _THIRD
    mixed = (mixed ^ (mixed >> 29)) * _SECOND
    is_kept = ((mixed >> 20) & _MASK) >= left_out
    is_kept = is_kept | (tl.load(always + item, mask=inside, other=0) != 0)
    tl.store(keep + at, is_kept.to(tl.float32), mask=inside)


@triton.jit
def _copy_rows(table, index, found, n_items, wide: tl.constexpr, BLOCK: tl.constexpr):
    """One program for each row."""
    row, d = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    item = tl.minimum(tl.load(index + row), n_items)
    tl.store(found + row * wide + d, tl.load(table + item * wide + d, mask=d < wide), mask=d < wide)


@triton.jit(do_not_specialize=["count"])
def _write_half(
    matrices, rounded, keep, part_stride, row_stride, count,
    width: tl.constexpr, padded: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program for each row."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    d = tl.arange(0, BLOCK)
    inside = d < tl.where(row < count, width, 0)
    matrices += part * part_stride + row * row_stride
    numbers = tl.load(matrices + d, mask=inside, other=0.0)
    if keep is not None:
        tl.store(matrices + d, numbers * tl.load(keep + row), mask=inside)
    place = (part * tl.num_programs(0) + row) * padded + d
    tl.store(rounded + place, numbers.to(rounded.dtype.element_ty), mask=d < padded)
