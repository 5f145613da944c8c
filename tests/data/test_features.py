"""Features of items: every kind of column against scikit-learn, the same transformation for other items, files."""

import json
from dataclasses import replace
from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import spherec
from spherec import Features
from spherec.data.feature_columns import guess_kind, read_cells
from spherec.data.features import read_sources, write_sources
from spherec.errors import ArgumentError, DataError

BOOKS = {
    "isbn": ["a", "b", "c", "d", "e", "f"],
    "year": [1990, 2000, 2010, 2020, None, 2005],
    "genre": ["crime", "crime", "novel", "novel", "poem", None],
    "tags": [["dark", "long"], ["dark"], ["long"], ["short"], [], None],
    "blurb": [
        "A murder in the old town",
        "Another murder in a small town",
        "A long story of the sea",
        "The story of a small ship at sea",
        "",
        None,
    ],
}
FRAMES = {"pandas": pd.DataFrame, "polars": lambda columns: pl.DataFrame(columns, strict=False), "dict": dict}


@pytest.fixture(params=FRAMES.values(), ids=FRAMES)
def frame_of(request):
    return request.param


def random_counts(n_rows=60, n_columns=40, seed=0):
    generator = np.random.default_rng(seed)
    return sp.csr_array(generator.poisson(0.4, (n_rows, n_columns)).astype(np.float32))


# --- Kinds of columns ------------------------------------------------------------------------------------------------

GUESSES = [
    ([1990, None], "number"),
    (["1.5", "2"], "number"),
    (["1.5", "N/A", " - "], "number"),
    (["none", "n/a", "-"], "category"),
    ([True, False, None], "number"),
    (["crime", "novel", None], "category"),
    (["Le Coq", "Le Coq", "Mon Ami", "Mon Ami"], "category"),
    (["Red Lamp", "Blue Lamp", "Old Chair", "Red Lamp"], "text"),
    (["A murder in the old town", "", None], "text"),
    (["a|b", "c"], "tags"),
    ([["dark", "long"], [], None], "tags"),
]


@pytest.mark.parametrize(("cells", "kind"), GUESSES, ids=str)
def test_kinds_are_guessed_from_cells(frame_of, cells, kind):
    assert guess_kind(read_cells(frame_of({"x": cells}), "x")) == kind


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_times_are_numbers_of_days(frame):
    days = Features.from_frame(frame({"i": [1, 2, 3], "t": [datetime(2020, 1, day) for day in (1, 2, 4)]}), item="i")
    expected = Features.from_frame({"i": [1, 2, 3], "t": [0, 1, 3]}, item="i")
    np.testing.assert_allclose(days.matrix, expected.matrix, atol=1e-6)


def test_a_frame_of_all_kinds_gives_finite_numbers_and_says_what_is_missing(frame_of):
    features = Features.from_frame(frame_of(BOOKS), item="isbn")
    assert list(features.item_ids) == BOOKS["isbn"]
    assert features.matrix.shape == (6, features.n_features)
    assert (features.matrix.dtype, features.matrix.flags.writeable) == (np.float32, False)
    assert features.known.tolist() == [True, True, True, True, False, True]  # of "e", nothing but a rare genre
    assert not features.unknown
    missing = {"year: missing": 1, "genre: missing": 1, "tags: missing": 2, "blurb: missing": 2}
    rare = {"genre: rare or unknown": 1, "tags: rare or unknown": 1, "blurb: rare or unknown": 5}
    assert dict(features.left_out) == missing | rare
    again = features.transform(frame_of(BOOKS))
    np.testing.assert_array_equal(again.matrix, features.matrix)
    np.testing.assert_array_equal(again.known, features.known)


def test_numbers_and_categories_are_scaled_as_by_scikit_learn(frame_of):
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    values = np.random.default_rng(0).lognormal(3, 2, 50)
    features = Features.from_frame(frame_of({"i": np.arange(50), "x": values}), item="i")
    expected = preprocessing.StandardScaler().fit_transform(values[:, None])
    np.testing.assert_allclose(features.matrix, expected, rtol=1e-5, atol=1e-6)
    values = np.array(["b"] * 5 + ["a"] * 4 + ["c"] * 3 + ["x"])
    features = Features.from_frame(frame_of({"i": np.arange(len(values)), "g": values}), item="i")
    expected = preprocessing.OneHotEncoder(sparse_output=False).fit_transform(values[:, None])
    np.testing.assert_array_equal(features.matrix[:, [1, 0, 2]], expected[:, :3])  # ours: the most frequent first


