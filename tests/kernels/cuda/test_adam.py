"""The optimiser's kernels, orders, batches and whole steps against plain torch."""

import numpy as np
import pytest
import torch

from spherec.geometry import unit
from spherec.kernels.cuda import batch
from spherec.kernels.cuda.adam import scale_to_unit, shape_of, sort_stably
from spherec.losses import Hinge, Softmin
from spherec.optim import Adam
from spherec.sampling import Hard, Popularity, Uniform
from spherec.sampling.draw import ItemLaw
from spherec.training import Training
from spherec.training.step import Run
from tests.kernels import DenseAdam
from tests.kernels.cuda.conftest import DEVICE, INTERPRETED, assert_close
from tests.sampling.checks import ROWS, generator, interactions
from tests.training.runs import start


def optimisers(both, dim, constraint, config, length=1.0):
    table = length * unit(torch.randn(12, dim, generator=torch.Generator().manual_seed(0))).to(DEVICE)
    table[3] = 0
    return both(lambda: DenseAdam(table.clone(), config, constraint=constraint))


def assert_same_rows(ours, theirs):
    index = torch.tensor([[11, 0, 3], [5, 5, 7]], device=DEVICE)
    assert_close(ours.rows(index), theirs.rows(index))
    assert_close(scale_to_unit(ours.rows(index)), unit(theirs.rows(index)))
    for name, part in theirs.state().items():
        assert_close(ours.state()[name], part)


@pytest.mark.parametrize(
    ("dim", "constraint", "config"),
    [
        (5, "sphere", Adam(1e-2)),
        (24, "ball", Adam(1e-2, beta2=0.99)),
        (130, "sphere", Adam(0.1, beta1=0.5, beta2=0.9)),
        (128, "ball", Adam(0.1)),
        (6, "ball", Adam(1e-2, beta1=0)),
    ],
)
def test_rows_move_as_without_triton(both, dim, constraint, config):
    ours, theirs = optimisers(both, dim, constraint, config, length=1.2)
    random = torch.Generator().manual_seed(1)
    for missed in (0, 0, 1, 40, 0, 10_000, 3, 0):  # by 10,000 steps, tables of all but the last have come to their end
        index = torch.randint(9, (7,), generator=random)  # some come twice, rows 9 … never
        gradient = torch.randn(7, dim, generator=random) * 10 ** torch.empty(7, 1).uniform_(-4, 1, generator=random)
        for one in (ours, theirs):
            one.step(index.to(DEVICE), gradient.to(DEVICE))
            one.state()["steps"].add_(missed)
        assert_same_rows(ours, theirs)


def test_gradients_of_one_row_all_add_up_and_none_is_a_step_too(both):
    ours, theirs = optimisers(both, 5, "sphere", Adam())
    gradient = torch.randn(40, 5, generator=generator()).to(DEVICE)
    for one in (ours, theirs):
        one.step(torch.full((40,), 7, device=DEVICE), gradient)
        one.step(torch.empty(0, dtype=torch.int64, device=DEVICE), torch.empty(0, 5, device=DEVICE))
    assert_same_rows(ours, theirs)


def test_rows_and_vectors_have_the_lengths_of_the_space(both):
    on_sphere, in_ball = (optimisers(both, 24, kind, Adam(), length=3.0)[0] for kind in ("sphere", "ball"))
    everything = torch.arange(12, device=DEVICE)
    not_3 = everything != 3  # which is 0, and stays
    assert_close(on_sphere.rows(everything).norm(dim=1), 3 * not_3.float())
    assert_close(scale_to_unit(on_sphere.rows(everything)).norm(dim=1), not_3.float())
    assert_close(in_ball.rows(everything).norm(dim=1), not_3.float())
    assert scale_to_unit(on_sphere.rows(everything[:0])).shape == (0, 24)
    assert on_sphere.rows(everything[:0]).shape == (0, 24)


