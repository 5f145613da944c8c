"""Dense Adam at sparse cost: against torch's Adam, which moves every row at every step, and against plain loops."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spherec.geometry import project, unit
from spherec.kernels.cpu import CpuBackend
from spherec.kernels.reference import Backend
from spherec.optim import Adam
from tests import oracles
from tests.kernels import DenseAdam, using

MIXED = "1e-4 to 10"


@pytest.fixture(autouse=True, params=[CpuBackend, Backend], ids=["compiled", "plain torch"], scope="module")
def kernels(request):
    """Every test runs with both implementations."""
    with using(request.param()) as backend:
        yield backend


@pytest.fixture(scope="module")
def steps(kernels):
    """Number of steps in long runs; plain torch takes longer for each."""
    return 2500 if isinstance(kernels, CpuBackend) else 1000


def table_of(n, dim, seed=0):
    return unit(torch.randn(n, dim, generator=torch.Generator().manual_seed(seed)))


def parts(n):
    """Which rows are never touched, which once at step 1, which rarely; the others often."""
    never, once, rarely = n // 10, n // 5, 2 * n // 5
    return torch.arange(never), torch.arange(never, once), torch.arange(once, rarely)


@cache
def batches(n, dim, scale, steps, seed=1):
    """(indices, gradients) of each step; every batch has indices that come more than once.

    No gradient lies near 0, where epsilon decides.
    """
    return list(draw_batches(n, dim, scale, steps, seed))


def draw_batches(n, dim, scale, steps, seed):
    generator = torch.Generator().manual_seed(seed)
    _, once, rarely = parts(n)
    for step in range(steps):
        often = torch.randint(2 * n // 5, n, (n // 5,), generator=generator)
        now = rarely[torch.rand(len(rarely), generator=generator) < 1 / 200]
        index = torch.cat((often, often[:3], now, once if step == 0 else once[:0]))
        gradient = torch.randn(len(index), dim, generator=generator)  # (m, D)
        gradient += 0.05 * gradient.sign()
        mixed = 10 ** torch.empty(len(index), 1).uniform_(-4, 1, generator=generator)  # (m, 1)
        yield index, gradient * (mixed if scale == MIXED else scale)


def ours_and_dense(table, learning_rate, planned=None):
    """Our optimiser of a table, and the rows of torch's with a function that makes one step of both.

    With a schedule if steps are planned.
    """
    schedule = "constant" if planned is None else "cosine"
    ours = DenseAdam(table.clone(), Adam(learning_rate, schedule=schedule), planned=planned or 1)
    rows = torch.nn.Parameter(table.clone())
    adam = torch.optim.Adam([rows], lr=learning_rate)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, planned) if planned else None

    def step(index, gradient):
        ours.step(index, gradient)
        rows.grad = torch.zeros_like(rows).index_add_(0, index, gradient)
        adam.step()
        if falling:
            falling.step()

    return ours, rows.detach(), step


@pytest.mark.parametrize("scheduled", [False, True])
@pytest.mark.parametrize(
    ("n", "dim", "learning_rate", "scale"), [(60, 8, 1e-2, 1.0), (60, 8, 1e-3, 1e-3), (200, 64, 1e-2, MIXED)]
)
def test_all_rows_are_those_of_dense_adam(n, dim, learning_rate, scale, steps, scheduled):
    table = table_of(n, dim)
    ours, rows, step = ours_and_dense(table, learning_rate, steps if scheduled else None)
    worst = torch.zeros(())
    for number, (index, gradient) in enumerate(batches(n, dim, scale, steps)):
        if number % 5 == 0:
            worst = torch.maximum(worst, (ours.rows(index) - rows[index]).abs().max())
        step(index, gradient)
        if number < 20 or number % 50 == 0 or number == steps - 1:
            worst = torch.maximum(worst, (ours.everything() - rows).abs().max())
    assert worst <= 1e-5
    never = parts(n)[0]
    assert torch.equal(ours.everything()[never], table[never])


@pytest.mark.parametrize(("before", "bound"), [(0, 0.15), (100, 3e-3), (1000, 3e-4)])
def test_gradients_as_small_as_epsilon_move_a_row_as_plain_loops_do_within_a_part_of_one_step(before, bound):
    gradients = [10.0**-power for power in (4, 5, 6, 7, 8, 9, 10, 12, 20, 30)]
    ours = DenseAdam(torch.zeros(1, len(gradients)), Adam(1e-2))
    ours.state()["steps"] += before
    ours.step(torch.tensor([0]), torch.tensor([gradients]))
    paths = [oracles.adam(0.0, [0.0] * before + [one] + [0.0] * 200, 1e-2)[before:] for one in gradients]
    for places in zip(*paths, strict=True):
        assert ours.everything()[0].tolist() == pytest.approx(places, abs=bound * 1e-2)
        ours.state()["steps"] += 1


ACTIVE = st.floats(1e-3, 10) | st.floats(-10, -1e-3)


@settings(max_examples=30)
@given(
    gradients=st.lists(st.just(0.0) | ACTIVE, min_size=1, max_size=60),
    betas=st.sampled_from([(0.9, 0.999), (0.0, 0.9), (0.5, 0.9), (0.9, 0.99), (0.01, 0.5)]),
    learning_rate=st.sampled_from([1e-4, 1e-2]),
)
def test_a_row_stands_where_plain_loops_put_it_at_every_step(gradients, betas, learning_rate):
    ours = DenseAdam(torch.zeros(2, 1), Adam(learning_rate, *betas))
    found = []
    for gradient in gradients:
        index = 0 if gradient else 1
        ours.step(torch.tensor([index]), torch.tensor([[gradient or 1.0]]))
        found.append(ours.rows(torch.tensor(0)).item())
    expected = oracles.adam(0.0, gradients, learning_rate, *betas)
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-4 * learning_rate)


@pytest.mark.parametrize("gap", [1, 10, 300, 100_000])
@pytest.mark.parametrize("before", [0, 1, 50_000])
def test_a_row_left_alone_moves_on_as_plain_loops_have_it_and_continues_from_there(before, gap):
    ours = DenseAdam(torch.zeros(1, 2), Adam())
    ours.state()["steps"] += before
    ours.step(torch.tensor([0]), torch.tensor([[2.0, -1e-3]]))
    ours.state()["steps"] += gap
    places = [
        oracles.adam(0.0, [0.0] * before + [one] + [0.0] * gap + [-one / 6] + [0.0] * 4, 1e-3) for one in (2.0, -1e-3)
    ]
    assert ours.everything()[0].tolist() == pytest.approx([place[-6] for place in places], rel=2e-6)
    ours.step(torch.tensor([0]), torch.tensor([[-2.0 / 6, 1e-3 / 6]]))
    ours.state()["steps"] += 4
    assert ours.everything()[0].tolist() == pytest.approx([place[-1] for place in places], rel=1e-5)


def trained(table, steps=50, seed=1):
    ours = DenseAdam(table.clone(), Adam(1e-2))
    for index, gradient in batches(*table.shape, MIXED, steps, seed):
        ours.step(index, gradient)
    return ours


def assert_same_state(one, other):
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_reading_changes_nothing():
    ours = trained(table_of(60, 8))
    before = {name: tensor.clone() for name, tensor in ours.state().items()}
    ours.rows(torch.arange(60)).zero_()
    ours.everything().zero_()
    ours.rows(torch.tensor([[3, 3], [0, 59]]))
    assert_same_state(ours.state(), before)


def test_a_gradient_that_is_not_a_number_is_not_passed_over():
    ours = DenseAdam(table_of(6, 4), Adam())
    ours.step(torch.tensor([5]), torch.tensor([[0.0, float("nan"), 0.0, 0.0]]))
    assert ours.everything()[5, 1].isnan()


def test_rows_are_scaled_to_length_1_in_place_and_zeros_stay(kernels):
    rows = 2 * table_of(60, 8).view(3, 20, 8)
    rows[1, 2] = 0
    expected = unit(rows)
    assert kernels.unit(rows) is rows
    torch.testing.assert_close(rows, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
def test_blocks_are_rows_in_their_order(constraint):
    ours = DenseAdam(2 * table_of(60, 8), Adam(1e-2), constraint=constraint)
    for index, gradient in batches(60, 8, MIXED, 20):
        ours.step(index, gradient)
    assert torch.equal(torch.cat([ours.block(0, 7), ours.block(7, 59), ours.block(59, 60)]), ours.everything())
    torch.testing.assert_close(ours.everything(), ours.rows(torch.arange(60)), rtol=1e-6, atol=1e-7)


def test_a_step_without_rows_is_still_a_step():
    ours, other = trained(table_of(60, 8)), trained(table_of(60, 8))
    ours.step(torch.tensor([], dtype=torch.int64), torch.empty(0, 8))
    other.state()["steps"] += 1
    assert_same_state(ours.state(), other.state())


def test_gradients_of_a_row_that_comes_more_than_once_add_up():
    table = table_of(5, 3)
    apart, together = DenseAdam(table.clone(), Adam()), DenseAdam(table.clone(), Adam())
    gradient = torch.tensor([[1.0, 2.0, 4.0], [0.5, 0.0, -1.0], [8.0, -16.0, 0.25], [3.0, 1.0, 2.0]])
    given = torch.tensor([4, 0, 4, 2]), gradient.clone()
    apart.step(*given)
    assert given[0].tolist() == [4, 0, 4, 2]
    assert torch.equal(given[1], gradient)
    together.step(torch.tensor([0, 2, 4]), torch.stack((gradient[1], gradient[3], gradient[0] + gradient[2])))
    assert_same_state(apart.state(), together.state())


def test_sums_of_many_gradients_are_the_same_bit_by_bit_at_every_run():
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(4, (2000,), generator=generator)
    gradient = torch.randn(2000, 16, generator=generator)
    runs = [DenseAdam(table_of(5, 16), Adam()) for _ in range(3)]
    for ours in runs:
        ours.step(index, gradient)
        assert_same_state(ours.state(), runs[0].state())


def test_in_the_ball_no_row_is_longer_than_1_when_read_or_moved():
    ours = DenseAdam(3 * table_of(60, 8), Adam(learning_rate=0.1), constraint="ball")
    for _ in range(5):
        index = torch.tensor([30, 10, 30])
        before = ours.rows(index)
        ours.step(index, torch.ones(3, 8))
        assert not torch.equal(ours.rows(index), before)
        torch.testing.assert_close(ours.everything(), project(ours.everything(), "ball"))
        assert (ours.state()["table"][[10, 30]].norm(dim=1) <= 1 + 1e-6).all()
        assert (ours.state()["table"][11].norm() > 2).all()
    ours.step(torch.tensor([7]), torch.zeros(1, 8))
    assert ours.state()["table"][7].norm() == pytest.approx(1)
