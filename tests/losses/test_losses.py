"""Every loss and penalty against its equation, on random batches, and what holds for all of them."""

from dataclasses import dataclass, replace
from itertools import product

import pytest
import torch
from torch.autograd import gradcheck

from spherec import geometry
from spherec.losses import Hinge, Softmin, Triplets, covariance, hinge, rank_weight, softmin, spread_out
from tests import oracles

N_ITEMS = 5000
SIZES = list(product((1, 3, 17), (1, 2, 7), (2, 3, 16, 128, 512)))
each_size = pytest.mark.parametrize(("b", "n", "d"), SIZES)


@dataclass(frozen=True)
class Batch:
    users: torch.Tensor
    positives: torch.Tensor
    negatives: torch.Tensor
    valid: torch.Tensor
    log_q: torch.Tensor | None

    def triplets(self):
        positive = geometry.squared_distance(self.users, self.positives)
        negative = geometry.squared_distance(self.users, self.negatives)
        return Triplets(positive, negative, self.valid, N_ITEMS, self.log_q)

    def to(self, dtype):
        log_q = None if self.log_q is None else self.log_q.to(dtype)
        vectors = (one.to(dtype) for one in (self.users, self.positives, self.negatives))
        return Batch(*vectors, self.valid, log_q)

    def without_law(self):
        return replace(self, log_q=None)

    def vectors_with_gradient(self):
        """The same, and its three tensors of vectors, which now gather gradients."""
        vectors = [one.clone().requires_grad_() for one in (self.users, self.positives, self.negatives)]
        return Batch(*vectors, self.valid, self.log_q), vectors

    def negatives_of(self, pair):
        """[(vector, q)] of the valid negatives of a pair."""
        row = 0 if len(self.negatives) == 1 else pair
        law = None if self.log_q is None else self.log_q[min(row, len(self.log_q) - 1)]
        return [
            (self.negatives[row, k].tolist(), None if law is None else law[k].exp().item())
            for k in range(self.valid.shape[1])
            if self.valid[pair, k]
        ]

    def distances(self):
        """[(squared distance to the positive, [squared distances to the valid negatives])] by the oracle."""
        for pair, (user, positive) in enumerate(zip(self.users.tolist(), self.positives.tolist(), strict=True)):
            negatives = [oracles.squared_distance(user, vector) for vector, _ in self.negatives_of(pair)]
            yield oracles.squared_distance(user, positive), negatives

    def similarities(self):
        """[(dot product with the positive, [(dot product with a valid negative, q)])] by the oracle."""
        for pair, (user, positive) in enumerate(zip(self.users.tolist(), self.positives.tolist(), strict=True)):
            negatives = [(oracles.dot(user, vector), q) for vector, q in self.negatives_of(pair)]
            yield oracles.dot(user, positive), negatives


def batch(b, n, d, *, shared=False, seed=0):
    """Unit vectors in double precision, about a quarter of the negatives not valid, drawn by a skewed law."""
    generator = torch.Generator().manual_seed(seed)

    def directions(*shape):
        return torch.nn.functional.normalize(
            torch.randn(*shape, d, generator=generator, dtype=torch.float64), dim=-1
        )  # (*shape, D)

    negatives = directions(1 if shared else b, n)
    log_q = torch.empty(negatives.shape[:2], dtype=torch.float64).uniform_(-12, -4, generator=generator)
    valid = torch.rand(b, n, generator=generator) < 0.75
    return Batch(directions(b), directions(b), negatives, valid, log_q)


LOSSES = [Hinge(), Hinge(0.1), Hinge(0.1, rank_weight=True), Softmin(0.1), Softmin(0.5, 0.5), Softmin(1.0, 0.0)]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
both_precisions = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def assert_same(found, expected, tolerance=1e-10):
    """One number each, within the tolerance, or what single precision allows."""
    tolerance = tolerance if found.dtype == torch.float64 else 5e-5
    expected = torch.tensor(expected, dtype=torch.float64)
    assert found.shape == expected.shape
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


@each_size
@both_precisions
@pytest.mark.parametrize("margin", [1.0, 0.05])
def test_hinge_is_that_of_the_equation(b, n, d, dtype, margin):
    pairs = batch(b, n, d)
    expected = [oracles.hinge(positive, negatives, margin) for positive, negatives in pairs.distances()]
    assert_same(hinge(pairs.to(dtype).triplets(), margin), expected)
    assert_same(Hinge(margin)(pairs.to(dtype).triplets()), expected)


@each_size
@both_precisions
@pytest.mark.parametrize("margin", [1.0, 0.05])
def test_rank_weight_is_that_of_the_equation(b, n, d, dtype, margin):
    pairs = batch(b, n, d)
    weights = [oracles.rank_weight(positive, negatives, margin, N_ITEMS) for positive, negatives in pairs.distances()]
    hinges = [oracles.hinge(positive, negatives, margin) for positive, negatives in pairs.distances()]
    triplets = pairs.to(dtype).triplets()
    assert_same(rank_weight(triplets, margin).to(dtype), weights, tolerance=1e-6)
    weighted = [weight * one for weight, one in zip(weights, hinges, strict=True)]
    assert_same(Hinge(margin, rank_weight=True)(triplets), weighted, tolerance=1e-6)


