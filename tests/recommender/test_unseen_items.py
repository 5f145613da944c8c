"""Items that nobody has: trained, ranked and evaluated like others, and never drawn by popularity."""

import numpy as np
import pytest

import spherec
from spherec.data.events import Events


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 30, 300), rng.integers(0, 20, 300)
    events = Events.from_columns(users.tolist(), items.tolist()).merge("sum")
    return spherec.Interactions.from_events(events.with_items(range(25)))


@pytest.mark.parametrize("sampler", [spherec.TwoStage(), spherec.Uniform(), spherec.Popularity()], ids=repr)
def test_training_ranking_and_metrics_take_items_that_nobody_has(data, sampler):
    fold = spherec.splits.ratio(data, 0.2, seed=0)
    model = spherec.CML(dim=8, sampler=sampler, epochs=2, device="cpu").fit(fold.train, validation=0)
    listed = {one.item for one in model.recommend([0], k=25)}
    own = set(fold.train.items_of(0).tolist())
    assert listed == set(range(25)) - own  # all others, those of nobody too
    assert np.isfinite([one.score for one in model.recommend([0], k=25)]).all()
    scores = spherec.evaluate(model, fold.train, fold.test, k=10)
    assert 0 <= scores.ndcg <= 1
    assert 0 < scores.coverage <= 1
