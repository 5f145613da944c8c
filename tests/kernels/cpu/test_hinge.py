"""The hinge of the backends against the loss and autograd."""

import numpy as np
import pytest
import torch

from spherec.geometry import squared_distance, to_vectors
from spherec.kernels.cpu import CpuBackend
from spherec.kernels.reference import ReferenceBackend
from spherec.losses import Hinge, Triplets

N_ITEMS = 1000


def batch(pairs, n, dim, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    rows = scale * torch.randn(2 * pairs + pairs * n, dim, generator=generator)
    return rows, torch.rand(pairs, n, generator=generator) < 0.8


def by_autograd(rows, valid, loss, constraint):
    """Gradient, sum of losses and active pairs."""
    pairs, n = valid.shape
    rows = rows.clone().requires_grad_()
    vectors = to_vectors(rows, constraint)
    users, positives, negatives = vectors[:pairs], vectors[pairs : 2 * pairs], vectors[2 * pairs :]
    triplets = Triplets(
        squared_distance(users, positives), squared_distance(users, negatives.reshape(pairs, n, -1)), valid, N_ITEMS
    )
    total = loss(triplets).sum()
    (gradient,) = torch.autograd.grad(total, rows)
    return gradient, total.item(), int(loss.active(triplets).sum())


def compiled(rows, valid, loss, constraint, kernels=None):
    """Gradient, sum of losses and active pairs."""
    settings = {"margin": loss.margin, "ranked": loss.rank_weight, "n_items": N_ITEMS}
    kernels = kernels or CpuBackend()
    gradient, sums = kernels.gradients["Hinge"](rows, valid, **settings, on_sphere=constraint == "sphere")
    assert sums[2] == (~valid).sum()
    return gradient, sums[0].item(), int(sums[1])


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("loss", [Hinge(), Hinge(0.2), Hinge(rank_weight=True)], ids=repr)
@pytest.mark.parametrize(("pairs", "n", "dim"), [(1, 1, 2), (3, 1, 16), (17, 5, 8), (64, 7, 128), (5, 2, 512)])
@pytest.mark.parametrize("kernels", [CpuBackend(), ReferenceBackend()], ids=["compiled", "plain torch"])
def test_gradient_and_loss_are_those_of_autograd(kernels, pairs, n, dim, loss, constraint):
    rows, valid = batch(pairs, n, dim, scale=1 if constraint == "sphere" else dim**-0.5)
    expected = by_autograd(rows, valid, loss, constraint)
    gradient, total, active = compiled(rows, valid, loss, constraint, kernels)
    torch.testing.assert_close(gradient, expected[0], rtol=1e-4, atol=1e-5)
    assert total == pytest.approx(expected[1], rel=1e-4)
    assert active == expected[2]


def test_a_pair_without_negatives_has_no_loss_and_no_gradient():
    rows, valid = batch(4, 3, 8)
    valid[:] = False
    gradient, total, active = compiled(rows, valid, Hinge(), "sphere")
    assert (total, active) == (0, 0)
    assert not gradient.any()


def test_rows_of_zeros_do_no_harm():
    rows, valid = batch(2, 2, 8)
    rows[:] = 0
    gradient, total, _ = compiled(rows, valid, Hinge(), "sphere")
    assert np.isfinite(total)
    assert gradient.isfinite().all()


def test_only_the_nearest_negative_is_pushed():
    rows, valid = batch(6, 4, 8)
    gradient, _, active = compiled(rows, valid, Hinge(4.0), "sphere")
    pushed = gradient[12:].reshape(6, 4, 8).any(2).sum(1)
    assert active == 6
    assert pushed.tolist() == [1] * 6


def test_what_is_not_a_number_shows_in_the_loss():
    rows, valid = batch(4, 3, 8)
    rows[:] = float("nan")
    valid[:] = True
    assert np.isnan(compiled(rows, valid, Hinge(), "sphere")[1])
