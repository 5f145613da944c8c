"""From a model, or the lists of any other, to scores: who counts, what is listed, what never leaks; validation."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from spherec.data import splits
from spherec.data.interactions import Interactions
from spherec.distributed.crew import ProcessCrew
from spherec.distributed.group import ProcessGroup
from spherec.errors import ArgumentError, DataError
from spherec.evaluation import Validation, evaluate, evaluate_cold, validation_part
from spherec.geometry import DenseVectors
from spherec.ranking import ExactRanker, Ranking
from tests import oracles
from tests.sampling.checks import directions, interactions, random_rows
from tests.training.runs import Alike

OF_HITS = {
    "map": oracles.average_precision,
    "ndcg": oracles.ndcg,
    "recall": oracles.recall,
    "precision": oracles.precision,
    "hit_rate": oracles.hit_rate,
    "mrr": oracles.reciprocal_rank,
}
OF_POPULARITY = {"mmr": oracles.median_popularity, "popularity": oracles.mean_popularity}


def circle(*degrees):
    angles = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack((angles.cos(), angles.sin()), dim=1).float()


TRAIN = [[1, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 1], [0, 1, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]]  # popularity 1 2 0 1 0 1
TEST = [[0, 1, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]]
PLANTED = DenseVectors(circle(-5, 55, -5, 55), circle(0, 10, 20, 30, 40, 50))
"""User 0 is recommended 1 2 3 …, the first of them rightly; user 1 gets 4 2 1 0, the last rightly."""


class Listing:
    """A model of somebody else that holds its lists {user: items} ready, and remembers what it is asked for."""

    def __init__(self, lists):
        self.lists, self.asked = lists, []

    def top(self, users, k, *, without=None):
        self.asked.append((users.tolist(), k, without))
        items = np.array([(self.lists[user] + [-1] * k)[:k] for user in users.tolist()])
        return Ranking(items, np.zeros(items.shape, np.float32))


def given(users, ranking):
    """The lists of a ranking for these users."""
    return Listing(dict(zip(users.tolist(), ranking.items.tolist(), strict=True)))


def parts(seed=0, n_users=30, n_items=25):
    """Train and test rows, disjoint, some users without any in one of them."""
    whole, held = random_rows(n_users, n_items, 0.5, seed), random_rows(n_users, n_items, 0.4, seed + 1)
    held[[0, 9, -1]], held[4] = 0, whole[4]
    return whole * (1 - held), whole * held


def random_model(constraint, seed=0, n_users=30, n_items=25):
    lengths = torch.linspace(0.2, 1, n_items)[:, None] if constraint == "ball" else 1.0
    return DenseVectors(directions(n_users, 5, seed), directions(n_items, 5, seed + 7) * lengths, constraint)


def same(ones, others):
    """Whether two scores agree in every number and every user's values."""
    return ones.summary() == pytest.approx(others.summary(), nan_ok=True) and all(
        np.array_equal(ones.per_user[name], others.per_user[name], equal_nan=True)
        for name in (*OF_HITS, *OF_POPULARITY)
    )


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("k", [1, 4, 25, 40])
@pytest.mark.parametrize("seed", range(2))
def test_scores_are_the_oracles(seed, k, constraint):
    train, test = parts(seed)
    model = random_model(constraint, seed)
    user_table, item_table = (rows.double().tolist() for rows in (model.user_table, model.item_table))
    popularity, users, lists = train.sum(0).tolist(), np.flatnonzero(test.any(1)).tolist(), []
    for user in users:
        own = set(np.flatnonzero(train[user]).tolist())
        lists.append([item for item, _ in oracles.nearest(user_table[user], item_table, own, k)])
    wanted = [set(np.flatnonzero(test[user]).tolist()) for user in users]
    expected = {
        name: [float(oracle(ranked, held, k)) for ranked, held in zip(lists, wanted, strict=True)]
        for name, oracle in OF_HITS.items()
    } | {name: [float(oracle(ranked, popularity)) for ranked in lists] for name, oracle in OF_POPULARITY.items()}
    scores = evaluate(model, interactions(train), interactions(test), k=k)
    assert (scores.k, scores.users_without) == (k, 30 - len(users))
    assert scores.per_user.users.tolist() == users
    for name, values in expected.items():
        assert getattr(scores.per_user, name).tolist() == pytest.approx(values, abs=1e-12)
        assert getattr(scores, name) == pytest.approx(sum(values) / len(users))
    assert scores.coverage == pytest.approx(float(oracles.coverage(lists, 25)))
    assert scores.gini == pytest.approx(float(oracles.gini(lists, 25)))


