"""The plain model: it must be right, or being faster than it would say nothing."""

from dataclasses import replace

import numpy as np
import pytest
from plain import PlainTraining, plain_top
from steps import generate_interactions

from spherec import rng
from spherec.geometry import DenseVectors
from spherec.ranking import ExactRanker
from spherec.sampling import Popularity, TwoStage, Uniform
from spherec.training import Training
from tests.oracles import law_without, popularity_law, stage_two_law
from tests.sampling.checks import FEWEST_DRAWS, assert_follows, interactions
from tests.training.planted import GOOD, SETTINGS, TRAIN, quality
from tests.training.runs import train

SAMPLERS = {"uniform": Uniform(5), "popularity": Popularity(5), "two-stage": TwoStage(5, candidates=60)}
each_sampler = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)


def start(data, dim):
    return DenseVectors.random(data.n_users, data.n_items, dim, rng.torch_stream(0, "initial vectors"))


def plain(data, sampler, dim=8, **settings):
    return PlainTraining(data, Training(dim=dim, sampler=sampler, **settings), start(data, dim))


@each_sampler
def test_it_learns_what_ours_learns(sampler):
    config = replace(SETTINGS, sampler=sampler)
    baseline = PlainTraining(TRAIN, config, start(TRAIN, config.dim))
    for _ in range(config.epochs * -(-len(TRAIN) // config.batch_size)):
        baseline.step()
    ours = quality(train(TRAIN, config, device="cpu").vectors)
    assert quality(baseline.vectors) >= GOOD
    assert ours >= GOOD
    assert abs(quality(baseline.vectors) - ours) < 0.05


@pytest.mark.parametrize("beta", [0.0, 0.8, -0.5])
def test_popularity_follows_its_law(beta):
    data = interactions()
    user = 0
    law = law_without(popularity_law(data.matrix.toarray().tolist(), beta), data.items_of(user).tolist())
    drawn = plain(data, Popularity(1, beta=beta)).negatives(np.full(FEWEST_DRAWS, user), np.zeros(FEWEST_DRAWS, int))
    assert_follows(drawn[:, 0].tolist(), law)


@pytest.mark.parametrize("sharpness", [0.0, 0.5, 1.0])
def test_two_stage_follows_its_law(sharpness):
    data, user, positive = interactions(), 0, 0
    baseline = plain(data, TwoStage(1, sharpness=sharpness, candidates=6), dim=4)  # all items are candidates
    items = baseline.vectors.item_table.tolist()
    allowed = [item not in data.items_of(user) for item in range(data.n_items)]
    law = stage_two_law(items[positive], items, sharpness, 0.875, allowed)
    drawn = baseline.negatives(np.full(FEWEST_DRAWS, user), np.full(FEWEST_DRAWS, positive))
    assert_follows(drawn[:, 0].tolist(), law)


def test_its_lists_are_ours():
    data = generate_interactions(40, 300, 800)
    vectors, users = start(data, 16), np.arange(40)
    expected = ExactRanker(vectors).top(users, 10, without=data).items
    assert plain_top(vectors, users, 10, data).tolist() == expected.tolist()
