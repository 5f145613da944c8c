"""Recommendations, by ids and in index space: nothing that is seen or closed, exactly k, and the nearest first."""

import io
import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spherec
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError, TrainingError, UnknownIdError
from spherec.evaluation import GivenLists, evaluate
from spherec.ranking.usearch import Hnsw
from spherec.recommender import CML, Query
from tests.oracles import best_with_reach, nearest
from tests.recommender.models import ITEMS, USERS, model_of, small

DATA = small()
MODEL = model_of(DATA)
ITEM_SETS = st.none() | st.lists(st.sampled_from(ITEMS), unique=True)


# --- Properties ------------------------------------------------------------------------------------------------------


@given(
    users=st.lists(st.sampled_from(USERS), min_size=1, max_size=4, unique=True),
    k=st.integers(1, 40),
    seen=st.booleans(),
    only=ITEM_SETS,
    exclude=ITEM_SETS,
    constraint=st.sampled_from(["sphere", "ball"]),
)
def test_lists_are_the_nearest_of_what_is_left(users, k, seen, only, exclude, constraint):
    model = model_of(DATA, constraint=constraint)
    user_table, item_table = (table.double().tolist() for table in (model.vectors.user_table, model.vectors.item_table))
    answer = model.recommend(users, k, exclude_seen=seen, only=only, exclude=exclude)
    for user in users:
        row = USERS.index(user)
        shut = {*(exclude or ()), *(() if only is None else {*ITEMS} - {*only})}
        closed = {ITEMS.index(item) for item in shut} | set(DATA.items_of(row).tolist() if seen else ())
        expected = [ITEMS[item] for item, _ in nearest(user_table[row], item_table, closed, k)]
        found = [record for record in answer if record.user == user]
        items = [record.item for record in found]
        assert items == expected
        assert [record.rank for record in found] == list(range(1, len(found) + 1))
        np.testing.assert_allclose(model.score(user, items), [record.score for record in found], atol=1e-6)
    assert [record.user for record in answer] == sorted((r.user for r in answer), key=users.index), "in the order asked"


def by_distance(table, ids, one):
    """All ids, the nearest to this one first, and their squared distances."""
    places = table.numpy().astype(np.float64)
    distances = ((places - places[ids.index(one)]) ** 2).sum(1)
    return [ids[n] for n in np.argsort(distances, kind="stable")], dict(zip(ids, distances, strict=True))


@given(k=st.integers(1, 40), item=st.sampled_from(ITEMS), constraint=st.sampled_from(["sphere", "ball"]))
def test_similar_items_are_the_nearest_without_itself(k, item, constraint):
    model = model_of(DATA, constraint=constraint)
    order, distances = by_distance(model.vectors.item_table, ITEMS, item)
    order.remove(item)
    found = model.similar_items(item, k)
    assert [record.similar for record in found] == order[:k]
    assert {record.item for record in found} == {item}
    scores = [1 - distances[record.similar] / 2 for record in found]
    np.testing.assert_allclose([record.score for record in found], scores, atol=1e-6)


@given(k=st.integers(1, 20), user=st.sampled_from(USERS))
def test_similar_users_are_the_nearest_without_herself(k, user):
    order, _ = by_distance(MODEL.vectors.user_table, USERS, user)
    order.remove(user)
    assert [record.similar for record in MODEL.similar_users(user, k)] == order[:k]


@given(k=st.integers(1, 20), user=st.sampled_from(USERS), item=st.sampled_from(ITEMS))
def test_reasons_are_the_users_own_items_nearest_to_it(k, user, item):
    own = {DATA.item_ids[int(index)] for index in DATA.items_of(USERS.index(user))} - {item}
    order = [one for one in by_distance(MODEL.vectors.item_table, ITEMS, item)[0] if one in own]
    found = MODEL.explain(user, item, k)
    assert [record.because for record in found] == order[:k]
    assert {(record.user, record.item) for record in found} <= {(user, item)}


# --- One id or several -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", [7, np.int64(7), 7.0, [7], np.array([7])])
def test_one_id(one):
    model = model_of(small(users=[3, 7, 9]))
    assert [record.user for record in model.recommend(one, 2)] == [7, 7]
    assert all(type(record.user) is int for record in model.recommend(one, 2))


# --- Ids that are not known ------------------------------------------------------------------------------------------


def test_unknown_ids_are_named():
    with pytest.raises(UnknownIdError, match=r"user 'zoe', 'max' .* 12 .* place new users"):
        MODEL.recommend(["u1", "zoe", "max"])
    for ask in (
        lambda: MODEL.similar_items("zoe"),
        lambda: MODEL.recommend("u1", only=["zoe"], unknown="skip"),
        lambda: MODEL.recommend_for(["zoe"]),
        lambda: MODEL.score("u1", "zoe"),
        lambda: MODEL.explain("u1", "zoe"),
    ):
        with pytest.raises(UnknownIdError, match=r"item 'zoe' .* 30 "):
            ask()


