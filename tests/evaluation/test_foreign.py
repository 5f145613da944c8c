"""Lists from elsewhere, and models on data with other indices: both are scored as our own are."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spherec.data.events import Events
from spherec.data.interactions import Interactions
from spherec.errors import DataError
from spherec.evaluation import evaluate
from spherec.evaluation.foreign import GivenLists, align
from spherec.geometry import DenseVectors
from spherec.ranking import ExactRanker
from tests import oracles
from tests.sampling.checks import directions, random_rows

USERS, ITEMS = ["ann", "bob", "cem"], ["a", "b", "c", "d"]


def interactions(rows, users=USERS, items=ITEMS):
    return Interactions.from_matrix(np.array(rows), user_ids=users, item_ids=items)


TRAIN = interactions([[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]])
TEST = interactions([[0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]])


def lists_of(*rows, data=TRAIN):
    users, items, ranks = zip(*rows, strict=True)
    return GivenLists.from_events(Events.from_columns(users, items, values=ranks), data)


# --- Lists -----------------------------------------------------------------------------------------------------------


@given(st.data())
def test_lists_are_scored_as_the_oracle_does(data):
    items = st.lists(st.sampled_from([*ITEMS, "new", "newer"]), unique=True, max_size=6)
    wanted = data.draw(st.fixed_dictionaries(dict.fromkeys([*USERS, "zoe"], items)))
    rows = [(user, item, rank) for user, items in wanted.items() for rank, item in enumerate(items, start=1)]
    if not rows:
        return
    scores = evaluate(lists_of(*data.draw(st.permutations(rows))), TRAIN, TEST, k=3)
    for user, held_out, ndcg, ap in (
        (USERS[0], {"b", "c"}, scores.per_user.ndcg[0], scores.per_user.map[0]),
        (USERS[1], {"d"}, scores.per_user.ndcg[1], scores.per_user.map[1]),
    ):
        assert ndcg == pytest.approx(oracles.ndcg(wanted[user], held_out, 3))
        assert ap == pytest.approx(float(oracles.average_precision(wanted[user], held_out, 3)))


# --- Models on data with other indices -------------------------------------------------------------------------------

N_USERS, N_ITEMS = 10, 14
REACH = directions(N_ITEMS, 2, 3)
OWN = interactions(random_rows(N_USERS, N_ITEMS, 0.3), [f"u{n}" for n in range(N_USERS)], range(N_ITEMS))


@pytest.fixture(params=["sphere", "ball", "reach"])
def model(request):
    if request.param == "reach":
        return DenseVectors(directions(N_USERS, 4, 1), directions(N_ITEMS, 4, 2), "sphere", REACH, 0.7)
    lengths = torch.linspace(0.2, 1, N_ITEMS)[:, None] if request.param == "ball" else 1
    return DenseVectors(directions(N_USERS, 4, 1), directions(N_ITEMS, 4, 2) * lengths, request.param)


def shuffled(user_order, item_order):
    """The same pairs under the same ids, with other indices."""
    matrix = OWN.matrix.toarray()[user_order][:, item_order]
    return interactions(
        matrix, [OWN.user_ids[user] for user in user_order], [OWN.item_ids[item] for item in item_order]
    )


def by_id(ranker, data, k=6, mainstream=None):
    """{user id: [item ids]}."""
    items = ranker.top(np.arange(data.n_users), k, without=data, mainstream=mainstream).items
    return {
        user: [data.item_ids[item] for item in row if item >= 0]
        for user, row in zip(data.user_ids, items.tolist(), strict=True)
    }


@pytest.mark.parametrize("seed", range(3))
def test_ids_in_another_order_give_the_same_lists(model, seed):
    random = np.random.default_rng(seed)
    data = shuffled(random.permutation(N_USERS).tolist(), random.permutation(N_ITEMS).tolist())
    for place in (None, -0.5, 1.25):
        expected = by_id(ExactRanker(model), OWN, mainstream=place)
        assert by_id(align(model, OWN, data), data, mainstream=place) == expected


def test_fewer_users_and_items_give_the_lists_without_them(model):
    users, items = [7, 2, 4], [13, 1, 5, 6, 0, 9, 8, 2]
    data = shuffled(users, items)
    everything = by_id(ExactRanker(model), OWN, k=N_ITEMS)
    found = by_id(align(model, OWN, data), data, k=N_ITEMS)
    assert found == {f"u{user}": [item for item in everything[f"u{user}"] if item in items] for user in users}


def test_items_that_the_model_does_not_know_are_never_listed(model):
    matrix = np.zeros((N_USERS, 6), int)
    data = interactions(matrix, OWN.user_ids, [101, 3, 102, 1, 4, 103])
    lists = align(model, OWN, data).top(np.arange(N_USERS), 6).items
    assert [sorted(row) for row in lists.tolist()] == [[-1, -1, -1, 1, 3, 4]] * N_USERS
    assert (lists[:, 3:] == -1).all()


def test_users_that_the_model_does_not_know_are_an_error(model):
    data = interactions(np.zeros((6, 1), int), ["u1", "zoe", "yan", "u2", "xu", "wim"], [3])
    with pytest.raises(DataError, match=r"4 of the users, 'zoe', 'yan', 'xu' among them; evaluate it on the data"):
        align(model, OWN, data)
