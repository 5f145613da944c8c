"""Softmin over a shared pool in few passes, against the loss under autograd."""

import numpy as np
import pytest
import torch

from spherec import device
from spherec.geometry import squared_distance, unit
from spherec.kernels.cpu import CpuBackend, compiled
from spherec.kernels.cpu.softmin import exponentiate
from spherec.losses import Softmin, Triplets

PAIRS, POOL, DIM, ITEMS = 13, 40, 6, 100
ROUNDING = 2.0**-8  # of bfloat16, relative


def batch(*, parts=1, pairs=PAIRS, pool=POOL, dim=DIM, log_q=True, weighted=True, reach=True):
    """Arguments of a gradient, with a pair at distance 0, and of two or more a user without any negative."""
    random = torch.Generator().manual_seed(3)
    rows = 3 * torch.randn(parts, 2 * pairs + pool, dim + reach, generator=random)
    rows[:, pairs] = rows[:, 0]
    valid = torch.rand(pairs, pool, generator=random) < 0.9
    valid[1:2], valid[2:3] = False, True
    drawn = torch.randn(1, pool, generator=random) - 5 if log_q else None
    weights = 2 * torch.rand(pairs, generator=random) if weighted else None
    return rows, valid, drawn, weights, torch.rand(pairs, generator=random) if reach else None


def compute(*given, kernels=CpuBackend, temperature=0.1, gamma=1.0):
    """Gradient and three sums by the kernels of a backend."""
    settings = {"temperature": temperature, "gamma": gamma, "n_items": ITEMS}
    gradient, sums = kernels.gradients["Softmin"](*given, **settings)
    return gradient, sums.reshape(3, -1).sum(1)


def by_autograd(rows, *given, temperature=0.1, gamma=1.0):
    """The same by autograd in double precision: the gradients of subspaces, and the mean of their sums."""
    gradients, sums = zip(*(by_autograd_in_one(part, *given, temperature, gamma) for part in rows), strict=True)
    return torch.stack(gradients), torch.stack(sums).mean(0)


def by_autograd_in_one(rows, valid, log_q, weights, dial, temperature, gamma):
    n, rows = len(valid), rows.double().requires_grad_()
    vectors = unit(rows if dial is None else rows[:, :-1])
    users, positives, pool = vectors[:n], vectors[n : 2 * n], vectors[2 * n :]
    near, far = squared_distance(users, positives), squared_distance(users, pool[None])
    if dial is not None:
        near = near - 2 * temperature * dial * rows[n : 2 * n, -1]
        far = far - 2 * temperature * dial[:, None] * rows[2 * n :, -1]
        if log_q is not None:  # γ is the share that is undone: λγ log(q I)
            log_q = dial[:, None] * (log_q + torch.tensor(ITEMS).log()) - torch.tensor(ITEMS).log()
    triplets, loss = Triplets(near, far, valid, ITEMS, log_q), Softmin(temperature, gamma)
    losses = loss(triplets) * (1 if weights is None else weights)
    losses.sum().backward()
    return rows.grad, torch.stack((losses.sum().detach(), loss.active(triplets).sum(), (~valid).sum()))


@pytest.mark.parametrize("temperature", [0.01, 0.09, 1.0])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.2])
@pytest.mark.parametrize("log_q", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reach", [False, True])
def test_it_is_what_autograd_gives(temperature, gamma, log_q, weighted, reach):
    given = batch(log_q=log_q, weighted=weighted, reach=reach)
    gradient, sums = compute(*given, temperature=temperature, gamma=gamma)
    expected, expected_sums = by_autograd(*given, temperature=temperature, gamma=gamma)
    torch.testing.assert_close(gradient, expected.float(), rtol=1e-3, atol=1e-5 / temperature)
    torch.testing.assert_close(sums, expected_sums, rtol=1e-4, atol=1e-4)
    assert not gradient[0, 1].any()


def test_subspaces_have_their_own_gradients_and_the_mean_of_their_sums():
    rows, *given = batch()
    first, second = (compute(part, *given) for part in (rows, 2 - rows))
    gradient, sums = compute(torch.cat((rows, 2 - rows)), *given)
    assert torch.equal(gradient, torch.cat((first[0], second[0])))
    assert torch.equal(sums, (first[1] + second[1]) / 2)


def test_rows_without_direction_stay_finite():
    rows, *given = batch()
    assert all(one.isfinite().all() for one in compute(0 * rows, *given))


@pytest.mark.parametrize("place", [(0, 0, 0), (0, PAIRS, DIM), (0, 2 * PAIRS + 2, 1)])
def test_a_row_that_is_no_number_is_seen_in_the_loss(place):
    given = batch()
    given[0][place] = float("nan")
    assert not compute(*given)[1][0].isfinite()


@pytest.mark.parametrize("parts", [1, 3, 6])
def test_work_divided_among_threads_gives_the_same(parts, monkeypatch, set_threads):
    given = batch(parts=parts)
    whole = compute(*given)
    monkeypatch.setattr(device, "_LARGE", 1)
    set_threads(3)
    with device.threads_for(PAIRS, torch.device("cpu")):
        assert len(device.split_work(PAIRS, 3)) == 3
        divided = compute(*given)
    tolerance = 1e-5 if parts == 1 else 0  # subspaces that divide evenly have the same bits
    for one, other in zip(whole, divided, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("reach", "temperature"), [(False, 0.1), (True, 0.1), (True, 0.005)])
def test_with_factors_of_bfloat16_the_gradient_is_near(reach, temperature, monkeypatch):
    monkeypatch.setattr(compiled, "_LARGE", 1)
    monkeypatch.setattr(compiled, "_has_bfloat16", lambda: True)
    given = batch(parts=2, pairs=50, pool=200, dim=48, reach=reach)
    gradient, sums = compute(*given, temperature=temperature)
    expected, expected_sums = by_autograd(*given, temperature=temperature)
    assert (gradient - expected).norm() < 2 * ROUNDING * expected.norm()
    torch.testing.assert_close(sums[0], expected_sums[0], rtol=ROUNDING, atol=0)
    assert sums[2] == expected_sums[2]


@pytest.mark.parametrize("n", [1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 80])
def test_a_sum_does_not_depend_on_where_its_row_lies(n):
    """Before a loop that reads and writes, LLVM compares addresses. Small arrays side by side look as if they overlap,
    and are computed number by number, in another order than arrays that lie apart."""
    given = np.random.default_rng(n).uniform(-8, 0, n).astype(np.float32)

    def sum_up(distance):
        memory = np.empty(2 * distance + n, np.float32)
        mantissa, power, row = (memory[start : start + n] for start in (0, distance, 2 * distance))
        row[:] = given
        return float(exponentiate(row, np.float32(0), mantissa, power.view(np.int32))), row.tobytes()

    apart, side_by_side = sum_up(1024), sum_up(n)
    assert apart == side_by_side
    np.testing.assert_allclose(apart[0], np.exp(given.astype(np.float64)).sum(), rtol=1e-6)
