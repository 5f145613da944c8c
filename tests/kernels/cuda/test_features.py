"""Item features against plain torch: what they add, and which rows take part in a step."""

import pytest
import torch

from spherec.kernels.cuda import features
from spherec.kernels.reference import features as reference
from tests.kernels.cuda.conftest import DEVICE
from tests.sampling.checks import generator


def make(parts, count, width, n_features):
    """Features, a map, raw rows and indices, of which those beyond 20 are of users."""
    draw = generator()
    shapes = (20, n_features), (parts, n_features, width), (parts, count + 2, width)
    numbers, weights, rows = (torch.randn(*shape, generator=draw).to(DEVICE) for shape in shapes)
    return numbers, weights, rows, torch.randint(25, (count,), generator=draw).to(DEVICE)


ROUNDED = 0.1  # sums of up to 40 products of normal numbers, whose factors have 8 bits

SHAPES = pytest.mark.parametrize("shape", [(1, 1, 3, 1), (2, 40, 65, 33), (1, 33, 64, 7)], ids=str)


@SHAPES
@pytest.mark.parametrize("drops", [False, True])
def test_features_are_added_as_by_plain_torch(shape, drops):
    numbers, weights, rows, index = make(*shape)
    keep = (index % 2).float() if drops else None
    ours, theirs = rows.clone(), rows.clone()
    for made, products in ((ours, features.CudaFeatures), (theirs, reference.ReferenceFeatures)):
        products(numbers).add(made[:, 2:], index, weights, keep)
    torch.testing.assert_close(ours, theirs, atol=ROUNDED, rtol=1e-2)
    users = index >= 20
    expected = rows[:, 2:][:, users] * (1 if keep is None else keep[users, None])
    assert torch.equal(ours[:, 2:][:, users], expected)
    assert torch.equal(ours[:, :2], rows[:, :2])


@SHAPES
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_the_map_learns_as_by_plain_torch(shape, scale):
    numbers, weights, rows, index = make(*shape)
    index, learned, gradients = index.clamp_max(19), [], []
    for products in (features.CudaFeatures(numbers), reference.ReferenceFeatures(numbers)):
        products.add(torch.zeros_like(rows[:, 2:]), index, weights)
        assert not products.learn(0 * rows[:, 2:]).any()
        gradients.append(scale * rows)
        learned.append(products.learn(gradients[-1][:, 2:], (index % 2).float()))
    torch.testing.assert_close(*learned, atol=ROUNDED * scale, rtol=1e-2)
    assert torch.equal(*gradients)  # 0 where rows took no part


@pytest.mark.parametrize("seed", [0, 3, 2**62 - 1, 2**63 - 1])
@pytest.mark.parametrize("count", [1, 256, 700])
def test_the_same_rows_take_part(seed, count):
    items, steps = torch.arange(count, device=DEVICE) * 3, torch.tensor([12345], device=DEVICE)
    always = (torch.arange(3 * count) % 5 == 0).to(DEVICE)
    given = items, steps, always, seed, 1 << 23
    ours, theirs = features.keep_rows(*given), reference.keep_rows(*given)
    assert torch.equal(ours, theirs)
    assert count < 256 or 0.4 < float(ours.mean()) < 0.75