def test_a_foreign_model_is_asked_once_for_the_users_who_count():
    train, test = interactions(TRAIN), interactions(TEST)
    foreign = Listing({0: [1, 2, 3], 1: [4, 2, 1]})
    assert same(evaluate(foreign, train, test, k=3), evaluate(PLANTED, train, test, k=3))
    assert foreign.asked == [([0, 1], 3, train)]


def shuffled_test(train, test, seed):
    """As many held-out items for each user, but others: any that are not in training."""
    random = np.random.default_rng(seed)
    rows = np.zeros_like(test)
    for row, own, held in zip(rows, train, test, strict=True):
        row[random.choice(np.flatnonzero(own == 0), held.sum(), replace=False)] = 1
    return rows


@pytest.mark.parametrize("seed", range(3))
def test_what_is_held_out_changes_the_metrics_but_no_list(seed):
    train, test = parts(seed)
    model = random_model("sphere", seed)
    scores, others = (
        evaluate(model, interactions(train), interactions(rows), k=5)
        for rows in (test, shuffled_test(train, test, seed))
    )
    for name in OF_POPULARITY:
        assert np.array_equal(scores.per_user[name], others.per_user[name], equal_nan=True)
    assert (scores.coverage, scores.gini) == (others.coverage, others.gini)
    assert not np.array_equal(scores.per_user.ndcg, others.per_user.ndcg)


# --- Some items alone ------------------------------------------------------------------------------------------------


def test_only_restricts_the_lists():
    held = [[0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0]]
    train, test = interactions(TRAIN), interactions(held)
    only = np.array([2, 4])  # both users stand at -5 degrees, so that item 2 comes before 4
    assert evaluate(PLANTED, train, test, k=1, only=only).recall == 0
    assert evaluate(PLANTED, train, test, k=1, only=only[1:]).recall == 1
    assert evaluate(PLANTED, train, test, k=4).recall == pytest.approx(1)


def test_cold_warm_and_all_are_ranked_among_their_own_items():
    whole = interactions(random_rows(30, 25, 0.5, 3))
    fold = splits.cold_items(whole, 0.3, seed=1)
    model = random_model("sphere")
    scores = evaluate_cold(model, fold, k=5, metrics=["ndcg", "recall"])
    listed = ExactRanker(model)
    for part, test, only in (
        (scores.cold, fold.cold, fold.cold_items),
        (scores.warm, fold.warm, fold.warm_items),
        (scores.all, fold.test, np.arange(25)),
    ):
        users = np.flatnonzero(test.items_per_user)
        ranking = listed.top(users, 5, without=fold.train, only=only)
        expected = evaluate(given(users, ranking), fold.train, test, k=5, metrics=["ndcg", "recall"])
        assert part.summary() == pytest.approx(expected.summary())
        assert np.isin(ranking.items[ranking.items >= 0], only).all()


# --- The dial --------------------------------------------------------------------------------------------------------


def with_reach(model):
    return replace(model, item_reach=directions(model.n_items, 2, 5), mainstream=0.3)


@pytest.mark.parametrize("place", [None, -0.5, 0.0, 0.3, 1.25])
def test_scores_are_of_the_lists_at_this_place_of_the_dial(place):
    train, test = map(interactions, parts())
    model = with_reach(random_model("sphere"))
    users = np.flatnonzero(test.items_per_user)
    lists = ExactRanker(model).top(users, 7, without=train, mainstream=0.3 if place is None else place)
    expected = evaluate(given(users, lists), train, test, k=7)
    for one in (model, ExactRanker(model)):
        assert evaluate(one, train, test, k=7, mainstream=place).summary() == expected.summary()


class Group(ProcessGroup):
    """One of several processes that are threads here: each gives its rows, and gets those of all."""

    def __init__(self, rank, given, meeting):
        super().__init__(torch.device("cpu"), rank, len(given))
        self._given, self._meeting = given, meeting

    def collect(self, rows, *, everywhere):
        assert everywhere
        self._given[self.rank] = rows
        self._meeting.wait(timeout=10)
        everything = list(self._given)
        self._meeting.wait(timeout=10)
        return everything


