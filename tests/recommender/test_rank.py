"""Queries in index space: every kind together, each list that of its query alone, and that of plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.errors import ArgumentError
from spherec.recommender import Query
from tests.oracles import best_with_reach
from tests.recommender.models import ITEMS, USERS, model_of, small

DATA = small()
MODELS = {"sphere": model_of(DATA, mainstream=0.4), "ball": model_of(DATA, constraint="ball")}
SOME = st.none() | st.lists(st.integers(0, len(ITEMS) - 1), unique=True).map(lambda items: np.array(items, dtype=int))


@st.composite
def queries(draw):
    """A query of any kind."""
    kind = draw(st.sampled_from(["user", "basket", "vector", "item"]))
    place = {
        "user": lambda: draw(st.integers(0, len(USERS) - 1)),
        "basket": lambda: np.array(draw(st.lists(st.integers(0, len(ITEMS) - 1), min_size=1)), dtype=int),
        "vector": lambda: np.array(draw(st.lists(st.integers(-3, 3), min_size=6, max_size=6))) / 2,
        "item": lambda: draw(st.integers(0, len(ITEMS) - 1)),
    }[kind]()
    dial = draw(st.none() | st.integers(-8, 8).map(lambda n: n / 4))
    return Query(**{kind: place}, k=draw(st.integers(1, 40)), exclude_seen=draw(st.booleans()), only=draw(SOME),
                 exclude=draw(SOME), mainstream=dial)  # fmt: skip


def expected(model, query):
    """The list of a query by plain loops: items and scores."""
    vectors, own = model.vectors, []
    if query.user is not None:
        place, own = vectors.user_table[query.user].numpy(), model.data.items_of(query.user)
    elif query.basket is not None:
        place, own = model.place(np.unique(query.basket)), query.basket
    elif query.vector is not None:
        place = query.vector
    else:
        place, own = vectors.item_table[query.item].numpy(), [query.item]
    allowed = set(range(len(ITEMS)) if query.only is None else query.only.tolist())
    allowed -= set(() if query.exclude is None else query.exclude.tolist())
    allowed -= set(own) if query.exclude_seen or query.item is not None else set()
    dial = 0.0 if query.item is not None else 0.4 if query.mainstream is None else query.mainstream
    ball, reach = vectors.constraint == "ball", vectors.item_reach
    tables = vectors.item_table.tolist(), [[0.0]] * len(ITEMS) if reach is None else reach.tolist()
    found = best_with_reach(place.tolist(), *tables, dial, sorted(allowed), query.k, ball=ball)
    more = 1 - (place.astype(float) ** 2).sum() / 2 if ball else 0.0
    return [item for item, _ in found], [score + more for _, score in found]


@given(asked=st.lists(queries(), max_size=6), constraint=st.sampled_from(list(MODELS)))
def test_every_list_is_the_one_that_its_query_gets_alone(asked, constraint):
    model = MODELS[constraint]
    asked = [query if constraint == "sphere" else query._replace(mainstream=None) for query in asked]
    together = model.rank(asked)
    for row, query in enumerate(asked):
        alone, (items, scores) = model.rank([query]), expected(model, query)
        wide = alone.items.shape[1]
        assert together.items[row, :wide].tolist() == alone.items[0].tolist()
        assert together.scores[row, :wide].tobytes() == alone.scores[0].tobytes()
        assert (together.items[row, wide:] == -1).all()
        found = alone.items[0][alone.items[0] >= 0]
        assert len(found) == len(items)
        assert alone.scores[0][: len(items)] == pytest.approx(scores, abs=1e-5)
        at = dict(zip(items, scores, strict=True))
        assert [at.get(item, np.inf) for item in found.tolist()] == pytest.approx(scores, abs=1e-5), "but for near ties"


def test_through_an_index_queries_get_the_same_together_and_alone():
    usearch = pytest.importorskip("spherec.ranking.usearch")
    model = model_of(DATA, mainstream=0.4).build_index(config=usearch.Hnsw(exact_beyond=1.0))
    shared = np.array([1, 5, 7])
    asked = [
        Query(user=n % 12, k=1 + n % 4, exclude=shared if n % 3 else np.array([n]), mainstream=n / 9) for n in range(20)
    ]
    together = model.rank(asked)
    for row, query in enumerate(asked):
        alone = model.rank([query])
        assert together.items[row, : query.k].tolist() == alone.items[0].tolist()
        assert together.scores[row, : query.k].tobytes() == alone.scores[0].tobytes()


def test_no_queries_have_no_lists():
    assert MODELS["sphere"].rank([]).items.shape == (0, 1)


WRONG = {
    "k": {"user": 1, "k": 0},
    "a k that is no number": {"user": 1, "k": "3"},
    "dial": {"user": 1, "mainstream": float("nan")},
    "user": {"user": 12},
    "item": {"item": 30},
    "basket": {"basket": np.array([-1])},
    "empty basket": {"basket": np.zeros(0, dtype=int)},
    "vector": {"vector": np.zeros(5)},
    "huge vector": {"vector": np.full(6, 1e300)},
    "vector with NaN": {"vector": np.full(6, np.nan)},
    "only": {"user": 1, "only": np.array([30])},
    "exclude": {"user": 1, "exclude": np.array([0.5])},
}


@pytest.mark.parametrize("fields", WRONG.values(), ids=WRONG)
def test_what_cannot_be_asked_is_refused(fields):
    with pytest.raises(ArgumentError):
        MODELS["sphere"].rank([Query(user=1), Query(**fields)])


def test_a_dial_without_reach_is_refused():
    with pytest.raises(ArgumentError):
        model_of(DATA).rank([Query(user=1, mainstream=0.5)])
