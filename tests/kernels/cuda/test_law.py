"""Draws without a user's items against those without Triton, and who has what against the matrix."""

from bisect import bisect_right

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from spherec.kernels.cuda import CudaBackend, negatives
from spherec.sampling.draw import ItemLaw, items_of_users, popularity_weights
from tests.kernels.cuda.conftest import DEVICE
from tests.kernels.test_membership import check
from tests.sampling.checks import ROWS, generator, interactions, random_rows, sparse


@triton.jit
def _search(values, low, high, wanted, out, rounds: tl.constexpr, size: tl.constexpr):
    at = tl.arange(0, size)
    found = negatives.first_above(values, tl.load(low + at), tl.load(high + at), tl.load(wanted + at), rounds)
    tl.store(out + at, found)


@pytest.mark.parametrize("values", [[4], [0, 0, 0], [2, 2, 5, 9], [-3, 1, 1, 1, 7, 8, 1 << 40]], ids=str)
def test_the_first_above_is_found_between_any_two_places(values):
    ends = range(len(values) + 1)
    wanted = [-4, 0, 1, 2, 4, 5, 6, 9, 1 << 40, (1 << 40) - 1]
    asked = [(low, high, one) for low in ends for high in ends if low <= high for one in wanted]
    asked += [(0, 0, 0)] * (512 - len(asked))
    lows, highs, wanteds = torch.tensor(asked, device=DEVICE).T.contiguous()
    found = torch.empty_like(lows)
    _search[(1,)](torch.tensor(values, device=DEVICE), lows, highs, wanteds, found, len(values).bit_length(), 512)
    assert found.tolist() == [bisect_right(values, one, low, high) for low, high, one in asked]


WIDE = random_rows(30, 70, 0.3)
LAWS = {
    "uniform": (ROWS, np.ones(6)),
    "popular": (ROWS, popularity_weights(interactions(ROWS), 0.8)),
    "extreme": (ROWS, np.array([1e9, 0, 1e-12, 1, 3, 0])),
    "last": (ROWS, np.array([0, 0, 0, 0, 0, 2.0])),
    "one item": ([[0], [1]], np.ones(1)),
    "nobody has any": ([[0, 0, 0]], np.array([1.0, 2, 3])),
    "one user": ([[1] * 15 + [0]], np.arange(1.0, 17)),
    "many": (WIDE, popularity_weights(interactions(WIDE), -0.5)),
}


@pytest.mark.parametrize("n", [1, 7])
@pytest.mark.parametrize("law", LAWS)
def test_draws_without_a_users_items_are_those_without_triton(both, law, n):
    rows, weights = LAWS[law]
    ours, theirs = both(lambda: ItemLaw(interactions(rows), weights, DEVICE))
    users = torch.arange(len(rows), device=DEVICE).flip(0).repeat(5)
    (items, valid), expected = (one.without(users, n, generator(device=DEVICE)) for one in (ours, theirs))
    assert torch.equal(items, expected[0])
    assert torch.equal(valid, expected[1])
    assert 0 <= items.min() <= items.max() < len(weights)
    for user, drawn, found in zip(users.tolist(), items.tolist(), valid.tolist(), strict=True):
        possible = {item for item, weight in enumerate(weights) if weight > 0 and not rows[user][item]}
        assert found == [bool(possible)] * n
        assert set(drawn) <= possible or not possible


def test_draws_for_many_users_are_those_without_triton(both):
    many = 1 << 18  # then users times numbers come near to what 64 bits hold
    starts = np.maximum(np.arange(many + 1) - many + 6, 0)  # the last six have one item each
    train, weights = sparse(starts, [0, 1, 2, 3, 4, 0], 5), np.array([5, 1e-3, 1, 9, 2])
    ours, theirs = both(lambda: ItemLaw(train, weights, DEVICE))
    users = torch.arange(many - 8, many, device=DEVICE)
    (items, _), (expected, _) = (one.without(users, 40, generator(device=DEVICE)) for one in (ours, theirs))
    assert torch.equal(items, expected)


NOTHING, EVERYTHING = np.zeros((1, 300)), np.ones((1, 300))


@pytest.mark.parametrize("share", [0, 0.003, 0.1, 0.9])
def test_the_mask_is_the_matrix(share):
    rows = np.vstack((NOTHING, random_rows(10, 300, share), EVERYTHING * (share > 0), NOTHING)).astype(int)
    membership = CudaBackend().membership(items_of_users(interactions(rows)), DEVICE)
    check(membership, rows, [12, 3, 3, 0, 11, *range(1, 11)], [*range(299, -1, -1), *range(0, 300, 7)], DEVICE)
    assert membership.mask(torch.tensor([], device=DEVICE).long(), torch.tensor([0, 2], device=DEVICE)).shape == (0, 2)