@pytest.mark.parametrize("n", [1, 3])
def test_processes_rank_a_share_of_the_users_each_and_have_the_scores_of_all(n):
    train, test = map(interactions, parts())
    vectors = DenseVectors(directions(30, 4, 1), directions(25, 4, 2))
    alone = evaluate(vectors, train, test, k=5)
    lists = ExactRanker(vectors).top(np.arange(30), 5, without=train).items.tolist()
    listings = [Listing(dict(enumerate(lists))) for _ in range(n)]
    given, meeting = [None] * n, threading.Barrier(n)

    def work(rank):
        return evaluate(listings[rank], train, test, k=5, crew=ProcessCrew(Group(rank, given, meeting)))

    with ThreadPoolExecutor(n) as pool:
        together = list(pool.map(work, range(n)))
    for scores in together:
        assert scores.summary() == alone.summary()
        assert np.array_equal(scores.per_user.ndcg, alone.per_user.ndcg)
    asked = [user for listing in listings for user in listing.asked[0][0]]
    assert sorted(asked) == alone.per_user.users.tolist()


def test_more_processes_than_users_are_refused():
    with pytest.raises(ArgumentError, match="5 processes cannot share 2 users with test pairs; start fewer"):
        evaluate(PLANTED, interactions(TRAIN), interactions(TEST), k=2, crew=ProcessCrew(Group(4, [None] * 5, None)))


# --- What cannot be asked --------------------------------------------------------------------------------------------


PARTS = tuple(interactions(rows) for rows in (TRAIN, TEST))
OTHER = Interactions.from_matrix(np.array(TEST), item_ids=list("fedcba"))
TWICE, HIGH = (Listing({0: [1, item, 3], 1: [4, 2, 1]}) for item in (1, 6))
WRONG = {
    "pairs in both parts": (PLANTED, PARTS[0], interactions(np.array(TRAIN) | TEST), {}, DataError, "5 pairs"),
    "no data": (PLANTED, TRAIN, TEST, {}, ArgumentError, "train"),
    "other items": (PLANTED, PARTS[0], OTHER, {}, ArgumentError, "share"),
    "nothing to test on": (PLANTED, PARTS[0], interactions(np.zeros((4, 6))), {}, DataError, "no pairs"),
    "lists of nothing": (PLANTED, *PARTS, {"k": 0}, ArgumentError, "got 0"),
    "no model": (3, *PARTS, {}, ArgumentError, "got 3"),
    "vectors of others": (random_model("sphere"), *PARTS, {}, ArgumentError, "30, 25"),
    "no ranking": (SimpleNamespace(top=lambda users, k, without: [[0]] * len(users)), *PARTS, {}, DataError, "Ranking"),
    "an item twice": (TWICE, *PARTS, {"k": 3}, DataError, "twice"),
    "no such item": (HIGH, *PARTS, {"k": 3}, DataError, "below 6, got 6"),
    "test pairs beyond only": (PLANTED, *PARTS, {"only": [4]}, ArgumentError, "2 pairs"),
    "only nothing": (PLANTED, *PARTS, {"only": []}, ArgumentError, "3 pairs"),
    "a lister without only": (Listing({}), *PARTS, {"only": np.arange(6)}, ArgumentError, "only"),
    "a lister without dial": (Listing({}), *PARTS, {"mainstream": 0.5}, ArgumentError, "mainstream"),
    "no reach": (PLANTED, *PARTS, {"mainstream": 0.5}, ArgumentError, "mainstream"),
    "no dial": (with_reach(PLANTED), *PARTS, {"mainstream": "high"}, ArgumentError, "'high'"),
}


@pytest.mark.parametrize(("model", "train", "test", "options", "error", "got"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_scored_is_refused(model, train, test, options, error, got):
    with pytest.raises(error, match=got):
        evaluate(model, train, test, **options)


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("k", [1, 5, 30, 50])
@pytest.mark.parametrize("seed", range(3))
def test_validation_is_the_mean_ndcg_of_users_with_held_out_items(seed, k, constraint):
    train, held_out = map(interactions, parts(seed))
    model = random_model(constraint, seed)
    value = Validation(train, held_out, k=k)(model)
    assert type(value) is float
    assert value == pytest.approx(evaluate(model, train, held_out, k=k).ndcg)


@pytest.mark.parametrize(("rows", "share"), [([[1, 0], [0, 1]], 0.9), ([[1, 1], [0, 1]], 1e-9)])
def test_a_share_that_holds_nothing_out_is_refused(rows, share):
    with pytest.raises(DataError, match=f"{share:g}"):
        validation_part(interactions(rows), share, seed=0)


def test_processes_share_the_users_and_a_process_may_have_none():
    rows = np.eye(2, 5, dtype=int)
    vectors = DenseVectors(directions(2, 4, 1), directions(5, 4, 2))
    given = interactions(0 * rows), interactions(rows)
    figures = [Validation(*given, k=3, crew=ProcessCrew(Alike(rank, 3)))(vectors) for rank in range(3)]
    assert np.isnan(figures).sum() == 1
    assert np.nanmean(figures) == pytest.approx(Validation(*given, k=3)(vectors))
