"""The hinge and its gradient against autograd."""

import pytest
import torch

from spherec.kernels.cuda import hinge
from spherec.losses import Hinge
from tests.kernels.cpu.test_hinge import N_ITEMS, batch, by_autograd
from tests.kernels.cuda.conftest import DEVICE


def hinge_gradient(rows, valid, loss, constraint):
    """Gradient, and of each pair the loss, whether it is active, and how many negatives it lacks."""
    settings = {"margin": loss.margin, "ranked": loss.rank_weight, "n_items": N_ITEMS}
    rows, valid = rows.to(DEVICE), valid.to(DEVICE)
    gradient, told = hinge.hinge_gradient(rows, valid, **settings, on_sphere=constraint == "sphere")
    return gradient.cpu(), told.cpu()


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("loss", [Hinge(), Hinge(0.2), Hinge(rank_weight=True)], ids=repr)
@pytest.mark.parametrize(("pairs", "n", "dim"), [(1, 1, 2), (8, 3, 24), (3, 2, 130)])
def test_the_hinge_and_its_gradient_are_those_of_autograd(pairs, n, dim, loss, constraint):
    rows, valid = batch(pairs, n, dim, scale=1 if constraint == "sphere" else dim**-0.5)
    valid[2:3] = False
    expected, total, active = by_autograd(rows, valid, loss, constraint)
    gradient, told = hinge_gradient(rows, valid, loss, constraint)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)
    assert told[0].sum().item() == pytest.approx(total, rel=1e-4)
    assert told[1].sum() == active
    assert told[2].tolist() == (~valid).sum(1).tolist()
    assert not told[:2, 2:3].any()


@pytest.mark.parametrize("where", [0, 5, 10, 12], ids=["user", "positive", "first negative", "last negative"])
@pytest.mark.parametrize("constraint", ["sphere", "ball"])
def test_what_is_not_a_number_shows_in_the_loss_of_its_pair_alone(constraint, where):
    rows, valid = batch(5, 3, 6)
    valid[:] = True
    rows[where] = float("nan")
    loss = hinge_gradient(rows, valid, Hinge(4.0), constraint)[1][0]
    assert loss.isnan().tolist() == [True] + [False] * 4


def test_a_negative_that_is_masked_may_be_anything():
    rows, valid = batch(1, 3, 6)
    valid[:] = torch.tensor([False, True, False])
    expected = hinge_gradient(rows, valid, Hinge(), "sphere")
    rows[[2, 4]] = float("nan")
    for ours, theirs in zip(hinge_gradient(rows, valid, Hinge(), "sphere"), expected, strict=True):
        assert torch.equal(ours, theirs)
