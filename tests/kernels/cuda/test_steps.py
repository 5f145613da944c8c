"""Whole steps of training, through Triton and without."""

import pytest
import torch

from spherec.losses import Hinge, Softmin
from spherec.optim import Adam
from spherec.sampling import Hard, Popularity, Uniform
from spherec.training import Training
from spherec.training.step import Run
from tests.kernels.cuda.conftest import DEVICE, INTERPRETED
from tests.sampling.checks import ROWS, generator, interactions
from tests.training.runs import start

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
