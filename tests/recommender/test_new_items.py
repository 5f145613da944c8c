"""Items that nobody has: in fit, added to a model, recommended as all others, learned by partial_fit, kept in files."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

import spherec
from spherec.data.features import Features
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError, UnknownContentWarning
from spherec.geometry import place_rows
from spherec.ranking.usearch import Hnsw
from tests.recommender.models import make

GENRES = ["crime", "novel", "poems", "travel"]
WORDS = {
    "crime": "murder town detective",
    "novel": "love family sea",
    "poems": "verse rhyme song",
    "travel": "road map",
}


def book(number, genre=None):
    genre = genre or GENRES[number % 4]
    random = np.random.default_rng(number)
    blurb = " ".join(random.permutation(f"{WORDS[genre]} a story of the old book".split()))
    return {"isbn": f"b{number}", "genre": genre, "year": 1990 + number % 40, "blurb": blurb}


BOOKS = pd.DataFrame([book(number) for number in range(40)])
NEW = pd.DataFrame([book(number) for number in range(100, 112)])


def events():
    """Readers of one genre each; nobody has the last four books."""
    random = np.random.default_rng(0)
    rows = []
    for reader in range(48):
        own = random.choice([number for number in range(36) if number % 4 == reader % 4], 6, replace=False)
        rows += [{"reader": f"r{reader}", "isbn": f"b{number}"} for number in own]
    return pd.DataFrame(rows)


EVENTS = events()
SETTINGS = {
    "name": "accurate",
    "dim": 16,
    "epochs": 40,
    "batch_size": 64,
    "sampler": {"negatives": 30},
    "optimizer": {"learning_rate": 0.03},
}


def fitted(frame=EVENTS, features=BOOKS, **settings):
    model = spherec.CML.preset(**{**SETTINGS, "device": "cpu", **settings})
    return model.fit(frame, user="reader", item="isbn", item_features=features)


@pytest.fixture(scope="module")
def blob():
    return pickle.dumps(fitted())


@pytest.fixture
def model(blob):
    return pickle.loads(blob)


def genres_of(results, column="item"):
    known = pd.concat((BOOKS, NEW)).set_index("isbn").genre
    return [known[getattr(one, column)] for one in results]


def test_items_that_only_the_features_have_are_in_the_model(model):
    assert set(model.data.item_ids) == set(BOOKS.isbn)
    only_new = model.recommend("r1", k=4, only=["b36", "b37", "b38", "b39"])
    assert genres_of(only_new)[0] == "novel"
    assert model.artifact.features.item_ids == model.data.item_ids


def test_added_items_are_used_as_all_others(model, tmp_path):
    before, lists = model.vectors, model.recommend("r2", k=36)
    assert model.add_items(NEW, names={"b100": "A murder", "b101": "The sea"}) is model
    assert torch.equal(model.vectors.item_table[: before.n_items], before.item_table)
    assert torch.equal(model.vectors.user_table, before.user_table)
    kept = model.recommend("r2", k=36, exclude=list(NEW.isbn))
    assert [one.item for one in kept] == [one.item for one in lists]
    np.testing.assert_allclose([one.score for one in kept], [one.score for one in lists], atol=1e-6)
    new = model.recommend("r0", k=3, only=list(NEW.isbn))
    assert genres_of(new) == ["crime"] * 3
    assert {one.name for one in model.similar_items("b104", k=40)} >= {"A murder", None}
    assert genres_of(model.similar_items("b100", k=3), "similar") == ["crime"] * 3
    assert genres_of(model.recommend_for(["b101", "b105"], k=5)) == ["novel"] * 5
    assert genres_of(model.explain("r3", "b103", k=2), "because") == ["travel"] * 2
    assert np.isfinite(model.score("r0", list(NEW.isbn))).all()
    other = model.fold_in(pd.DataFrame({"u": ["x", "x"], "i": ["b102", "b106"]}), user="u", item="i")
    assert genres_of(other.recommend("x", k=4)) == ["poems"] * 4
    path = tmp_path / "books.spherec"
    model.save(path)
    for mmap in (False, True):
        loaded = spherec.load(path, mmap=mmap)
        assert list(loaded.recommend("r1", k=50)) == list(model.recommend("r1", k=50))
        loaded.add_items(pd.DataFrame([book(200)]))
        assert loaded.recommend("r0", k=1, only=["b200"])[0].item == "b200"


@pytest.mark.parametrize("settings", [{}, {"reach": False, "mainstream": 1.0}], ids=["reach", "plain"])
def test_an_index_takes_new_items_in(settings, tmp_path):

    def lists(model):
        everybody = model.recommend(list(model.data.user_ids), k=10)
        return everybody.columns["item"], everybody.columns["score"]

    model, path = fitted(**settings), tmp_path / "books.usearch"
    model.build_index(path, config=Hnsw(exact_beyond=1.0))
    before = model.ranker
    for mapped in (False, True):  # one in memory, one that is a view of a file's bytes
        if mapped:
            model = fitted(**settings).use_index(path)
        model.add_items(NEW[:5]).add_items(NEW[5:])
        items, scores = lists(model)
        assert len(model.ranker._index) == model.data.n_items
        assert set(NEW.isbn) & set(items)
        exact, exact_scores = lists(model.use_index(None))
        assert np.mean([one == other for one, other in zip(items, exact, strict=True)]) > 0.99
        np.testing.assert_allclose(scores, exact_scores, atol=1e-3)
    assert len(before._index) == before.vectors.n_items == len(BOOKS)  # the index of those who still read it
    with pytest.raises(DataError, match="items 40, of this model 52"):
        model.use_index(path)


def test_partial_fit_gives_new_items_rows_of_their_own(model):
    model.add_items(NEW)
    place = model.data.item_ids.index_of(["b100", "b101"])
    alone = model.vectors.item_table[place].clone()
    weights = model.artifact.feature_map.weights.clone()
    # Readers of poems take a liking to the crime story b100.
    fans = pd.DataFrame({"reader": [f"r{number}" for number in range(2, 48, 4)], "isbn": "b100"})
    model.partial_fit(fans, user="reader", item="isbn", epochs=20, validation=0)
    learned = model.artifact.feature_map
    assert not torch.equal(learned.weights, weights)
    rows = learned.place(torch.tensor(model.artifact.features.matrix[place]))
    by_features = place_rows(rows, "sphere", reach=True)
    of_fans, of_other = (model.vectors.item_table[place] * by_features).sum(1).tolist()
    assert of_other == pytest.approx(1, abs=1e-3)  # nobody has b101: still where its features are
    assert of_fans < 0.99
    assert float(model.vectors.item_table[place][0] @ alone[0]) < 0.98


def test_partial_fit_takes_features_of_new_and_of_changed_items(model):
    described = pd.DataFrame([book(100), {**book(3), "genre": "crime", "blurb": WORDS["crime"]}, book(101)])
    pairs = pd.DataFrame({"reader": ["r0", "r4", "someone"], "isbn": ["b100", "b100", "b555"]})
    model.partial_fit(pairs, user="reader", item="isbn", item_features=described, epochs=2, validation=0)
    features = model.artifact.features
    assert features.item_ids == model.data.item_ids
    assert set(model.data.item_ids) == {*BOOKS.isbn, "b100", "b101", "b555"}
    changed = features.transform(described).matrix[1]
    assert np.array_equal(features.matrix[model.data.item_ids.index_of(["b3"])[0]], changed)
    assert features.known[model.data.item_ids.index_of(["b555"])[0]] == np.False_
    assert genres_of(model.recommend("r8", k=1, only=["b100", "b101"])) == ["crime"]
    assert model.artifact.feature_map.lengths.shape[0] == model.data.n_items


@pytest.mark.parametrize("features", ["matrix", "sparse", "features", "polars"])
def test_what_fit_takes(features):
    data = Interactions.from_frame(EVENTS, user="reader", item="isbn")
    frame = BOOKS.set_index("isbn").loc[list(data.item_ids)].reset_index()
    matrix = np.eye(4)[[GENRES.index(genre) for genre in frame.genre]]
    if features == "sparse":
        matrix = sp.csr_array(matrix)
    model = spherec.CML.preset(**SETTINGS, device="cpu")
    if features == "polars":
        polars = pytest.importorskip("polars")
        given, options = polars.DataFrame(EVENTS.to_dict("list")), {"user": "reader", "item": "isbn"}
        content = polars.DataFrame(BOOKS.to_dict("list"))
    else:
        given, options = data, {}
        content = Features.from_frame(BOOKS, item="isbn") if features == "features" else matrix
    model.fit(given, item_features=content, **options)
    assert genres_of(model.recommend("r3", k=3)) == ["travel"] * 3
    if features in ("matrix", "sparse"):
        model.add_items(matrix[[0, 1]], item_ids=["n1", "n2"])
        assert model.data.n_items == data.n_items + 2


def test_fit_and_partial_fit_name_items_that_the_data_does_not_name():
    events, names = EVENTS.assign(title="of the events"), {"b0": "of fit", "b38": "Nobody has it", "b39": "Nor this"}
    model = spherec.CML.preset(**{**SETTINGS, "epochs": 1, "device": "cpu"})
    model.fit(events, user="reader", item="isbn", name="title", item_features=BOOKS, names=names)

    def known(item):
        return model.data.item_names[model.data.item_ids.index_of([item])[0]]

    assert [known(item) for item in ("b0", "b36", "b38", "b39")] == ["of the events", None, "Nobody has it", "Nor this"]
    pairs = pd.DataFrame({"reader": ["r0", "r4"], "isbn": ["b100", "b100"]})
    names = {"b36": "Late", "b38": "Too late", "b100": "New", "b101": "New, too"}
    options = {"user": "reader", "item": "isbn", "item_features": NEW[:2], "epochs": 1, "validation": 0}
    model.partial_fit(pairs, names=names, **options)
    assert [known(item) for item in ("b36", "b38", "b100", "b101")] == ["Late", "Nobody has it", "New", "New, too"]


def test_content_that_is_not_known_is_named(model):
    strange = pd.DataFrame([{**book(400), "genre": "opera"}])
    with pytest.warns(UnknownContentWarning, match=r"ignores or cuts it: genre: rare or unknown \(1\)"):
        model.add_items(strange)
    assert ("genre: rare or unknown", 1) in model.artifact.features.left_out
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.add_items(NEW)


EMPTY = pd.DataFrame([{"isbn": "e", "genre": None, "year": None, "blurb": ""}]).astype({"year": float})
WRONG = {
    "known": (BOOKS[:2], "'b0', 'b1'"),
    "repeated": (pd.concat((NEW, NEW[:1])), "repeat"),
    "other transformation": (Features.from_frame(NEW.drop(columns="year"), item="isbn"), "transformation"),
    "empty": (EMPTY, "'e'"),
    "ids of another type": (NEW.assign(isbn=range(100, 100 + len(NEW))), "type"),
}


@pytest.mark.parametrize(("table", "got"), WRONG.values(), ids=WRONG)
@pytest.mark.filterwarnings("ignore::spherec.errors.UnknownContentWarning")
def test_what_cannot_be_added_changes_nothing(model, table, got):
    artifact = model.artifact
    with pytest.raises((DataError, ArgumentError), match=got):
        model.add_items(table)
    assert model.artifact is artifact


@pytest.mark.parametrize(
    ("features", "got"),
    [(np.eye(3), "36"), (BOOKS.assign(isbn=[f"x{number}" for number in range(40)]), "36 items")],
    ids=["rows", "other items"],
)
def test_what_fit_refuses(features, got):
    with pytest.raises((ArgumentError, DataError), match=got):
        fitted(features=features)


def test_a_model_without_features_says_so():
    plain, pairs = fitted(features=None, epochs=1), pd.DataFrame({"reader": ["r1"], "isbn": ["b2"]})
    for use in (
        lambda: plain.add_items(NEW),
        lambda: plain.partial_fit(pairs, user="reader", item="isbn", item_features=BOOKS),
    ):
        with pytest.raises(ArgumentError, match="features"):
            use()


def without_range(model):
    """Let the years of new books be any numbers, as in files of earlier versions."""
    features = model.artifact.features
    (source,) = features.sources
    columns = [replace(one, lowest=-np.inf, highest=np.inf) if one.name == "year" else one for one in source.columns]
    features = replace(features, sources=(replace(source, columns=tuple(columns)),))
    return make(replace(model.artifact, features=features))


def test_the_reach_of_one_wrong_number_stays_within_that_of_the_model(model):
    before, model = model.vectors.item_reach, without_range(model)
    model.add_items(pd.DataFrame([{**book(200), "year": 20240}]))
    assert before.amin() <= model.vectors.item_reach[-1].amin() <= model.vectors.item_reach[-1].amax() <= before.amax()


def test_numbers_that_no_vector_can_have_are_refused(model):
    model = without_range(model)
    n_items = model.data.n_items
    with pytest.raises(DataError, match="numbers of 'b200' are far beyond those of training"):
        model.add_items(pd.DataFrame([{**book(200), "year": 1e30}]))
    assert model.data.n_items == n_items