def test_of_many_categories_the_most_frequent_have_a_place():
    values = [f"c{number}" for number in range(10) for _ in range(20 - number)]
    features = Features.from_frame({"i": range(len(values)), "g": values}, item="i", dims=4)
    assert features.matrix.sum(0).tolist() == [20, 19, 18, 17]


def weigh_twice(counts):
    """Rows of log-counts times idf², of length 1, by scikit-learn."""
    weigher = pytest.importorskip("sklearn.feature_extraction.text").TfidfTransformer(norm=None)
    weighed = weigher.fit_transform(np.log1p(counts.toarray())).toarray() * weigher.idf_
    return weighed / np.maximum(np.linalg.norm(weighed, axis=1, keepdims=True), 1e-30)


def test_words_are_weighed_as_by_scikit_learn():
    counts = random_counts()
    np.testing.assert_allclose(Features.from_matrix(counts).matrix, weigh_twice(counts), rtol=1e-4, atol=1e-6)


def test_text_is_cut_into_words_as_by_scikit_learn():
    sklearn = pytest.importorskip("sklearn.feature_extraction.text")
    texts = ["The sea, the SEA!", "a ship at sea 42", "Ünder the ship_yard", "the 42 ships"] * 2
    vectorizer = sklearn.CountVectorizer(min_df=2)
    counts = vectorizer.fit_transform(texts)
    features = Features.from_frame({"i": range(8), "t": texts}, item="i", kinds={"t": "text"})
    (column,) = features.sources[0].columns
    order = [column.words.index(word) for word in vectorizer.get_feature_names_out()]
    expected = Features.from_matrix(counts)
    np.testing.assert_allclose(features.matrix[:, order], expected.matrix, atol=1e-6)


