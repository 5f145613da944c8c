"""Orders against a stable sort."""

import pytest
import torch

from spherec.kernels.cuda.adam import sort_stably
from tests.kernels.cuda.conftest import DEVICE, INTERPRETED


@pytest.mark.parametrize("values", [1, 7, (1 << 31) - 1])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 512, 513, 8193, *([] if INTERPRETED else [8191, 8192])])
def test_order_is_that_of_a_stable_sort(count, values):
    index = torch.randint(values, (count,), generator=torch.Generator().manual_seed(count)).to(DEVICE)
    before, counter = index.clone(), torch.zeros(1, dtype=torch.int64, device=DEVICE)
    for ours, theirs in zip(sort_stably(index, counter), index.sort(stable=True), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(index, before)
    assert counter.tolist() == [1]
