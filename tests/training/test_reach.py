"""Training with reach: a run that was stopped goes on bitwise, the best model keeps its reach, and blocks agree."""

from dataclasses import replace

import pytest
import torch

from spherec.artifact import FoldInSettings
from spherec.embedding import LiveVectors
from spherec.losses import Hinge, Softmin
from spherec.optim import Adam
from spherec.sampling import Hard, Popularity, Uniform
from spherec.training import Training
from tests.sampling.checks import CPU
from tests.training.runs import DATA, QUICK, falling, same, trained, watch_dial

POOL = Popularity(12, beta=0.5, shared=True)
RUNS = {
    "one space": {"loss": Softmin(), "sampler": POOL},
    "subspaces": {"loss": Softmin(), "sampler": POOL, "subspace_dim": 4},
    "subspaces, cosine, balance": {
        "loss": Softmin(0.2, gamma=0.5),
        "sampler": POOL,
        "subspace_dim": 2,
        "optimizer": Adam(1e-2, schedule="cosine"),
        "balance": 0.5,
    },
    "own negatives": {"loss": Softmin(0.2), "sampler": Popularity(3), "subspace_dim": 4},
    "hinge": {"loss": Hinge(), "sampler": Hard(2)},
    "penalties": {"loss": Softmin(0.2), "sampler": POOL, "covariance": 1.0, "spread_out": 1.0},
}
each_run = pytest.mark.parametrize("settings", RUNS.values(), ids=RUNS)


def reaching(settings=RUNS["subspaces"], **options):
    return trained(reach=True, mainstream=0.4, validate=falling, **settings, **options)


@each_run
def test_reach_is_learned_in_every_subspace(settings):
    vectors = reaching(settings, epochs=10).vectors
    parts = replace(QUICK, **settings).subspaces
    assert vectors.item_reach.shape == (DATA.n_items, parts)
    assert vectors.item_reach.isfinite().all()
    assert (vectors.item_reach.std(0) > 1e-4).all()
    assert vectors.mainstream == 0.4
    torch.testing.assert_close(vectors.reach, vectors.item_reach.mean(1))
    assert same(vectors, reaching(settings, epochs=10).vectors), "the same seed gives the same reach"
    assert not same(vectors, reaching(settings, epochs=10, seed=5).vectors)


@each_run
def test_a_run_in_progress_has_the_reach_of_all_blocks_and_none_for_users(settings):
    seen = []

    def look(vectors):
        assert torch.equal(LiveVectors(vectors.embedding, vectors.space, DATA.n_items, CPU, 7).reach, vectors.reach)
        users = vectors.embedding.block(DATA.n_items, len(vectors.embedding))  # (U, P, d + 1)
        assert not users[..., -1].any(), "it learns nothing"
        seen.append(vectors.copy())
        torch.testing.assert_close(seen[-1].reach, vectors.reach)
        return len(seen)

    assert same(trained(reach=True, validate=look, **settings).vectors, seen[2])


def test_the_dial_is_drawn_evenly_and_anew_in_each_step(monkeypatch):
    dials = []
    watch_dial(monkeypatch, dials.append)
    trained(reach=True, epochs=40, **RUNS["one space"])
    drawn = torch.cat(dials).double()
    assert len(drawn) == 40 * len(DATA)
    assert 0 <= drawn.min() < drawn.max() <= 1
    counts = torch.histc(drawn, 10, 0, 1)
    expected = len(drawn) / 10
    assert float(((counts - expected) ** 2 / expected).sum()) < 34  # chi-square, 9 degrees, p = 1e-4
    assert not torch.equal(dials[0], dials[1])


def test_new_users_are_placed_in_the_middle_of_the_dial():
    config = Training(loss=Softmin(0.2, gamma=0.8), sampler=Popularity(9, beta=0.5), reach=True)
    assert FoldInSettings.of(config, DATA).bias_correction == pytest.approx(0.4)
    assert FoldInSettings.of(replace(config, reach=False), DATA).bias_correction == 0.8
    assert FoldInSettings.of(replace(config, sampler=Uniform()), DATA).bias_correction in (0, pytest.approx(0.4))
