"""Baselines list what their own libraries list, and nothing that a user has."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

from spherec.data import splits
from spherec.errors import ArgumentError, MissingPackageError
from spherec.lab.registry import BASELINES
from tests.lab.tiny import CONTEXT
from tests.sampling.checks import ROWS, interactions, random_rows

FOLD = splits.k_fold(interactions(random_rows(40, 25, 0.3, seed=3)), 4)[0]
USERS = np.arange(40)
SETTINGS = {
    "ials": {"dim": 8, "catalogue_weight": 30.0, "regularization": 0.01, "sweeps": 3},
    "bpr": {"factors": 8, "learning_rate": 0.05, "regularization": 0.01, "iterations": 20},
    "knn": {"weighting": "tfidf", "neighbours": 6},
    "ease": {"regularization": 10.0},
    "edlae": {"regularization": 10.0, "dropout": 0.3},
    "gf-cf": {"alpha": 0.3, "vectors": 4},
    "chebycf": {"order": 8, "flatness": 10.0, "vectors": 4, "alpha": 0.2, "beta": 0.4},
    "most-popular": {},
}


def fitted(name, data=FOLD.train, **settings):
    return BASELINES[name].fit(data, SETTINGS[name] | settings, CONTEXT)


@pytest.mark.parametrize("name", BASELINES)
def test_no_list_holds_what_the_user_has(name):
    data = interactions(ROWS)
    ranking = fitted(name, data).top(np.arange(data.n_users), 10, without=data)
    for user, listed in enumerate(ranking.items):
        real = listed[listed >= 0].tolist()
        assert len(set(real)) == len(real)
        assert not set(real) & set(data.items_of(user).tolist())
        assert np.all(listed[len(real) :] == -1)  # nothing after the end
    assert np.array_equal(np.isneginf(ranking.scores), ranking.items < 0)


@pytest.mark.parametrize("name", BASELINES)
def test_the_default_settings_are_those_it_can_be_fit_with(name):
    baseline = BASELINES[name]
    baseline.fit(FOLD.train, {setting: values[0] for setting, values in baseline.search_space.items()}, CONTEXT)
    assert all(len(set(values)) == len(values) for values in baseline.search_space.values())


def test_bpr_is_that_of_the_library():
    from implicit.bpr import BayesianPersonalizedRanking

    matrix = sp.csr_matrix(FOLD.train.matrix)  # users x items
    direct = BayesianPersonalizedRanking(**SETTINGS["bpr"], num_threads=1, use_gpu=False, random_state=0)
    direct.fit(matrix, show_progress=False)
    assert direct.user_factors.shape[0] == 40
    ids, scores = direct.recommend(USERS, matrix[USERS], N=5)
    ranking = fitted("bpr").top(USERS, 5, without=FOLD.train)
    assert np.array_equal(ranking.items, ids)
    np.testing.assert_allclose(ranking.scores, scores, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:Method expects CSR")
@pytest.mark.parametrize("weighting", ["cosine", "tfidf", "bm25"])
def test_neighbours_are_those_of_the_library(weighting):
    from implicit import nearest_neighbours as library

    kinds = {"cosine": "CosineRecommender", "tfidf": "TFIDFRecommender", "bm25": "BM25Recommender"}
    direct = getattr(library, kinds[weighting])(K=6, num_threads=1)
    direct.fit(FOLD.train.matrix, show_progress=False)
    ranking = fitted("knn", weighting=weighting).top(USERS, 25, without=FOLD.train)
    for user in USERS:
        ids, scores = direct.recommend(user, FOLD.train.matrix[user], N=25)
        kept = ~np.isin(ids, FOLD.train.items_of(user))
        real = ranking.items[user] >= 0
        assert ranking.items[user][real].tolist() == ids[kept].tolist()
        np.testing.assert_allclose(ranking.scores[user][real], scores[kept], rtol=1e-5)


def test_neighbours_leave_out_only_what_they_know():
    with pytest.raises(ArgumentError, match="only the interactions that they were fit on"):
        fitted("knn").top(USERS, 5, without=FOLD.test)


def test_the_most_popular_come_by_count_and_then_by_index():
    data = interactions(ROWS)  # popularities 6, 5, 5, 5, 4, 1
    ranker = fitted("most-popular", data)
    assert ranker.top(np.array([4, 0]), 6, without=data).items.tolist() == [[0, 1, 2, 3, 4, 5], [1, 2, 4, 5, -1, -1]]
    assert ranker.top(np.array([4]), 2).items.tolist() == [[0, 1]]


@pytest.mark.parametrize("name", ["bpr", "knn"])
def test_without_the_library_one_sentence_says_what_to_install(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "implicit", None)
    sentence = rf"^{name} needs implicit; .*pip install implicit, or name other models$"
    with pytest.raises(MissingPackageError, match=sentence):
        fitted(name)
    fitted("ease").top(USERS, 5)  # others do without
