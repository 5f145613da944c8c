"""Subspaces: several models side by side that are one space."""

import re
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spherec.errors import ArgumentError
from spherec.geometry import DenseVectors
from spherec.losses import Hinge, Softmin
from spherec.optim import Adam
from spherec.sampling import Hard, Popularity, SemiHard, TwoStage, Uniform
from spherec.training import Training
from spherec.training.step import Run
from tests.training.runs import DATA, QUICK, start, train

PARTS = 3
ONE = replace(QUICK, dim=4)
SEVERAL = replace(ONE, dim=4 * PARTS, subspace_dim=4)
# Samplers that do not look at the space: all subspaces get the negatives that each of them would get alone.
BLIND = {
    "hinge": {"loss": Hinge(), "sampler": Uniform(3)},
    "hinge, a pool": {"loss": Hinge(), "sampler": Uniform(20, shared=True)},
    "hinge, penalties": {"loss": Hinge(), "sampler": Uniform(3), "covariance": 0.1, "spread_out": 0.1},
    "softmin": {"loss": Softmin(gamma=0.5), "sampler": Popularity(3)},
    "softmin, a pool": {"loss": Softmin(gamma=0.5), "sampler": Popularity(20, shared=True), "balance": 0.5},
}
LOOKING = {"two-stage": TwoStage(candidates=20), "hard": Hard(), "semi-hard": SemiHard()}


def alone(model: DenseVectors, part: int, constraint: str) -> DenseVectors:
    """One subspace of a model, as a model: on the sphere its rows have any length, in the ball at most 1."""
    tables = (rows.view(len(rows), PARTS, -1)[:, part] * PARTS**0.5 for rows in (model.user_table, model.item_table))
    if constraint == "sphere":
        return DenseVectors(*(rows / rows.norm(dim=1, keepdim=True) for rows in tables))
    return DenseVectors(*(rows / rows.norm(dim=1, keepdim=True).clamp_min(1) for rows in tables))


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("settings", BLIND.values(), ids=BLIND)
def test_each_learns_what_it_would_learn_alone(settings, constraint):
    begin, settings = start(dim=SEVERAL.dim), {**settings, "constraint": constraint}
    together = train(DATA, replace(SEVERAL, **settings), initial=begin)
    apart = [train(DATA, replace(ONE, **settings), initial=alone(begin, part, constraint)) for part in range(PARTS)]
    vectors = [one.vectors for one in apart]
    for table in ("user_table", "item_table"):
        expected = torch.cat([getattr(one, table) for one in vectors], dim=1) / PARTS**0.5
        torch.testing.assert_close(getattr(together.vectors, table), expected, atol=1e-5, rtol=0)
    for name in ("loss", "active", "masked"):
        mean = sum(getattr(one.history.epochs[-1], name) for one in apart) / PARTS
        assert getattr(together.history.epochs[-1], name) == pytest.approx(mean, rel=1e-4)


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("subspace_dim", [4, None])
@pytest.mark.parametrize("sampler", LOOKING.values(), ids=LOOKING)
def test_a_sampler_sees_the_whole_space_as_it_is(sampler, subspace_dim, constraint):
    settings = {"sampler": sampler, "constraint": constraint, "subspace_dim": subspace_dim, "optimizer": Adam(0.3)}
    run = Run(DATA, replace(SEVERAL, **settings), start(dim=SEVERAL.dim))
    for _ in range(3):
        run.step(torch.arange(8), torch.tensor([int(DATA.items_of(user)[0]) for user in range(8)]))
        vectors = run.vectors.copy()
        users, items = torch.tensor([[0, 5], [7, 7]]), torch.arange(DATA.n_items)
        torch.testing.assert_close(run.geometry.users(users), vectors.users(users), atol=1e-6, rtol=0)
        torch.testing.assert_close(run.geometry.items(items), vectors.items(items), atol=1e-6, rtol=0)
        lengths = vectors.item_table.norm(dim=1)
        assert bool((lengths <= 1 + 1e-6).all())
        assert constraint == "ball" or bool((lengths >= 1 - 1e-6).all())


def test_the_first_vectors_that_a_sampler_keeps_are_those_of_the_space():
    begin = start(dim=SEVERAL.dim)
    run = Run(DATA, replace(SEVERAL, sampler=TwoStage.as_released()), begin)
    torch.testing.assert_close(run.sampler._frozen, run.vectors.copy().item_table, atol=1e-6, rtol=0)


@given(dim=st.integers(2, 3000), subspace_dim=st.integers(2, 300))
def test_the_way_out_is_one(dim, subspace_dim):
    try:
        Training(dim=dim, subspace_dim=subspace_dim)
    except ArgumentError as error:
        Training(dim=int(re.search(r"a dim of (\d+)", str(error))[1]), subspace_dim=subspace_dim)


def test_the_start_is_the_same_for_all_lengths_of_rows():
    begin = start(dim=SEVERAL.dim)
    longer = DenseVectors(begin.user_table * 3, begin.item_table * 3)
    one, other = (train(DATA, replace(SEVERAL, **BLIND["softmin"]), initial=model).vectors for model in (begin, longer))
    torch.testing.assert_close(one.item_table, other.item_table, atol=1e-4, rtol=0)
