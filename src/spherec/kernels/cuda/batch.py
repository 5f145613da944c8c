"""The next batch of pairs, found without the host: its number is in the memory of the GPU."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 256


def next_batch(pairs: tuple[Tensor, Tensor], order: Tensor, first: Tensor, size: int) -> tuple[Tensor, Tensor]:
    users, items = (torch.empty(size, dtype=torch.int64, device=order.device) for _ in pairs)
    _take[(triton.cdiv(size, _BLOCK),)](*pairs, order, first, users, items, size, _BLOCK)
    return users, items


@triton.jit
def _take(all_users, all_items, order, first, users, items, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    pair = tl.load(order + tl.load(first) + at, mask=inside, other=0)
    tl.store(users + at, tl.load(all_users + pair).to(tl.int64), mask=inside)
    tl.store(items + at, tl.load(all_items + pair).to(tl.int64), mask=inside)
