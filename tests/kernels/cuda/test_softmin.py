"""Softmin over a shared pool in all subspaces against autograd."""

import pytest
import torch

from spherec.kernels.cuda import CudaBackend
from tests.kernels.cpu import test_softmin as cpu
from tests.kernels.cuda.conftest import DEVICE

PAIRS, POOL, DIM = 5, 18, 6


def tolerance(temperature):
    """Numbers of vectors and shares have 11 bits; exponents are products of vectors over τ."""
    return 1e-4 * (5 + 1 / temperature)


def batch(parts=2, pairs=PAIRS, pool=POOL, dim=DIM, **options):
    return cpu.batch(parts=parts, pairs=pairs, pool=pool, dim=dim, **options)


def compute(*given, **settings):
    given = [None if one is None else one.to(DEVICE) for one in given]
    gradient, sums = cpu.compute(*given, kernels=CudaBackend, gamma=0.7, **settings)
    return gradient.cpu(), sums.cpu()


def check(given, temperature=0.1):
    """Compare the gradient of each kind of rows, and the sums."""
    gradient, sums = compute(*given, temperature=temperature)
    expected, expected_sums = cpu.by_autograd(*given, temperature=temperature, gamma=0.7)
    n, dim = len(given[1]), gradient.shape[2] - (given[4] is not None)
    places = [(..., slice(*rows), slice(dim)) for rows in ((0, n), (n, 2 * n), (2 * n, None))]
    for place in places if given[4] is None else [*places, (..., dim)]:
        error = (gradient[place] - expected[place]).norm()
        assert error <= tolerance(temperature) * expected[place].norm() + 1e-7
    torch.testing.assert_close(sums, expected_sums, rtol=tolerance(temperature), atol=1e-6)


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
def test_it_is_what_autograd_gives(log_q, weighted, reach, temperature):
    check(batch(log_q=log_q, weighted=weighted, reach=reach), temperature)


@pytest.mark.parametrize(
    ("parts", "pairs", "pool", "dim"), [(1, 1, 1, 1), (2, 5, 130, 24), (1, 33, 3, 130), (1, 3, 20, 300)]
)
def test_sizes_that_fill_no_tile_or_more_than_one(parts, pairs, pool, dim):
    check(batch(parts, pairs, pool, dim))


def test_a_pool_of_several_blocks_and_large_weights_give_the_same(monkeypatch):
    monkeypatch.setattr("spherec.kernels.cuda.softmin._WIDEST", 16)
    given = batch()
    given[3][:] *= 1e4
    check(given)


def test_a_row_without_direction_stays_finite():
    rows, *given = batch()
    assert all(one.isfinite().all() for one in compute(0 * rows, *given))


@pytest.mark.parametrize(
    "place", [(0, 0, 0), (1, PAIRS, DIM), (1, 2 * PAIRS + 2, 1)], ids=["user", "reach", "negative"]
)
def test_a_row_that_is_no_number_is_seen_in_the_loss(place):
    given = batch()
    given[0][place] = float("nan")
    assert not compute(*given)[1][0].isfinite()
