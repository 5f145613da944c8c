"""Softmin over a shared pool in all subspaces against plain torch."""

import pytest
import torch

from spherec.kernels.cuda import CudaBackend
from spherec.kernels.reference import ReferenceBackend
from tests.kernels.cuda.conftest import DEVICE

SETTINGS = {"temperature": 0.1, "gamma": 0.7, "n_items": 100}
PAIRS, POOL, DIM = 5, 18, 6


def tolerance(temperature):
    """Numbers of vectors and shares have 11 bits; exponents are products of vectors over τ."""
    return 1e-4 * (5 + 1 / temperature)


def batch(parts=2, pairs=PAIRS, pool=POOL, dim=DIM, *, log_q=True, weighted=True, reach=True):
    """Arguments of a gradient, with a pair at distance 0 and a user without any negative."""
    random = torch.Generator().manual_seed(3)
    rows = 3 * torch.randn(parts, 2 * pairs + pool, dim + reach, generator=random)
    rows[:, pairs] = rows[:, 0]
    valid = torch.rand(pairs, pool, generator=random) < 0.9
    valid[1:2] = False
    given = [
        rows,
        valid,
        torch.randn(1, pool, generator=random) - 5 if log_q else None,
        2 * torch.rand(pairs, generator=random) if weighted else None,
        torch.rand(pairs, generator=random) if reach else None,
    ]
    return [None if one is None else one.to(DEVICE) for one in given]


def both(given, **settings):
    for kernels in (CudaBackend, ReferenceBackend):
        gradient, sums = kernels.gradients["Softmin"](*given, **SETTINGS | settings)
        yield gradient, sums.reshape(3, -1).sum(1)


def assert_near(ours, theirs, temperature=SETTINGS["temperature"]):
    assert ours.shape == theirs.shape
    assert (ours - theirs).norm() <= tolerance(temperature) * theirs.norm()


@pytest.mark.parametrize(
    ("log_q", "weighted", "reach", "temperature"),
    [  # every two options in all combinations
        (False, False, False, 0.03),
        (False, True, True, 0.03),
        (True, False, True, 0.03),
        (True, True, False, 0.03),
        (True, True, True, 1.0),
    ],
)
def test_it_is_what_plain_torch_gives(log_q, weighted, reach, temperature):
    given = batch(log_q=log_q, weighted=weighted, reach=reach)
    (gradient, sums), (expected, expected_sums) = both(given, temperature=temperature)
    for pairs in (slice(0, PAIRS), slice(PAIRS, 2 * PAIRS), slice(2 * PAIRS, None)):
        assert_near(gradient[:, pairs, :DIM], expected[:, pairs, :DIM], temperature)
    if reach:
        assert_near(gradient[..., DIM], expected[..., DIM], temperature)
    torch.testing.assert_close(sums, expected_sums, rtol=tolerance(temperature), atol=0)
    assert not gradient[:, 1].any()


@pytest.mark.parametrize(
    ("parts", "pairs", "pool", "dim"), [(1, 1, 1, 1), (2, 5, 130, 24), (1, 33, 3, 130), (1, 3, 20, 300)]
)
def test_sizes_that_fill_no_tile_or_more_than_one(parts, pairs, pool, dim):
    (gradient, sums), (expected, expected_sums) = both(batch(parts, pairs, pool, dim))
    assert_near(gradient, expected)
    torch.testing.assert_close(sums, expected_sums, rtol=tolerance(SETTINGS["temperature"]), atol=1e-6)


def test_a_pool_of_several_blocks_gives_the_same(monkeypatch):
    monkeypatch.setattr("spherec.kernels.cuda.softmin._WIDEST", 16)
    (gradient, sums), (expected, expected_sums) = both(batch())
    assert_near(gradient, expected)
    torch.testing.assert_close(sums, expected_sums, rtol=tolerance(SETTINGS["temperature"]), atol=0)


def test_a_row_without_direction_stays_finite():
    given = batch()
    given[0][:] = 0
    for one in next(both(given)):
        assert one.isfinite().all()


@pytest.mark.parametrize(
    "place", [(0, 0, 0), (1, PAIRS, DIM), (1, 2 * PAIRS + 2, 1)], ids=["user", "reach", "negative"]
)
def test_a_row_that_is_no_number_is_seen_in_the_loss(place):
    given = batch()
    given[0][place] = float("nan")
    assert not next(both(given))[1][0].isfinite()


def test_large_weights_and_far_negatives_stay_finite():
    given = batch()
    given[3] *= 1e4
    (gradient, _), (expected, _) = both(given, temperature=0.002)
    assert_near(gradient, expected, 0.002)
