"""The hinge against the loss and autograd."""

import numpy as np
import pytest
import torch

from spherec.geometry import squared_distance, to_vectors
from spherec.kernels.cpu import CpuBackend
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


def compiled(rows, valid, loss, constraint):
    """Gradient, sum of losses and active pairs."""
    settings = {"margin": loss.margin, "ranked": loss.rank_weight, "n_items": N_ITEMS}
    gradient, sums = CpuBackend.gradients["Hinge"](rows, valid, **settings, on_sphere=constraint == "sphere")
    assert sums[2] == (~valid).sum()
    return gradient, sums[0].item(), int(sums[1])


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("loss", [Hinge(), Hinge(0.2), Hinge(rank_weight=True)], ids=repr)
@pytest.mark.parametrize(("pairs", "n", "dim"), [(1, 1, 2), (3, 1, 16), (17, 5, 8), (64, 7, 128), (5, 2, 512)])
def test_gradient_and_loss_are_those_of_autograd(pairs, n, dim, loss, constraint):
    rows, valid = batch(pairs, n, dim, scale=1 if constraint == "sphere" else dim**-0.5)
    expected = by_autograd(rows, valid, loss, constraint)
    gradient, total, active = compiled(rows, valid, loss, constraint)
    torch.testing.assert_close(gradient, expected[0], rtol=1e-4, atol=1e-5)
    assert total == pytest.approx(expected[1], rel=1e-4)
    assert active == expected[2]


def test_pairs_without_negatives_and_rows_of_zeros_do_no_harm():
    rows, valid = batch(4, 3, 8)
    gradient, total, active = compiled(rows, valid & False, Hinge(), "sphere")
    assert (total, active) == (0, 0)
    assert not gradient.any()
    gradient, total, _ = compiled(0 * rows, valid, Hinge(), "sphere")
    assert np.isfinite(total)
    assert gradient.isfinite().all()


def test_what_is_not_a_number_shows_in_the_loss():
    rows, valid = batch(4, 3, 8)
    assert np.isnan(compiled(float("nan") * rows, valid | True, Hinge(), "sphere")[1])
