"""A model that answers through an index: the same lists with the same scores, and never by an index of other items."""

import numpy as np
import pytest

import spherec
from spherec.errors import DataError, TrainingError
from spherec.ranking import ExactRanker
from spherec.ranking.usearch import Hnsw, UsearchRanker
from tests.oracles import pairs_of
from tests.recommender.models import ITEMS, USERS, model_of, small

WIDE = Hnsw(width=50, exact_beyond=1.0)
"""Looks at everything in small data, through the graph."""

DATA = small()


def calls(model, monkeypatch):
    """How many queries the graph of a model is asked from now on."""
    index, asked = model.ranker._index, []
    search = index.search
    monkeypatch.setattr(index, "search", lambda of, *a, **o: asked.append(len(of)) or search(of, *a, **o))
    return asked


def same(found, true):
    """Whether two answers agree in all but the rounding of scores."""
    for name, column in true.columns.items():
        if name == "score":
            np.testing.assert_allclose(found.columns[name], column, atol=1e-6)
        else:
            assert found.columns[name] == column


# --- What it answers -------------------------------------------------------------------------------------------------


def test_who_is_asked(monkeypatch):
    model = model_of(DATA).build_index(config=WIDE)
    asked = calls(model, monkeypatch)
    model.recommend(USERS)
    model.recommend_for(["i1"])
    model.similar_items("i1")
    model.recommend("u1", exclude=["i1"])
    assert sum(asked) == 15, "the graph"
    model.recommend("u1", only=["i1"])
    model.similar_users("u1")
    model.explain("u1", "i1")
    assert sum(asked) == 15, "not the graph"


# --- Its file --------------------------------------------------------------------------------------------------------


@pytest.fixture
def books(tmp_path):
    """A model in a file, and its index beside it."""
    model = model_of(DATA)
    model.save(tmp_path / "books.spherec")
    model.build_index(tmp_path / "books.usearch", WIDE)
    return tmp_path / "books.spherec"


def test_built_once_and_saved_beside_the_model(books, monkeypatch):
    true = model_of(DATA).recommend(USERS)
    monkeypatch.setattr(UsearchRanker, "build", lambda *_, **__: 1 / 0)
    for index in (True, books.with_suffix(".usearch"), str(books.with_suffix(".usearch"))):
        model = spherec.load(books, index=index, device="cpu")
        assert model.ranker.config == WIDE
        same(model.recommend(USERS), true)
    model.use_index(books.with_suffix(".usearch"), width=7)
    assert model.ranker.config.width == 7
    assert isinstance(model.use_index(None).ranker, ExactRanker)
    assert model.recommend(USERS) == true
    assert isinstance(spherec.load(books, device="cpu").ranker, ExactRanker), "only if it is asked for"


def test_the_index_of_another_model_is_refused(books):
    model_of(DATA, seed=5).save(books)
    with pytest.raises(DataError, match=r"books\.usearch is the index of other vectors: checksum .*; build it again"):
        spherec.load(books, index=True, device="cpu")
    model = model_of(DATA).build_index(config=WIDE)
    with pytest.raises(DataError, match="other vectors"):
        model_of(small(items=ITEMS[:20])).use_index(books.with_suffix(".usearch"))
    with pytest.raises(DataError, match="No such file"):
        model.use_index(books.with_name("none.usearch"))
    assert isinstance(model.ranker, UsearchRanker), "the one in use stays"


# --- A model that changes --------------------------------------------------------------------------------------------


def test_learning_drops_the_index():
    model = spherec.CML(dim=6, sampler=spherec.Uniform(2), epochs=1, device="cpu")
    with pytest.raises(TrainingError, match="not trained yet"):
        model.build_index()
    model.fit(DATA, validation=0).build_index(config=WIDE)
    assert isinstance(model.ranker, UsearchRanker)
    model.partial_fit(spherec.Interactions.from_pairs(["zoe"], ["i1"]), validation=0)
    assert isinstance(model.ranker, ExactRanker)
    model.build_index(config=WIDE).fit(DATA, validation=0)
    assert isinstance(model.ranker, ExactRanker)
    assert len(model.recommend("u1", 3)) == 3


def test_users_folded_in_are_answered_through_it():
    model = model_of(DATA)
    new = spherec.Interactions.from_pairs(["zoe", "zoe", "u1"], ["i1", "i2", "i3"])
    true = model.fold_in(new).recommend([*USERS, "zoe"])
    grown = model.build_index(config=WIDE).fold_in(new)
    assert grown.ranker._index is model.ranker._index
    same(grown.recommend([*USERS, "zoe"]), true)
    assert not {(one.user, one.item) for one in grown.recommend("zoe", 40)} & set(pairs_of(new))
