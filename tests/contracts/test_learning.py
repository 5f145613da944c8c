"""Every sampler with every loss finds planted clusters."""

from dataclasses import replace

import pytest

from spherec import rng
from spherec.geometry import DenseVectors
from spherec.losses import Hinge, Softmin
from spherec.sampling import TwoStage, Uniform
from tests.training.planted import GOOD, SETTINGS, TRAIN, quality
from tests.training.runs import each_sampler, train

LOSSES = {"hinge": Hinge(), "rank weight": Hinge(rank_weight=True), "softmin": Softmin()}


def learned(**settings):
    return quality(train(TRAIN, replace(SETTINGS, **settings), device="cpu").vectors)


def test_random_vectors_find_nothing():
    start = DenseVectors.random(TRAIN.n_users, TRAIN.n_items, SETTINGS.dim, rng.torch_stream(0, "initial vectors"))
    assert quality(start) < 0.2


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@each_sampler
def test_clusters_are_found(sampler, loss):
    assert learned(sampler=sampler, loss=loss) >= GOOD


@pytest.mark.parametrize("loss", [Hinge(), Softmin()], ids=["hinge", "softmin"])
def test_clusters_are_found_in_the_ball(loss):
    assert learned(sampler=Uniform(5), loss=loss, constraint="ball") >= GOOD


@pytest.mark.parametrize("penalty", ["covariance", "spread_out"])
def test_clusters_are_found_under_penalties(penalty):
    assert learned(sampler=TwoStage(candidates=60), **{penalty: 1.0}) >= GOOD