def test_unknown_ids_are_passed_over_on_request():
    for unknown in ("skip", "error"):
        options = {"only": ["i1", "no", "i2"], "exclude": ["i2", "none"], "exclude_seen": False, "unknown": unknown}
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            asked = MODEL.recommend(["zoe", "u1"] if unknown == "skip" else "u1", 40, **options)
        assert [(record.user, record.item) for record in asked] == [("u1", "i1")]
        counts = [] if unknown == "skip" else ["only: 1 of 3 ids", "exclude: 1 of 2 ids"]
        assert [str(each.message)[: len(count)] for each, count in zip(warned, counts, strict=True)] == counts
    assert list(MODEL.recommend("zoe", unknown="skip")) == []
    assert list(MODEL.similar_items("zoe", unknown="skip")) == []
    assert list(MODEL.similar_users("zoe", unknown="skip")) == []


def test_nobody_is_without_a_list(tmp_path):
    """The most popular of what may be listed, and the answer says whose list it is."""
    counts, few = DATA.users_per_item, ITEMS[5:25]
    best = sorted(few, key=lambda item: (-counts[ITEMS.index(item)], item not in few, ITEMS.index(item)))
    popular = [item for item in best if item != "i7"][:4]
    options = {"only": [*few, "new"], "exclude": ["i7"], "unknown": "popular"}
    for ask in (lambda: MODEL.recommend_for([], 4, **options), lambda: MODEL.recommend_for("new", 4, **options)):
        assert [(one.item, one.score) for one in ask()] == [(item, counts[ITEMS.index(item)]) for item in popular]
        assert ask().fallback == (None,)
    mixed = MODEL.recommend(["zoe", "u1", "max"], 4, **options)
    assert mixed.fallback == mixed[:3].fallback == ("zoe", "max")
    assert [one.item for one in mixed if one.user == "max"] == popular
    options["unknown"] = "skip"
    assert [one for one in mixed if one.user == "u1"] == list(MODEL.recommend("u1", 4, **options))
    assert MODEL.recommend("u1").fallback is None
    assert MODEL.recommend("u1", unknown="popular").fallback == MODEL.recommend([], unknown="popular").fallback == ()
    with pytest.raises(DataError, match="3"):  # an id of the wrong type is nobody new
        MODEL.recommend([3], unknown="popular")
    for path, read in ((tmp_path / "l.csv", pl.read_csv), (tmp_path / "l.parquet", pl.read_parquet)):
        MODEL.recommend_to_file(path, ["zoe", "u1"], 2, unknown="popular")
        assert read(path)["fallback"].to_list() == ["popular", "popular", None, None]


# --- What is not asked so --------------------------------------------------------------------------------------------


def test_other_mistakes():
    numbered = model_of(small(users=[3, 7, 1]))
    wrong = {
        "'ignore'": lambda: MODEL.recommend("u1", unknown="ignore"),
        "one item": lambda: MODEL.explain(["u1", "u2"], "i1"),
        "got 2 and 3": lambda: MODEL.score(["u1", "u2"], ["i1", "i2", "i3"]),
        "exclude_seen .* 'no'": lambda: MODEL.recommend("u1", exclude_seen="no"),
        "unknown .* 'best'": lambda: MODEL.recommend_for(["i1"], unknown="best"),
        "exclude_seen .* ndarray": lambda: MODEL.recommend_for(["i1"], exclude_seen=np.array([True, False])),
    }
    for got, ask in wrong.items():
        with pytest.raises(ArgumentError, match=got):
            ask()
    for path in (None, 5, io.BytesIO()):
        for write in (MODEL.save, MODEL.recommend_to_file):
            with pytest.raises(spherec.SpherecError):
                write(path)
    for ids in (True, [True], [[1, 2]], [np.array([1, 2])]):
        with pytest.raises(ArgumentError, match="ids must be"):
            numbered.recommend(ids)
    with pytest.raises(TrainingError, match="not trained yet"):
        CML(device="cpu").recommend("u1")


# --- Names and evaluation --------------------------------------------------------------------------------------------


