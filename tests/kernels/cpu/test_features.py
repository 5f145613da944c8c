"""Products with features on a CPU: those of plain torch, but each item is multiplied once as long as W stays."""

import pytest
import torch

from spherec.kernels.cpu import compiled
from spherec.kernels.cpu.features import CpuFeatures
from spherec.kernels.reference.features import ReferenceFeatures

N_ITEMS, N_FEATURES, PARTS, WIDTH = 20, 7, 2, 5


class CountedFeatures(CpuFeatures):
    """Features that record how many items were multiplied."""

    def __init__(self, numbers):
        super().__init__(numbers)
        self.counts = []

    def _multiply(self, items):
        self.counts.append(len(items))
        return super()._multiply(items)


@pytest.fixture
def draw():
    random = torch.Generator().manual_seed(0)
    return lambda *shape: torch.randn(*shape, generator=random)


@pytest.fixture
def both(draw):
    """Features on a CPU and in plain torch."""
    numbers = draw(N_ITEMS, N_FEATURES)
    return CountedFeatures(numbers), ReferenceFeatures(numbers)


def check(both, index, weights, rows, keep=None, **tolerance):
    """Compare what both add and learn; a third of the gradients are 0."""
    made = []
    for products in both:
        added, gradient = rows.clone(), rows.clone()
        gradient[:, ::3] = 0
        products.add(added[:, 1:], index, weights, keep)  # rows of a larger tensor, as in a step
        learned = products.learn(gradient[:, 1:], keep) if (index < N_ITEMS).all() else added
        made.append((added, learned, gradient))
    for ours, theirs in zip(*made, strict=True):
        torch.testing.assert_close(ours, theirs, **tolerance)


KEEP = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0, 0.0])


@pytest.mark.parametrize(
    ("index", "keep"),
    [([3, 0, 3, 19, 3, 7], None), ([3, 0, 3, 19, 3, 7], KEEP), ([21, 3, 20, 0, 0, 33], None), ([25], None), ([], None)],
)
def test_repeated_items_and_users_are_as_in_plain_torch(both, draw, index, keep):
    index = torch.tensor(index, dtype=torch.int64)
    check(both, index, draw(PARTS, N_FEATURES, WIDTH), draw(PARTS, 1 + len(index), WIDTH), keep)


def test_an_item_is_multiplied_once_for_each_map(both, draw):
    weights, other = draw(PARTS, N_FEATURES, WIDTH), draw(PARTS, N_FEATURES, WIDTH)
    first, second = torch.tensor([4, 9, 4, 1]), torch.tensor([9, 12, 4, 4])
    for index, given in ((first, weights), (second, weights.clone()), (first, weights), (second, other)):
        check(both, index, given, draw(PARTS, 5, WIDTH))
    assert both[0].counts == [3, 1, 3]


def test_with_factors_of_bfloat16_products_are_near(both, draw, monkeypatch):
    monkeypatch.setattr(compiled, "_LARGE", 1)
    monkeypatch.setattr(compiled, "_has_bfloat16", lambda: True)
    index = torch.arange(50) % N_ITEMS
    check(both, index, draw(PARTS, N_FEATURES, WIDTH), draw(PARTS, 51, WIDTH), (index % 2).float(), rtol=0.02, atol=0.1)
