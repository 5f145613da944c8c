"""Metrics of ranked lists against plain loops."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.errors import ArgumentError
from spherec.evaluation import METRICS, FormulaMetric, evaluate, metrics
from spherec.evaluation.metrics import RankedLists, find_metric, find_metrics, label_at, mark_hits, ndcg
from spherec.ranking import Ranking
from tests import oracles
from tests.sampling.checks import interactions, sparse

N_ITEMS = 8
POPULARITIES = st.lists(st.integers(0, 3), min_size=N_ITEMS, max_size=N_ITEMS)

OF_HITS = ("average_precision", "ndcg", "recall", "precision", "hit_rate", "reciprocal_rank")
OF_POPULARITY = ("median_popularity", "mean_popularity")


def of_hits(name, hit, held_out):
    """A metric by name of hits (B, K) and the counts (B,) of held-out items."""
    hit, held_out = np.asarray(hit, bool), np.asarray(held_out)
    return getattr(metrics, name)(RankedLists(np.arange(len(hit)), np.zeros(hit.shape, int), hit, held_out, np.ones(1)))


def of_items(name, items, popularity):
    """A metric by name of lists (B, K) of items with this popularity (I,)."""
    items = np.array(items)
    hit, held_out = np.zeros(items.shape, bool), np.ones(len(items), int)
    return getattr(metrics, name)(RankedLists(np.arange(len(items)), items, hit, held_out, np.array(popularity)))


@st.composite
def lists(draw):
    """What was held out of each user, users with lists, and their lists: distinct items, then -1."""
    rows = st.lists(st.booleans(), min_size=N_ITEMS, max_size=N_ITEMS)
    held_out = np.array(draw(st.lists(rows, min_size=1, max_size=5)), dtype=int)
    held_out[0, draw(st.integers(0, N_ITEMS - 1))] = 1
    users = draw(st.lists(st.sampled_from(np.flatnonzero(held_out.any(1)).tolist()), min_size=1, max_size=6))
    k = draw(st.integers(1, N_ITEMS + 2))
    ranked = []
    for _ in users:
        items = draw(st.permutations(range(N_ITEMS)))[: draw(st.integers(0, min(k, N_ITEMS)))]
        ranked.append(items + [-1] * (k - len(items)))
    return held_out, np.array(users), np.array(ranked)


def test_many_users_times_many_items_do_not_overflow():
    n_users, n_items = 70_000, 70_000  # their product is beyond 32 bits
    held_out = sparse(np.arange(n_users + 1), np.arange(n_users), n_items)
    users = np.array([0, 65_000, 69_999])
    assert mark_hits(np.array([[0, 1], [65_000, 3], [0, 69_999]]), users, held_out).tolist() == [
        [True, False],
        [True, False],
        [False, True],
    ]


@pytest.mark.parametrize("name", OF_HITS)
@given(lists())
def test_metrics_of_hits_are_the_oracles(name, case):
    held_out, users, ranked = case
    hit = mark_hits(ranked, users, interactions(held_out))
    assert hit.tolist() == ((ranked >= 0) & (held_out[users[:, None], ranked] > 0)).tolist()
    values = of_hits(name, hit, held_out.sum(1)[users])
    wanted = [set(np.flatnonzero(held_out[user]).tolist()) for user in users]
    expected = [
        float(getattr(oracles, name)(row, held, ranked.shape[1]))
        for row, held in zip(ranked.tolist(), wanted, strict=True)
    ]
    assert values.dtype == np.float64
    assert values.tolist() == pytest.approx(expected, abs=1e-12)
    assert (values >= 0).all()
    assert (values <= 1 + 1e-12).all()


@pytest.mark.parametrize("name", OF_POPULARITY)
@given(lists(), POPULARITIES)
def test_metrics_of_popularity_are_the_oracles(name, case, popularity):
    ranked = case[2].tolist()
    expected = [float(getattr(oracles, name)(row, popularity)) for row in ranked]
    assert of_items(name, ranked, popularity).tolist() == pytest.approx(expected, abs=1e-12, nan_ok=True)


@given(lists(), st.integers(0, 2**32 - 1))
def test_novelty_and_distance_are_the_oracles(case, seed):
    train = interactions(np.random.default_rng(seed).random((9, N_ITEMS)) < 0.4)
    users, items = np.arange(len(case[2])), case[2]
    owners = [set(np.flatnonzero(train.matrix.toarray()[:, item]).tolist()) for item in range(N_ITEMS)]
    ranked = RankedLists(users, items, items < 0, users + 1, train.users_per_item, train)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "_AT_ONCE", 9)  # a list or two at once
        distances = metrics.intra_list_distance(ranked)
    expected = [oracles.intra_list_distance(row, owners) for row in items.tolist()]
    assert distances.tolist() == pytest.approx(expected, abs=1e-9, nan_ok=True)
    expected = [oracles.novelty(row, owners, 9) for row in items.tolist()]
    assert metrics.novelty(ranked).tolist() == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", ["coverage", "gini"])
@given(lists(), st.integers(0, 3))
def test_metrics_of_the_catalogue_are_the_oracles(name, case, more):
    ranked, n_items = case[2], N_ITEMS + more
    value = of_items(name, ranked, np.zeros(n_items, int))
    assert type(value) is float
    assert value == pytest.approx(float(getattr(oracles, name)(ranked.tolist(), n_items)), abs=1e-12)
    assert 0 <= value <= 1


@st.composite
def hit_lists(draw):
    """Hits (B, K), and as many held-out items as there are hits or more, at least 1."""
    k = draw(st.integers(1, 9))
    hit = np.array(draw(st.lists(st.lists(st.booleans(), min_size=k, max_size=k), min_size=1, max_size=6)))
    more = draw(st.lists(st.integers(0, 12), min_size=len(hit), max_size=len(hit)))
    return hit, np.maximum(hit.sum(1) + more, 1)


@given(lists(), POPULARITIES, st.randoms(use_true_random=False))
def test_popularity_and_catalogue_know_no_order(case, popularity, random):
    ranked = case[2]
    order = random.sample(range(len(ranked)), len(ranked))
    shuffled = np.array([random.sample(row, len(row)) for row in ranked[order].tolist()])
    for name in OF_POPULARITY:
        before, after = of_items(name, ranked, popularity), of_items(name, shuffled, popularity)
        assert after == pytest.approx(before[order], nan_ok=True)
    for name in ("coverage", "gini"):
        assert of_items(name, shuffled, popularity) == of_items(name, ranked, popularity)


@given(hit_lists())
def test_a_miss_that_becomes_a_hit_never_costs(case):
    hit, held_out = case
    held_out = np.maximum(held_out, hit.sum(1) + 1)
    for user, place in zip(*np.nonzero(~hit), strict=True):
        improved = hit.copy()
        improved[user, place] = True
        for name in OF_HITS:
            before, after = of_hits(name, hit, held_out), of_hits(name, improved, held_out)
            assert after[user] >= before[user]
            assert after[user] > before[user] or name in ("hit_rate", "reciprocal_rank")
            assert np.array_equal(np.delete(after, user), np.delete(before, user))


@given(hit_lists())
def test_a_hit_that_moves_up_never_costs(case):
    hit, held_out = case
    for user, place in zip(*np.nonzero(hit[:, 1:] & ~hit[:, :-1]), strict=True):
        moved = hit.copy()
        moved[user, [place, place + 1]] = True, False
        for name in OF_HITS:
            before, after = of_hits(name, hit, held_out)[user], of_hits(name, moved, held_out)[user]
            assert after == before if name in ("recall", "precision", "hit_rate") else after >= before
            assert after > before or name not in ("average_precision", "ndcg")


# --- Metrics of the user's own ----------------------------------------------------------------------------------------

TRAIN, TEST = interactions([[1, 0, 0], [0, 1, 0]]), interactions([[0, 1, 1], [0, 0, 1]])


class Lister:
    """Lists items 1 and 2 for user 0, 0 and 2 for user 1."""

    def top(self, users, k, *, without=None):
        return Ranking(np.array([[1, 2], [0, 2]])[users], np.zeros((len(users), 2), np.float32))


def first_place(lists):
    """1 where the first item is a hit."""
    return lists.hits[:, 0].astype(float)


class Surprise:
    """Mean self-information of the listed items, in bits."""

    name, label, percent = "surprise", "Surprise", False

    def __call__(self, lists):
        shares = np.maximum(lists.popularity[lists.items], 1) / len(lists.users)
        return -np.log2(shares).mean(1)


def total_hits(lists):
    return float(lists.hits.sum())


def of_hit_users(lists):
    return np.where(lists.hits[:, 0], 1.0, np.nan)


def test_metrics_of_the_users_own():
    scores = evaluate(
        Lister(), TRAIN, TEST, k=2, metrics=["map", "mmr", first_place, Surprise(), total_hits, of_hit_users]
    )
    assert list(scores.summary()) == ["map", "mmr", "first_place", "surprise", "total_hits", "of_hit_users"]
    assert scores["first_place"] == scores.first_place == 0.5
    assert scores.per_user.first_place.tolist() == scores.per_user["first_place"].tolist() == [1, 0]
    assert scores.surprise == pytest.approx(1)
    assert (scores.total_hits, "total_hits" in scores.per_user.values) == (3.0, False)
    assert scores.of_hit_users == 1, "users with NaN do not count"
    assert {"map", "first_place"} <= set(dir(scores))
    assert pickle.loads(pickle.dumps(scores)).summary() == pytest.approx(scores.summary())
    with pytest.raises(AttributeError, match="'ndcg' here; there are map, mmr"):
        _ = scores.ndcg
    with pytest.raises(ArgumentError, match="'ndcg'"):
        _ = scores["ndcg"]
    assert not hasattr(scores.per_user, "recall")


def test_built_in_metrics_are_found_by_their_names_and_say_all_about_themselves():
    assert [find_metric(metric.name) for metric in METRICS] == list(METRICS) == list(find_metrics(None))
    assert find_metrics("ndcg") == (ndcg,)
    assert all(metric.label and isinstance(metric.percent, bool) for metric in METRICS)
    assert label_at(metrics.median_popularity, 50, explain=True) == "MMR@50, median popularity of a list"
    assert label_at(Surprise(), 2) == "Surprise@2"


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (["ndgc"], "'ndcg'"),
        ([], "none"),
        (["ndcg", ndcg], "ndcg, ndcg"),
        ([3], "3"),
        ([lambda lists: 1.0], "lambda"),
        ([Surprise], "Surprise"),
        ([FormulaMetric("ndcg", "Mine", total_hits)], "'ndcg'"),
    ],
)
def test_what_is_no_metric_is_refused(given, got):
    with pytest.raises(ArgumentError, match=got):
        find_metrics(given)


@pytest.mark.parametrize(
    ("values", "got"),
    [(lambda lists: lists.hits, r"\(2, 2\)"), (lambda lists: np.ones(3), r"\(3,\)"), (lambda lists: "good", "U4")],
)
def test_a_metric_of_a_wrong_shape_is_refused(values, got):
    with pytest.raises(ArgumentError, match=rf"'mine' returned .*{got}"):
        evaluate(Lister(), TRAIN, TEST, k=2, metrics=[FormulaMetric("mine", "Mine", values)])