def test_indices_gradients_and_users_may_be_every_other_of_a_tensor(both):
    ours, theirs = optimisers(both, 5, "sphere", Adam())
    index = torch.arange(12, device=DEVICE)[::2]
    gradient = torch.randn(5, 6, generator=generator()).to(DEVICE).T
    for one in (ours, theirs):
        one.step(index, gradient)
    assert_close(ours.rows(index), theirs.rows(index))
    assert_same_rows(ours, theirs)
    some, same = both(lambda: ItemLaw(interactions(ROWS), np.ones(6), DEVICE))
    users = torch.arange(8, device=DEVICE)[::2]
    drawn, expected = (one.without(users, 9, generator(device=DEVICE))[0] for one in (some, same))
    assert torch.equal(drawn, expected)


@pytest.mark.parametrize("dim", [2, 100, 128, 300, 384, 511, 512, 600, 2000])
def test_threads_come_in_powers_of_2_as_the_compiler_wants_them(dim):
    shape = shape_of(dim)
    assert shape["num_warps"].bit_count() == shape["WIDTH"].bit_count() == 1
    assert dim <= shape["WIDTH"] < 2 * dim


@pytest.mark.parametrize("values", [1, 7, (1 << 31) - 1])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 513, 8193, *([] if INTERPRETED else [8191, 8192])])
def test_order_is_that_of_a_stable_sort(count, values):
    index = torch.randint(values, (count,), generator=generator(count)).to(DEVICE)
    before, counter = index.clone(), torch.zeros(1, dtype=torch.int64, device=DEVICE)
    for ours, theirs in zip(sort_stably(index, counter), index.sort(stable=True), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(index, before)
    assert counter.tolist() == [1]


@pytest.mark.parametrize(("first", "size"), [(0, 1), (3, 255), (1, 256), (500, 257), (243, 757)])
def test_the_next_batch_is_what_stands_in_the_order(first, size):
    pairs = [torch.randint(99, (1000,), generator=generator(seed), dtype=torch.int32).to(DEVICE) for seed in (1, 2)]
    at = torch.randperm(1000, generator=generator()).to(DEVICE)
    drawn = batch.next_batch(tuple(pairs), at, torch.tensor([first], device=DEVICE), size)
    for column, whole in zip(drawn, pairs, strict=True):
        assert torch.equal(column, whole[at[first : first + size]].long())


AFTER_STEPS = 1e-6 if INTERPRETED else 1e-5  # Adam makes much of how a GPU adds up gradients near 0


ROUNDED = {"shared softmin": 2e-3}  # numbers of vectors have 11 bits there; two steps move them by 2e-2
RUNS = {
    "uniform": {"sampler": Uniform(2)},
    "popularity, rank weight": {"sampler": Popularity(3), "loss": Hinge(rank_weight=True)},
    "hard": {"sampler": Hard(2, candidates=3)},
    "penalties": {"sampler": Uniform(2), "covariance": 1.0, "spread_out": 1.0},
    "shared softmin": {"sampler": Popularity(4, shared=True), "loss": Softmin()},
}


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("case", RUNS)
def test_a_step_moves_rows_as_without_triton(both, case, constraint):
    train = interactions(ROWS)
    config = Training(dim=6, constraint=constraint, optimizer=Adam(1e-2), **RUNS[case])
    ours, theirs = both(lambda: Run(train, config, start(train, 6, constraint).to(DEVICE)))
    pairs = [torch.tensor(one, dtype=torch.int64, device=DEVICE) for one in (train.users, train.indices)]
    for some in torch.randperm(len(train), generator=generator()).split(6)[:2]:
        for run in (ours, theirs):
            run.step(*(one[some.to(DEVICE)] for one in pairs))
        torch.testing.assert_close(ours.sums, theirs.sums, atol=1e-5, rtol=ROUNDED.get(case, 1e-5))
    for one, other in zip(
        *((vectors.user_table, vectors.item_table) for vectors in (run.vectors.copy() for run in (ours, theirs))),
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=ROUNDED.get(case, AFTER_STEPS), rtol=1e-5)
