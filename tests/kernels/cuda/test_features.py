"""Item features against plain torch: what they add, and which rows take part in a step."""

import pytest
import torch

from spherec.kernels.cuda import features
from spherec.kernels.reference import features as reference
from tests.kernels.cuda.conftest import DEVICE, assert_close
from tests.sampling.checks import generator


@pytest.mark.parametrize(("parts", "count", "width", "n_features"), [(1, 1, 3, 1), (2, 40, 65, 33), (1, 33, 64, 7)])
def test_features_are_added_as_by_plain_torch(parts, count, width, n_features):
    draw = generator()
    table, weights, rows = (
        torch.randn(*shape, generator=draw).to(DEVICE)
        for shape in ((20, n_features), (parts, n_features, width), (parts, count + 2, width))
    )
    index = torch.randint(25, (count,), generator=draw).to(DEVICE)  # some are users, beyond the table
    ours, theirs = rows.clone(), rows.clone()
    features.add_features(ours[:, 2:], table, index, weights)
    reference.add_features(theirs[:, 2:], table, index, weights)
    assert_close(ours, theirs, atol=1e-4)
    assert torch.equal(ours[:, :2], rows[:, :2])


@pytest.mark.parametrize("seed", [0, 3, 2**62 - 1, 2**63 - 1])
@pytest.mark.parametrize("count", [1, 256, 700])
def test_the_same_rows_take_part(seed, count):
    items, steps = torch.arange(count, device=DEVICE) * 3, torch.tensor([12345], device=DEVICE)
    always = (torch.arange(3 * count) % 5 == 0).to(DEVICE)
    given = items, steps, always, seed, 1 << 23
    ours, theirs = features.keep_rows(*given), reference.keep_rows(*given)
    assert torch.equal(ours, theirs)
    assert count < 256 or 0.4 < float(ours.mean()) < 0.75
