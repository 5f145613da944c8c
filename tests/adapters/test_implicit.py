"""The estimator with the calls of implicit: arrays are the lists of the model, and searches may set its parameters."""

import numpy as np
import pytest
import scipy.sparse as sp

import spherec
from spherec.adapters.implicit import CMLEstimator
from spherec.errors import ArgumentError

SMALL = {"dim": 8, "epochs": 3, "validation": 0}
SEEN = sp.csr_matrix(sp.random_array((40, 30), density=0.2, rng=np.random.default_rng(0)) > 0.1).astype(np.float32)


@pytest.fixture(scope="module")
def fitted():
    return CMLEstimator(**SMALL).fit(SEEN)


def test_arrays_are_the_lists_of_the_model(fitted):
    items, scores = fitted.recommend([3, 5], SEEN[[3, 5]], N=4, filter_items=[1], items=range(20))
    ours = fitted.model.recommend([3, 5], 4, exclude=[1], only=range(20))
    assert items.ravel().tolist() == [one.item for one in ours]
    assert scores.ravel().tolist() == [one.score for one in ours]
    assert np.array_equal(fitted.recommend(3, SEEN[3], N=4, filter_items=[1], items=range(20))[0], items[0])
    with_own, _ = fitted.recommend(3, SEEN[3], N=30, filter_already_liked_items=False)
    assert sorted(with_own) == list(range(30))
    assert (fitted.recommend(3, SEEN[3], N=30)[0] == -1).sum() == SEEN[3].nnz


def test_users_who_are_new_or_to_be_placed_again_are_placed_by_their_items(fitted):
    own = [2, 4, 6]
    row = sp.csr_matrix(([1.0] * 3, ([0] * 3, own)), shape=(1, 30))
    ours = [one.item for one in fitted.model.recommend_for(own, 5)]
    assert fitted.recommend(40, row, N=5)[0].tolist() == ours
    assert fitted.recommend(0, row, N=5, recalculate_user=True)[0].tolist() == ours
    kept = [item for item in fitted.recommend(0, SEEN[0], N=30, filter_already_liked_items=False)[0] if item not in own]
    assert fitted.recommend(0, row, N=5)[0].tolist() == kept[:5], "a known user stays where training put them"


def test_an_item_is_the_first_of_those_like_it(fitted):
    items, scores = fitted.similar_items([7, 9], N=3)
    assert items[:, 0].tolist() == [7, 9]
    assert items[:, 1:].ravel().tolist() == [one.similar for one in fitted.model.similar_items([7, 9], 2)]
    assert np.array_equal(fitted.similar_items(7, N=1)[0], [7])
    inner = fitted.item_factors @ fitted.item_factors[7]
    assert scores[0] == pytest.approx(inner[items[0]], abs=1e-5)
    assert fitted.user_factors.shape == (40, 8)


def test_implicits_evaluation_gives_our_figures(fitted):
    measure = pytest.importorskip("implicit.evaluation", reason="needs the extra compare")
    fold = spherec.splits.ratio(spherec.Interactions.from_matrix(SEEN), 0.3)
    model = CMLEstimator(**SMALL).fit(fold.train.matrix)
    theirs = measure.ranking_metrics_at_k(model, fold.train.matrix, fold.test.matrix, K=5, show_progress=False)
    ours = spherec.evaluate(model.model, fold.train, fold.test, k=5)
    assert {name: theirs[name] for name in ("ndcg", "map")} == pytest.approx(
        {name: ours[name] for name in ("ndcg", "map")}
    )


def test_parameters_are_read_set_and_searched():
    model_selection = pytest.importorskip("sklearn.model_selection")
    from sklearn.base import clone

    model = CMLEstimator(preset="fast", **SMALL, loss={"gamma": 0.5})
    assert clone(model).get_params() == model.get_params() == {"preset": "fast", **SMALL, "loss": {"gamma": 0.5}}
    assert model.set_params(dim=4).get_params()["dim"] == 4
    with pytest.raises(ArgumentError, match="dims"):
        model.set_params(dims=4)
    grid = {"dim": [2, 8], "sampler": [{"negatives": 2}]}
    found = model_selection.GridSearchCV(CMLEstimator(**SMALL), grid, cv=2).fit(SEEN)
    assert found.best_params_["dim"] in (2, 8)
    assert 0 < found.best_score_ < 1
    assert found.best_estimator_.model.artifact.config.sampler.negatives == 2