@each_size
@both_precisions
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_softmin_is_that_of_the_equation(b, n, d, dtype, gamma):
    for pairs in (batch(b, n, d), batch(b, n, d).without_law()):
        expected = [
            oracles.softmin(positive, negatives, 0.1, gamma, N_ITEMS) for positive, negatives in pairs.similarities()
        ]
        assert_same(softmin(pairs.to(dtype).triplets(), 0.1, gamma), expected, tolerance=1e-6)
        assert_same(Softmin(0.1, gamma)(pairs.to(dtype).triplets()), expected, tolerance=1e-6)


@each_loss
@pytest.mark.parametrize("shared", [False, True])
def test_gradients_are_those_of_the_loss(loss, shared):
    pairs = batch(4, 3, 3, shared=shared, seed=1)

    def of(*vectors):
        return loss(Batch(*vectors, pairs.valid, pairs.log_q).triplets())

    assert gradcheck(of, pairs.vectors_with_gradient()[1])


@each_loss
@pytest.mark.parametrize("shared", [False, True])
def test_a_pair_without_negatives_costs_nothing_and_pulls_nowhere(loss, shared):
    pairs = batch(3, 2, 4, shared=shared)
    valid = torch.tensor([[True, True], [False, False], [True, False]])
    pairs, (users, positives, negatives) = replace(pairs, valid=valid).vectors_with_gradient()
    loss(pairs.triplets()).sum().backward()
    assert loss(pairs.triplets())[1] == 0
    assert not loss.active(pairs.triplets())[1]
    assert rank_weight(pairs.triplets(), 1.0)[1] == 0
    assert all(one.grad.isfinite().all() for one in (users, positives, negatives))
    assert not users.grad[1].any()
    assert not positives.grad[1].any()
    assert users.grad[0].any() or not loss(pairs.triplets())[0]


@each_loss
@pytest.mark.parametrize("law", [-3.0, 0.0, float("-inf")])
def test_what_stands_in_places_that_are_not_valid_does_not_matter(loss, law):
    pairs = batch(17, 7, 3)
    other = replace(
        pairs,
        negatives=torch.where(pairs.valid[..., None], pairs.negatives, pairs.users[:, None]),
        log_q=torch.where(pairs.valid, pairs.log_q, law),
    )
    other, (users, _, negatives) = other.vectors_with_gradient()
    torch.testing.assert_close(loss(other.triplets()), loss(pairs.triplets()), rtol=0, atol=0)
    torch.testing.assert_close(loss.active(other.triplets()), loss.active(pairs.triplets()))
    loss(other.triplets()).sum().backward()
    assert users.grad.isfinite().all()
    assert not negatives.grad[~pairs.valid].any()


@each_loss
@both_precisions
def test_negatives_shared_by_the_batch_are_the_same_as_repeated_ones(loss, dtype):
    pairs = batch(17, 7, 16, shared=True).to(dtype)
    repeated = replace(pairs, negatives=pairs.negatives.expand(17, -1, -1), log_q=pairs.log_q.expand(17, -1))
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(loss(pairs.triplets()), loss(repeated.triplets()), rtol=tolerance, atol=tolerance)
    half_shared = replace(repeated, log_q=pairs.log_q)
    torch.testing.assert_close(loss(half_shared.triplets()), loss(repeated.triplets()), rtol=0, atol=0)


@pytest.mark.parametrize(("loss", "edge"), [(Hinge(), 2.0), (Softmin(), 1.0)], ids=["inside the margin", "nearer"])
@pytest.mark.parametrize("distance", [0.5, 0.99, 1.0, 1.99, 2.0, 3.0])
def test_a_pair_is_active_where_a_negative_is_near(loss, edge, distance):
    triplets = Triplets(torch.ones(1), torch.tensor([[9.0, distance, 0.0]]), torch.tensor([[True, True, False]]), 5)
    assert loss.active(triplets).tolist() == [distance < edge]
    assert not isinstance(loss, Hinge) or (loss(triplets) > 0).tolist() == [distance < edge]


def test_softmin_stays_finite_where_its_exponentials_do_not():
    positive = torch.tensor([4.0, 0.0], requires_grad=True)
    negative = torch.tensor([[0.0, 4.0], [4.0, 4.0]], requires_grad=True)
    loss = softmin(Triplets(positive, negative, torch.ones(2, 2, dtype=torch.bool), 5), 2**-10, 1.0)
    loss.sum().backward()
    assert loss.tolist() == [2048, 0]
    assert positive.grad.isfinite().all()
    assert negative.grad.tolist() == [[-512, 0], [0, 0]]


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
