"""Covariance and spread-out, each one number for a batch."""

from dataclasses import replace

import pytest
import torch
from torch.autograd import gradcheck

from spherec.losses import covariance, spread_out
from tests import oracles
from tests.losses.batches import batch, each_size


@pytest.mark.parametrize("n", [1, 2, 3, 17])
@pytest.mark.parametrize("d", [2, 3, 16, 128, 512])
def test_covariance_is_that_of_the_equation(n, d):
    vectors = batch(n, 1, d, seed=n).users + 0.1
    expected = oracles.covariance(vectors.tolist())
    assert covariance(vectors).item() == pytest.approx(expected, rel=1e-10, abs=1e-15)
    assert covariance(vectors.float()).item() == pytest.approx(expected, rel=1e-4, abs=1e-8)
    assert covariance(vectors).shape == ()


def test_covariance_of_one_vector_is_zero():
    assert covariance(torch.ones(1, 5)) == 0


def test_covariance_of_uncorrelated_dimensions_is_zero():
    axes = torch.cat((torch.eye(4), -torch.eye(4)))
    assert covariance(axes) == 0


def test_covariances_of_opposite_sign_do_not_cancel():
    x, y = torch.tensor([1.0, -1.0, 0.0, 0.0]), torch.tensor([0.0, 0.0, 1.0, -1.0])
    vectors = torch.stack((x + y, x, -y), dim=1)  # Cov has 1/2 and -1/2 beside the diagonal
    assert covariance(vectors).item() == pytest.approx(4 * 0.5**2 / 4)


def test_covariance_does_not_depend_on_where_the_vectors_lie():
    vectors = batch(17, 1, 3).users
    torch.testing.assert_close(covariance(vectors + 5), covariance(vectors), rtol=1e-9, atol=0)


def test_gradient_of_the_covariance():
    assert gradcheck(covariance, batch(5, 1, 3).vectors_with_gradient()[1][0])


@each_size
@pytest.mark.parametrize("shared", [False, True])
def test_spread_out_is_that_of_the_equation(b, n, d, shared):
    pairs = batch(b, n, d, shared=shared)
    vectors = [
        (positive, vector)
        for pair, positive in enumerate(pairs.positives.tolist())
        for vector, _ in pairs.negatives_of(pair)
    ]
    expected = oracles.spread_out(vectors, d)
    assert spread_out(pairs.positives, pairs.negatives, pairs.valid).item() == pytest.approx(expected, abs=1e-14)
    single = pairs.to(torch.float32)
    assert spread_out(single.positives, single.negatives, pairs.valid).item() == pytest.approx(expected, abs=1e-6)
    assert spread_out(pairs.positives, pairs.negatives, pairs.valid).shape == ()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("d", [2, 8])
def test_gradient_of_spread_out(shared, d):
    pairs, (_, positives, negatives) = batch(4, 3, d, shared=shared).vectors_with_gradient()
    assert gradcheck(lambda *vectors: spread_out(*vectors, pairs.valid), (positives, negatives))


def test_spread_out_without_negatives_is_zero():
    pairs = replace(batch(3, 2, 4), valid=torch.zeros(3, 2, dtype=torch.bool))
    pairs, (_, positives, negatives) = pairs.vectors_with_gradient()
    penalty = spread_out(positives, negatives, pairs.valid)
    penalty.backward()
    assert penalty == 0
    assert not positives.grad.any()
    assert not negatives.grad.any()


def test_spread_out_is_zero_for_directions_that_are_spread_out():
    axes = torch.eye(4, dtype=torch.float64)
    negatives = torch.cat((axes, -axes))[None]  # (1, 8, 4) with mean dot 0 and mean dot² 1/4 to each axis
    assert spread_out(axes, negatives, torch.ones(4, 8, dtype=torch.bool)) == 0


def test_spread_out_grows_where_negatives_lie_with_or_against_the_positive():
    positives = torch.tensor([[1.0, 0.0]])
    with_it, against = positives[None], -positives[None]
    valid = torch.ones(1, 1, dtype=torch.bool)
    assert spread_out(positives, with_it, valid) == spread_out(positives, against, valid) == 1 + (1 - 1 / 2)
