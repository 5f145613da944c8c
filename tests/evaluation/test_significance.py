"""The paired test: that of scipy, with an answer where scipy has none, and p-values that keep their promise."""

import numpy as np
import pytest
from scipy.stats import kstest, ttest_rel

from spherec.errors import ArgumentError
from spherec.evaluation import PerUser, Scores, difference
from spherec.evaluation.metrics import ndcg


def scores(values, *, users=None):
    """Scores with these values of NDCG, and others of recall."""
    users = np.arange(len(values)) if users is None else np.array(users)
    values = np.array(values, dtype=np.float64)
    return Scores(k=10, per_user=PerUser(users, {"recall": 1 - values, "ndcg": values}), values={}, users_without=0)


def made_up(seed, n=40, lead=0.05):
    random = np.random.default_rng(seed)
    users = random.random(n)  # how easy each is, for either model
    return users + lead + 0.1 * random.normal(size=n), users + 0.1 * random.normal(size=n)


@pytest.mark.parametrize("metric", ["ndcg", ndcg])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_paired_test_of_scipy(metric, seed):
    first, second = made_up(seed)
    result = difference(scores(first), scores(second), metric)
    assert result.p_value == pytest.approx(ttest_rel(first, second).pvalue)
    assert result.mean == pytest.approx(first.mean() - second.mean())


@pytest.mark.parametrize("values", [[0.3, 0.7, 0.1], [0.0, 0.0]])
def test_a_model_does_not_differ_from_itself(values):
    result = difference(scores(values), scores(values))
    assert (result.mean, result.p_value, result.better, result.worse) == (0, 1, 0, 0)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_same_lead_for_every_user_is_no_luck(sign):
    first, second = scores(sign * np.array([0.5, 0.75, 1.0])), scores(sign * np.array([0.25, 0.5, 0.75]))
    result = difference(first, second)
    assert result.mean == sign * 0.25
    assert 0 <= result.p_value < 1e-9
    assert (result.better, result.worse) == ((3, 0) if sign > 0 else (0, 3))


def test_p_values_are_uniform_where_models_do_not_differ():
    random = np.random.default_rng(0)
    p_values = []
    for _ in range(1000):
        users = random.random(50)
        first, second = (np.clip(users + 0.2 * random.normal(size=50), 0, 1) for _ in range(2))
        p_values.append(difference(scores(first), scores(second)).p_value)
    assert 0.03 < np.mean(np.array(p_values) < 0.05) < 0.07
    assert kstest(p_values, "uniform").pvalue > 1e-3


OTHERS = {
    "other users": ([0.1, 0.2, 0.3], [0.1, 0.2, 0.4], [0, 1, 3], "ndcg", "same users"),
    "users in another order": ([0.1, 0.2, 0.3], [0.1, 0.2, 0.4], [0, 2, 1], "ndcg", "same users"),
    "more users": ([0.1, 0.2, 0.3], [0.1, 0.2], None, "ndcg", "same users"),
    "one user": ([0.5], [0.4], None, "ndcg", "got 1"),
    "no values of users": ([0.1, 0.2], [0.1, 0.3], None, "coverage", "'coverage'"),
}


@pytest.mark.parametrize(("first", "second", "users", "metric", "got"), OTHERS.values(), ids=OTHERS)
def test_what_cannot_be_compared_is_refused(first, second, users, metric, got):
    with pytest.raises(ArgumentError, match=got):
        difference(scores(first), scores(second, users=users), metric)
