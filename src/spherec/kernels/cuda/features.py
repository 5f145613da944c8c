"""What item features add to raw rows, in one kernel, and what their map learns from gradients."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from spherec.kernels.reference.features import FIRST, HASH_BITS, SECOND, THIRD, wrap

_FIRST, _SECOND, _THIRD = tl.constexpr(FIRST), tl.constexpr(SECOND), tl.constexpr(THIRD)
_MASK = tl.constexpr((1 << HASH_BITS) - 1)
_BLOCK = 256
_ROWS, _COLUMNS, _FEATURES = 32, 64, 32  # of a tile


def keep_rows(items: Tensor, steps: Tensor, always: Tensor, seed: int, left_out: int) -> Tensor:
    """Return 1 for items (m,) whose rows take part in this step, 0 for others. `reference.features` has the hash."""
    keep = torch.empty(len(items), device=items.device)
    if len(items):
        given = items, steps, always, keep, wrap(seed * THIRD), left_out, len(items)
        _keep[(triton.cdiv(len(items), _BLOCK),)](*given, _BLOCK)
    return keep


def add_features(rows: Tensor, table: Tensor, index: Tensor, weights: Tensor) -> None:
    """Add [x, 1] W to raw rows (P, m, d) in place: features at `index` (m,) in the table, map (P, F + 1, d)."""
    parts, count, width = rows.shape
    if count:
        grid = triton.cdiv(count, _ROWS), triton.cdiv(width, _COLUMNS), parts
        strides = rows.stride(0), rows.stride(1), table.stride(0)
        _add[grid](rows, table, index, weights, *strides, *table.shape, count, width, _ROWS, _COLUMNS, _FEATURES)


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
def _add(
    rows, table, index, weights, part_stride, row_stride, table_stride, n_items, n_features, count, width,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.program_id(2).to(tl.int64)
    item = tl.load(index + at, mask=at < count, other=n_items)
    is_item = (item < n_items)[:, None]
    weights += part * n_features * width
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, n_features, FEATURES):
        f = first + tl.arange(0, FEATURES)
        is_feature = f < n_features
        x = tl.load(table + item[:, None] * table_stride + f[None, :], mask=is_item & is_feature[None, :], other=0.0)
        inside = is_feature[:, None] & (d < width)[None, :]
        w = tl.load(weights + f[:, None] * width + d[None, :], mask=inside, other=0.0)
        total = tl.dot(x, w, total, input_precision="tf32x3")
    place = rows + part * part_stride + at.to(tl.int64)[:, None] * row_stride + d[None, :]
    inside = (at < count)[:, None] & (d < width)[None, :]
    tl.store(place, tl.load(place, mask=inside, other=0.0) + total, mask=inside)
