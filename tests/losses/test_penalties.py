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
