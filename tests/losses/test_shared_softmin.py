"""Softmin over a shared pool in few passes, against the loss under autograd."""

import pytest
import torch

from spherec.geometry import squared_distance, unit
from spherec.losses import Softmin, Triplets
from spherec.losses.softmin import shared_softmin_gradient

PAIRS, POOL, DIM, ITEMS = 13, 40, 6, 100


def by_autograd(rows, valid, log_q, weights, *, temperature, gamma, n_items):
    rows = rows.double().requires_grad_()
    vectors = unit(rows)
    users, positives, pool = vectors[:PAIRS], vectors[PAIRS : 2 * PAIRS], vectors[2 * PAIRS :]
    near, far = squared_distance(users, positives), squared_distance(users, pool[None])
    triplets = Triplets(near, far, valid, n_items, log_q)
    loss = Softmin(temperature, gamma)
    losses = loss(triplets) * (1 if weights is None else weights)
    losses.sum().backward()
    return rows.grad, torch.stack((losses.sum().detach(), loss.active(triplets).sum(), (~valid).sum()))


@pytest.mark.parametrize("temperature", [0.01, 0.09, 1.0])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.2])
@pytest.mark.parametrize("drawn", ["alike", "by popularity"])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_what_autograd_gives(temperature, gamma, drawn, weighted):
    random = torch.Generator().manual_seed(3)
    rows = 3 * torch.randn(2 * PAIRS + POOL, DIM, generator=random)
    rows[PAIRS] = rows[0]  # a pair at distance 0
    valid = torch.rand(PAIRS, POOL, generator=random) < 0.9
    valid[1], valid[2] = False, True  # a user without any negative
    log_q = torch.randn(1, POOL, generator=random) - 5 if drawn == "by popularity" else None
    weights = torch.rand(PAIRS, generator=random) if weighted else None
    settings = {"temperature": temperature, "gamma": gamma, "n_items": ITEMS}
    gradient, told = shared_softmin_gradient(rows, valid, log_q, weights, **settings)
    expected, expected_told = by_autograd(rows, valid, log_q, weights, **settings)
    torch.testing.assert_close(gradient, expected.float(), rtol=1e-3, atol=1e-5 / temperature)
    torch.testing.assert_close(told, expected_told, rtol=1e-4, atol=1e-4)
    assert not gradient[1].any()


def test_a_row_without_direction_stays_finite():
    rows = torch.zeros(2 * PAIRS + POOL, DIM)
    gradient, told = shared_softmin_gradient(
        rows, torch.ones(PAIRS, POOL, dtype=torch.bool), None, None, temperature=0.1, gamma=1.0, n_items=ITEMS
    )
    assert gradient.isfinite().all()
    assert told.isfinite().all()
