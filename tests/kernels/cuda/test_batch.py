"""The next batch against indexing."""

import pytest
import torch

from spherec.kernels.cuda import batch
from tests.kernels.cuda.conftest import DEVICE
from tests.sampling.checks import generator


@pytest.mark.parametrize(("first", "size"), [(0, 1), (3, 255), (1, 256), (500, 257), (243, 757)])
def test_the_next_batch_is_what_stands_in_the_order(first, size):
    pairs = [torch.randint(99, (1000,), generator=generator(seed), dtype=torch.int32).to(DEVICE) for seed in (1, 2)]
    at = torch.randperm(1000, generator=generator()).to(DEVICE)
    users, items = batch.next_batch(tuple(pairs), at, torch.tensor([first], device=DEVICE), size)
    assert torch.equal(users, pairs[0][at[first : first + size]].long())
    assert torch.equal(items, pairs[1][at[first : first + size]].long())