def test_a_model_is_evaluated_by_its_ids_unless_it_knows_the_answers():
    fold = spherec.splits.ratio(DATA, 0.4, seed=3)
    model, train = model_of(fold.train), fold.train
    pairs = [(train.user_ids[int(u)], train.item_ids[int(i)]) for u, i in zip(train.users, train.indices, strict=True)]
    both = spherec.splits.given(Interactions.from_pairs(*zip(*pairs[::-1], strict=True)), fold.test)
    ndcg = evaluate(model, both.train, both.test, k=5).ndcg
    assert ndcg == pytest.approx(evaluate(model, fold.train, fold.test, k=5).ndcg)
    with pytest.raises(spherec.errors.DataError, match="trained on pairs"):
        evaluate(MODEL, fold.train, fold.test)
    lists = model.rank([Query(user=user, k=5, diversity=0.5) for user in range(fold.train.n_users)]).items
    scores = evaluate(model, fold.train, fold.test, k=5, diversity=0.5)
    assert scores.ndcg == evaluate(GivenLists(lists), fold.train, fold.test, k=5).ndcg != ndcg
    for wrong in ({"diversity": 2}, {"diversity": 0.5, "mainstream": 0.5}):
        with pytest.raises(ArgumentError):
            evaluate(model, fold.train, fold.test, **wrong)


# --- Queries in index space -------------------------------------------------------------------------------------------

MODELS = {"sphere": model_of(DATA, mainstream=0.4), "ball": model_of(DATA, constraint="ball")}
SOME = st.none() | st.lists(st.integers(0, len(ITEMS) - 1), unique=True).map(lambda items: np.array(items, dtype=int))


@st.composite
def queries(draw):
    """A query of any kind."""
    kind = draw(st.sampled_from(["user", "basket", "vector", "item"]))
    place = {
        "user": lambda: draw(st.integers(0, len(USERS) - 1)),
        "basket": lambda: np.array(draw(st.lists(st.integers(0, len(ITEMS) - 1))), dtype=int),
        "vector": lambda: np.array(draw(st.lists(st.integers(-3, 3), min_size=6, max_size=6))) / 2,
        "item": lambda: draw(st.integers(0, len(ITEMS) - 1)),
    }[kind]()
    dial = draw(st.none() | st.integers(-8, 8).map(lambda n: n / 4))
    return Query(**{kind: place}, k=draw(st.integers(1, 40)), exclude_seen=draw(st.booleans()), only=draw(SOME),
                 exclude=draw(SOME), mainstream=dial, diversity=draw(st.sampled_from([0, 0.3, 1.0])))  # fmt: skip


def list_of(model, query):
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
    if query.basket is not None and not len(query.basket):
        counts = model.data.users_per_item
        best = sorted(allowed, key=lambda item: (-counts[item], item))[: query.k]
        return best, [counts[item] for item in best]
    dial = 0.0 if query.item is not None else 0.4 if query.mainstream is None else query.mainstream
    ball, reach = vectors.constraint == "ball", vectors.item_reach
    tables = vectors.item_table.tolist(), [[0.0]] * len(ITEMS) if reach is None else reach.tolist()
    found = best_with_reach(place.tolist(), *tables, dial, sorted(allowed), query.k * 10, ball=ball)
    more = 1 - (place.astype(float) ** 2).sum() / 2 if ball else 0.0
    scored, taken = {item: score + more for item, score in found}, []

    def gain(item):
        near = [
            1 - sum((a - b) ** 2 for a, b in zip(tables[0][item], tables[0][one], strict=True)) / 2 for one in taken
        ]
        return (1 - query.diversity) * scored[item] - query.diversity * max(near, default=0.0)

    while len(taken) < min(query.k, len(found)):
        left = [item for item in scored if item not in taken]
        taken.append(max(left, key=gain) if query.diversity else left[0])
    return taken, [scored[item] for item in taken]


@given(asked=st.lists(queries(), max_size=6), constraint=st.sampled_from(list(MODELS)))
def test_every_list_is_the_one_that_its_query_gets_alone(asked, constraint):
    model = MODELS[constraint]
    asked = [query if constraint == "sphere" else query._replace(mainstream=None) for query in asked]
    together = model.rank(asked)
    for row, query in enumerate(asked):
        alone, (items, scores) = model.rank([query]), list_of(model, query)
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
    model = model_of(DATA, mainstream=0.4).build_index(config=Hnsw(exact_beyond=1.0))
    shared = np.array([1, 5, 7])
    asked = [
        Query(user=n % 12, k=1 + n % 4, exclude=shared if n % 3 else np.array([n]), mainstream=n / 9) for n in range(20)
    ]
    together = model.rank(asked)
    for row, query in enumerate(asked):
        alone = model.rank([query])
        assert together.items[row, : query.k].tolist() == alone.items[0].tolist()
        assert together.scores[row, : query.k].tobytes() == alone.scores[0].tobytes()


WRONG = {
    "k": {"user": 1, "k": 0},
    "a k that is no number": {"user": 1, "k": "3"},
    "dial": {"user": 1, "mainstream": float("nan")},
    "user": {"user": 12},
    "item": {"item": 30},
    "basket": {"basket": np.array([-1])},
    "diversity": {"user": 1, "diversity": 1.5},
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
