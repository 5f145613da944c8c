"""Sorting a few thousand whole numbers, by counting for each how many come before it.

That is far more work than any sort, but all of it at once: for so few, one short kernel instead of several.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

_MOST = 8192  # beyond it, torch's sort is the faster
_ROWS, _COLUMNS = 16, 512


def ascending(index: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers (m,) in ascending order, and where each stood (m,); equal ones stay in their order."""
    count = len(index)
    if count > _MOST:
        return index.sort(stable=True)
    sorted_index, order = torch.empty_like(index), torch.empty_like(index)
    _place[(triton.cdiv(count, _ROWS),)](index, sorted_index, order, count, _ROWS, _COLUMNS, num_warps=4)
    return sorted_index, order


@triton.jit
def _place(index, sorted_index, order, count, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    mine = tl.load(index + at, mask=at < count, other=0)
    before = tl.zeros((ROWS,), tl.int32)
    for first in range(0, count, COLUMNS):
        others = first + tl.arange(0, COLUMNS)
        theirs = tl.load(index + others, mask=others < count, other=9223372036854775807)
        earlier = (theirs[None, :] < mine[:, None]) | (
            (theirs[None, :] == mine[:, None]) & (others[None, :] < at[:, None])
        )
        before += tl.sum(earlier.to(tl.int32), 1)
    tl.store(sorted_index + before, mine, mask=at < count)
    tl.store(order + before, at.to(tl.int64), mask=at < count)