def test_reduced_words_keep_angles_as_by_scikit_learn():
    decomposition = pytest.importorskip("sklearn.decomposition")
    generator = np.random.default_rng(2)
    topics = generator.dirichlet([0.05] * 120, 6)
    rows = generator.poisson(30 * generator.dirichlet([0.2] * 6, 200) @ topics)
    counts = sp.csr_array(rows[:, (rows > 0).sum(0) >= 2].astype(np.float32))
    features = Features.from_matrix(counts, dims=6)
    reduced = decomposition.TruncatedSVD(6, algorithm="arpack", random_state=0).fit_transform(weigh_twice(counts))
    reduced /= np.linalg.norm(reduced, axis=1, keepdims=True)
    known = features.known
    np.testing.assert_allclose((features.matrix @ features.matrix.T)[known], (reduced @ reduced.T)[known], atol=2e-3)
    assert features.n_features == 6
    np.testing.assert_allclose(np.linalg.norm(features.matrix[known], axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("mark", ["|", ";", ","])
def test_tags_may_be_one_text(mark):
    rows = [["drama", "sea side"], ["sea side"], ["drama"], ["war", "drama"], ["war"]]
    texts = [f"{mark} ".join(row) for row in rows]
    ones, others = (
        Features.from_frame({"i": range(5), "t": column}, item="i", kinds={"t": "tags"}) for column in (rows, texts)
    )
    np.testing.assert_array_equal(ones.matrix, others.matrix)
    np.testing.assert_array_equal(others.transform({"i": [9], "t": [f"war{mark}drama"]}).matrix, others.matrix[3:4])


def test_a_column_that_tells_no_items_apart_is_left_out_and_named(frame_of):
    frame = frame_of(
        {"i": [1, 2, 3], "x": [1.0, 2.0, 3.0], "same": [7, 7, 7], "own": ["u", "v", "w"], "one": ["a"] * 3}
    )
    features = Features.from_frame(frame, item="i")
    assert features.sizes == {"x": 1}
    assert features.left_out == tuple((f"{name}: tells no items apart", 3) for name in ("same", "own", "one"))


def test_columns_may_be_called_by_numbers():
    features = Features.from_frame(pd.DataFrame([["a", 1.0], ["b", 2.0]]), item=0)
    assert (list(features.item_ids), features.sizes) == (["a", "b"], {"1": 1})
    assert features.transform(pd.DataFrame([["c", 2.0]])).matrix.tolist() == [[1.0]]


# --- Other items -----------------------------------------------------------------------------------------------------


def test_what_was_never_seen_is_ignored_and_counted(frame_of):
    features = Features.from_frame(frame_of(BOOKS), item="isbn")
    cells = [
        ["x", "y"],
        [2005.0, None],
        ["opera", "poem"],
        [["dark", "green"], ["green"]],
        ["Zebras xylophones", "murder"],
    ]
    new = features.transform(frame_of(dict(zip(BOOKS, cells, strict=True))))
    assert list(new.item_ids) == ["x", "y"]
    unknown = {"genre: rare or unknown": 2, "tags: rare or unknown": 2, "blurb: rare or unknown": 2}
    assert dict(new.unknown) == unknown
    assert dict(new.left_out) == {**unknown, "year: missing": 1}, "what is there, but unknown, is not missing"
    assert new.matrix[:, 1:3].tolist() == [[0, 0], [0, 0]]  # a poem was rare, an opera is unknown
    assert new.matrix[0, 0] == pytest.approx(0)  # the mean
    assert new.known.all()


def test_an_item_of_which_nothing_is_known_has_no_features():
    features = Features.from_frame({"i": [1, 2, 3, 4], "g": ["a", "a", "b", "b"]}, item="i")
    new = features.transform({"i": [7, 8], "g": ["zz", "b"]})
    assert new.known.tolist() == [False, True]
    assert not new.matrix[0].any()
    assert Features.from_matrix(sp.csr_array([[1.0, 2], [0, 0], [3, 1]])).known.tolist() == [True, False, True]
    assert Features.from_matrix(np.array([[1.0, 2], [np.nan, np.nan]])).known.tolist() == [True, False]


def test_several_sources_stand_side_by_side():
    words = Features.from_matrix(random_counts(4, 6), ["a", "b", "c", "d"], name="words")
    both = Features.join(words, Features.from_frame({"id": ["c", "e"], "x": [1.0, 3.0]}, item="id"))
    assert list(both.item_ids) == ["a", "b", "c", "d", "e"]
    assert both.sizes == {"words": words.n_features, "x": 1}
    np.testing.assert_array_equal(both.matrix[:4, :-1], words.matrix)
    assert both.matrix[:, -1].tolist() == [0, 0, -1, 0, 1]
    new = both.transform(random_counts(2, 6, seed=5), {"id": ["q"], "x": [3.0]}, item_ids=["p", "q"])
    assert list(new.item_ids) == ["p", "q"]
    assert new.matrix[:, -1].tolist() == [0, 1]
    with pytest.raises(ArgumentError):
        both.transform(random_counts(2, 6))
    with pytest.raises(DataError):  # numbers and texts
        Features.join(Features.from_matrix(random_counts(3)), Features.from_matrix(random_counts(3), ["0", "1", "2"]))


def test_features_follow_the_items_of_the_data():
    features = Features.from_matrix(np.eye(3), ["a", "b", "c"])
    data = spherec.Interactions.from_pairs([1, 1, 2], ["c", "z", "a"])
    aligned = features.align(data.item_ids)
    assert aligned.item_ids is data.item_ids
    rows = dict(zip(data.item_ids, aligned.matrix.tolist(), strict=True))
    assert rows == {"a": [1, 0, 0], "c": [0, 0, 1], "z": [0, 0, 0]}
    assert dict(zip(data.item_ids, aligned.known.tolist(), strict=True)) == {"a": True, "c": True, "z": False}
    for wrong in (["x", "y"], [1, 2]):
        with pytest.raises(DataError, match=r"'x'|1"):
            features.align(wrong)


def test_numbers_of_other_items_stay_within_the_range_of_the_first():
    table = Features.from_frame({"i": [1, 2, 3], "x": [1.0, 4.0, None]}, item="i")
    other = table.transform({"i": [3, 4, 5, 6, 7], "x": [0.0, 1.0, 3.9, 1e300, None]})
    assert np.array_equal(other.matrix[[0, 3, 4], 0], [*table.matrix[:2, 0], 0])
    assert other.unknown == (("x: cut to the range of the first items", 2),)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_vectors_of_other_items_are_no_longer_than_the_first(dtype):
    vectors = np.random.default_rng(0).normal(size=(500, 7)).astype(dtype)
    features = Features.from_matrix(vectors)
    again = features.transform(vectors)
    assert (again.unknown, np.array_equal(again.matrix, features.matrix)) == ((), True)
    longest = np.linalg.norm(features.matrix, axis=1).max()
    other = features.transform(vectors[:3].astype(np.float64) * [[1], [1000], [1e30]])
    np.testing.assert_allclose(other.matrix[0], features.matrix[0], rtol=1e-6)
    assert np.linalg.norm(other.matrix[1:], axis=1) == pytest.approx([longest] * 2)
    assert other.unknown == (("matrix: shortened to the longest of the first items", 2),)
    units = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
    assert not Features.from_matrix(np.eye(7, dtype=np.float16)).transform(units).unknown


def test_a_large_sparse_matrix_is_never_made_dense():
    rows = np.arange(200_000)
    matrix = sp.csr_array((np.ones(400_000), (np.tile(rows, 2), np.r_[rows // 2, rows // 4])), shape=(200_000, 100_000))
    assert Features.from_matrix(matrix, dims=2).matrix.shape == (200_000, 2)  # 80 GB dense


# --- Borders ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "options", "named"),
    [
        ({"i": [1, 1]}, {}, "1"),
        ({"i": [1, None]}, {}, "row 1"),
        ({"i": [], "x": []}, {}, "'i'"),
        ({"x": [1, np.inf]}, {}, "'x', row 1: inf"),
        ({"x": ["1", "b"]}, {"kinds": {"x": "number"}}, "'x', row 1: 'b'"),
        ({"x": [[1.0], [2.0]]}, {"kinds": {"x": "number"}}, "'x', row 0"),
        ({}, {"kinds": {"y": "number"}}, "'y'"),
        ({}, {"kinds": {"x": "numbr"}}, "'numbr'"),
        ({}, {"kinds": {"x": "skip"}}, "'i'"),
        ({"x": ["a", "b"]}, {"dims": 1}, "dims .* 1"),
    ],
    ids=str,
)
def test_bad_tables_name_column_row_and_value(cells, options, named):
    columns = {"i": [1, 2], "x": [1, 2]} | cells
    frame = pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()})
    with pytest.raises((DataError, ArgumentError), match=named):
        Features.from_frame(frame, item="i", **options)


@pytest.mark.parametrize(
    "matrix",
    [
        np.ones((0, 3)),
        np.array([[1, np.inf]]),
        np.array([[1, np.nan]]),
        np.zeros((2, 2)),
        np.full((2, 2), 1e300),
        sp.csr_array([[1.0, np.inf]]),
        sp.csr_array([[1.0, 0], [0, 1.0]]),
        sp.csr_array((3, 0)),
    ],
    ids=str,
)
def test_matrices_that_tell_no_items_apart_or_are_not_finite_are_refused(matrix):
    with pytest.raises(DataError):
        Features.from_matrix(matrix)


def test_other_tables_must_be_like_the_first():
    sparse, dense = Features.from_matrix(random_counts(5, 6)), Features.from_matrix(np.eye(3))
    table = Features.from_frame(BOOKS, item="isbn")
    for features, other in (
        (sparse, random_counts(5, 7)),
        (sparse, np.ones((2, 6))),
        (dense, np.ones((4, 2))),
        (dense, np.full((1, 3), 1e300)),
        (dense, pd.DataFrame({"i": [1]})),
        (table, np.ones((2, 2))),
        (table, {"isbn": ["x"], "genre": ["poem"]}),
        (table, {"id": ["x"]}),
    ):
        with pytest.raises(DataError):
            features.transform(other)


def test_what_was_fitted_goes_through_files():
    table = Features.from_frame(pd.DataFrame(BOOKS), item="isbn")
    ids = [*BOOKS["isbn"], *map(str, range(54))]
    vectors = Features.from_matrix(np.random.default_rng(0).normal(size=(60, 3)), ids)
    features = Features.join(table, Features.from_matrix(random_counts(), ids, dims=7, name="words"), vectors)
    arrays, tables = write_sources(features.sources)
    loaded = replace(features, sources=read_sources(arrays, json.loads(json.dumps(tables))))
    new = {name: column[:2] for name, column in BOOKS.items()} | {"year": [1, 9999]}, random_counts(2, seed=4)
    ones, others = (each.transform(*new, np.ones((2, 3)), item_ids=["a", "b"]) for each in (features, loaded))
    np.testing.assert_array_equal(ones.matrix, others.matrix)
    assert (ones.left_out, ones.unknown) == (others.left_out, others.unknown)
