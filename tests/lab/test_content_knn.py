"""Content alone: the mean of a user's items, by cosine, against loops; new items are ranked like all others."""

import numpy as np
import pytest

from spherec import Features, lab, splits
from spherec.errors import ArgumentError, DataError
from spherec.evaluation import evaluate_cold
from spherec.lab import ContentKnn, OurModel
from spherec.training.config import PRESETS
from tests.lab.tiny import CONTEXT
from tests.sampling.checks import interactions, random_rows

DATA = interactions(random_rows(20, 12, 0.3, seed=1))
ROWS = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
ROWS[5] = np.nan  # an item without features


def cosine(one, other):
    return one @ other / np.sqrt((one @ one) * (other @ other))


def test_lists_are_those_of_a_loop():
    ranking = ContentKnn(Features.from_matrix(ROWS)).fit(DATA, {}, CONTEXT).top(np.arange(20), 4, without=DATA)
    for user, listed in enumerate(ranking.items.tolist()):
        own = [item for item in DATA.items_of(user).tolist() if item != 5]
        if not own:
            continue
        mean = sum(ROWS[item].astype(float) / np.linalg.norm(ROWS[item]) for item in own)
        others = [item for item in range(12) if item != 5 and item not in DATA.items_of(user)]
        best = sorted(others, key=lambda item: -cosine(mean, ROWS[item].astype(float)))
        assert listed == (best + [-1] * 4)[:4]


def test_cold_items_with_the_features_of_what_a_user_has_are_found():
    groups = np.arange(40) % 4
    matrix = (np.arange(60)[:, None] % 4 == groups[None, :]) & (np.random.default_rng(1).random((60, 40)) < 0.8)
    data = interactions(matrix.astype(int))
    fold = splits.cold_items(data, 0.2, seed=0)
    scores = evaluate_cold(ContentKnn(Features.from_matrix(np.eye(4)[groups])).fit(fold.train), fold, k=20)
    assert scores.cold.recall == pytest.approx(1)
    assert scores.all.recall == pytest.approx(1)


def test_a_preset_with_features_takes_part_in_a_comparison(tmp_path):
    features = Features.from_matrix(ROWS)
    changes = {"dim": 8, "subspace_dim": None, "epochs": 2, "batch_size": 16, "sampler": {"negatives": 8}}
    config = PRESETS["accurate"].training.change(changes)
    models = [
        OurModel("accurate+features", config, features=features),
        OurModel("accurate", config, {}),
        ContentKnn(features),
    ]
    rows = lab.compare(DATA, models, folder=tmp_path, folds=2, k=5, trials=1, device="cpu")
    scores = {row.model: row.scores["ndcg"].mean for row in rows}
    assert set(scores) == {"accurate+features", "accurate", "content-knn"}
    assert scores["accurate+features"] != scores["accurate"]
    assert models[0].fixed != OurModel("accurate+features", config, features=Features.from_matrix(ROWS + 1)).fixed
    with pytest.raises(ArgumentError, match="its learning rate is constant"):
        OurModel.preset("two-stage", features)
    with pytest.raises(DataError, match="features"):
        OurModel.preset("accurate", Features.from_matrix(np.eye(2), ["x", "y"])).check(DATA)


def test_features_of_other_items_are_refused_before_anything_is_fit():
    with pytest.raises(DataError, match="features"):
        ContentKnn(Features.from_matrix(np.eye(2), ["x", "y"])).check(DATA)
    with pytest.raises(ArgumentError, match="features must be Features, got"):
        ContentKnn(ROWS)
