"""Softmin over a shared pool in few passes, against the loss under autograd."""

import pytest
import torch

from spherec import device
from spherec.geometry import squared_distance, unit
from spherec.kernels.cpu import CpuBackend
from spherec.kernels.reference import ReferenceBackend
from spherec.losses import Softmin, Triplets

PAIRS, POOL, DIM, ITEMS = 13, 40, 6, 100
BACKENDS = pytest.mark.parametrize("kernels", [CpuBackend(), ReferenceBackend()], ids=["compiled", "torch"])


def gradient_by(kernels, rows, *given, **settings):
    """Gradient and sums in one space."""
    gradient, sums = kernels.gradients["Softmin"](rows[None], *given, **settings)
    return gradient[0], sums


def by_autograd(rows, valid, log_q, weights, dial, *, temperature, gamma, n_items):
    rows = rows.double().requires_grad_()
    vectors = unit(rows if dial is None else rows[:, :-1])
    users, positives, pool = vectors[:PAIRS], vectors[PAIRS : 2 * PAIRS], vectors[2 * PAIRS :]
    near, far = squared_distance(users, positives), squared_distance(users, pool[None])
    if dial is not None:
        near = near - 2 * temperature * dial * rows[PAIRS : 2 * PAIRS, -1]
        far = far - 2 * temperature * dial[:, None] * rows[2 * PAIRS :, -1]
        if log_q is not None:  # γ is the share that is undone: λγ log(q I)
            log_q = dial[:, None] * (log_q + torch.tensor(n_items).log()) - torch.tensor(n_items).log()
    triplets = Triplets(near, far, valid, n_items, log_q)
    loss = Softmin(temperature, gamma)
    losses = loss(triplets) * (1 if weights is None else weights)
    losses.sum().backward()
    return rows.grad, torch.stack((losses.sum().detach(), loss.active(triplets).sum(), (~valid).sum()))


def batch(*, drawn="by popularity", weighted=True, reach=True):
    """Arguments of a gradient, with a pair at distance 0 and a user without any negative."""
    random = torch.Generator().manual_seed(3)
    rows = 3 * torch.randn(2 * PAIRS + POOL, DIM + reach, generator=random)
    rows[PAIRS] = rows[0]
    valid = torch.rand(PAIRS, POOL, generator=random) < 0.9
    valid[1], valid[2] = False, True
    log_q = torch.randn(1, POOL, generator=random) - 5 if drawn == "by popularity" else None
    weights = torch.rand(PAIRS, generator=random) if weighted else None
    return rows, valid, log_q, weights, torch.rand(PAIRS, generator=random) if reach else None


@BACKENDS
@pytest.mark.parametrize("temperature", [0.01, 0.09, 1.0])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.2])
@pytest.mark.parametrize("drawn", ["alike", "by popularity"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reach", [False, True])
def test_it_is_what_autograd_gives(kernels, temperature, gamma, drawn, weighted, reach):
    given = batch(drawn=drawn, weighted=weighted, reach=reach)
    settings = {"temperature": temperature, "gamma": gamma, "n_items": ITEMS}
    gradient, sums = gradient_by(kernels, *given, **settings)
    expected, expected_sums = by_autograd(*given, **settings)
    torch.testing.assert_close(gradient, expected.float(), rtol=1e-3, atol=1e-5 / temperature)
    torch.testing.assert_close(sums, expected_sums, rtol=1e-4, atol=1e-4)
    assert not gradient[1].any()


@BACKENDS
def test_subspaces_have_their_own_gradients_and_the_mean_of_their_sums(kernels):
    rows, *given = batch()
    settings = {"temperature": 0.1, "gamma": 1.0, "n_items": ITEMS}
    first, second = (gradient_by(kernels, part, *given, **settings) for part in (rows, 2 - rows))
    gradient, sums = kernels.gradients["Softmin"](torch.stack((rows, 2 - rows)), *given, **settings)
    assert torch.equal(gradient, torch.stack((first[0], second[0])))
    assert torch.equal(sums, (first[1] + second[1]) / 2)


@BACKENDS
def test_a_row_without_direction_stays_finite(kernels):
    rows = torch.zeros(2 * PAIRS + POOL, DIM)
    valid = torch.ones(PAIRS, POOL, dtype=torch.bool)
    gradient, sums = gradient_by(kernels, rows, valid, None, None, None, temperature=0.1, gamma=1.0, n_items=ITEMS)
    assert gradient.isfinite().all()
    assert sums.isfinite().all()


@BACKENDS
@pytest.mark.parametrize("place", [(0, 0), (PAIRS, DIM), (2 * PAIRS + 2, 1)])
def test_a_row_that_is_no_number_is_seen_in_the_loss(kernels, place):
    given = batch()
    given[0][place] = float("nan")
    _, sums = gradient_by(kernels, *given, temperature=0.1, gamma=1.0, n_items=ITEMS)
    assert not sums[0].isfinite()


def test_pairs_divided_among_threads_give_the_same(monkeypatch):
    settings = {"temperature": 0.1, "gamma": 1.0, "n_items": ITEMS}
    whole = gradient_by(CpuBackend, *batch(), **settings)
    monkeypatch.setattr(device, "_LARGE", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with device.threads_for(PAIRS, torch.device("cpu")):
            assert len(device.split_work(PAIRS, 3)) == 3
            divided = gradient_by(CpuBackend, *batch(), **settings)
    finally:
        torch.set_num_threads(before)
    for one, other in zip(whole, divided, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
