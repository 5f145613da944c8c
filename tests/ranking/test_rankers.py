"""What every ranker promises, by users and by vectors: k items where there are k, none left out, exact scores."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spherec.errors import ArgumentError
from spherec.geometry import DenseVectors
from spherec.ranking import ExactRanker, MergedRanker
from spherec.ranking.ranker import take_items
from spherec.ranking.usearch import Hnsw, UsearchRanker
from tests.sampling.checks import directions, interactions, random_rows

WIDE = Hnsw(width=50, exact_beyond=1.0)
"""Looks at everything in small data, through the graph."""
NARROW = Hnsw(connectivity=2, expansion_add=2, width=1, exact_beyond=1.0)
"""Misses much."""

RANKERS = {
    "exact": ExactRanker,
    "usearch": lambda vectors: UsearchRanker.build(vectors, WIDE),
    "usearch, narrow": lambda vectors: UsearchRanker.build(vectors, NARROW),
    "usearch as it comes": UsearchRanker.build,
    "merged": lambda vectors: merge(vectors, 3, ExactRanker),
    "merged usearch": lambda vectors: merge(vectors, 4, lambda part: UsearchRanker.build(part, WIDE)),
}


def merge(vectors, m, make):
    """A ranker that asks m others."""
    return MergedRanker([make(take_items(vectors, j, m)) for j in range(m)], vectors)


def vectors_of(n_users=20, n_items=60, dim=6, constraint="sphere", seed=0):
    lengths = torch.linspace(0.05, 1, n_items)[:, None] if constraint == "ball" else 1
    return DenseVectors(directions(n_users, dim, seed), directions(n_items, dim, seed + 1) * lengths, constraint)


def check_promises(result, queries, vectors, left_out, k):
    """Exactly k where the catalogue has them, none twice, none left out, sorted, with the exact ranker's scores."""
    assert result.items.shape == result.scores.shape == (len(queries), k)
    assert (result.items.dtype, result.scores.dtype) == (np.int64, np.float32)
    n_items = len(vectors.item_table)
    every = ExactRanker(vectors).top_of(queries, n_items)
    for row, (items, scores, out) in enumerate(zip(result.items, result.scores, left_out, strict=True)):
        many = min(k, n_items - len(set(out)))
        assert (items[:many] >= 0).all()
        assert (items[many:] == -1).all()
        assert np.isneginf(scores[many:]).all()
        found = items[:many].tolist()
        assert len(set(found)) == many
        assert not set(found) & set(out)
        assert sorted(zip(-scores[:many], found, strict=True)) == list(zip(-scores[:many], found, strict=True))
        true = dict(zip(every.items[row].tolist(), every.scores[row].tolist(), strict=True))
        assert scores[:many] == pytest.approx([true[item] for item in found], abs=1e-6)


@st.composite
def cases(draw):
    n_items = draw(st.integers(1, 40))
    n_users = draw(st.integers(1, 6))
    constraint = draw(st.sampled_from(["sphere", "ball"]))
    vectors = vectors_of(n_users, n_items, 4, constraint, draw(st.integers(0, 50)))
    if draw(st.booleans()):  # the same vectors over and over
        item_table = vectors.item_table[torch.arange(n_items) % 3 % n_items]
        vectors = DenseVectors(vectors.user_table, item_table, constraint)
    lists = draw(
        st.lists(
            st.lists(st.integers(0, n_items - 1), max_size=n_items, unique=True), min_size=n_users, max_size=n_users
        )
    )
    return vectors, lists, draw(st.integers(1, n_items + 3))


def matrix_of(lists, n_items):
    matrix = np.zeros((len(lists), n_items), int)
    for row, items in enumerate(lists):
        matrix[row, items] = 1
    return interactions(matrix)


@pytest.fixture(autouse=True)
def few_in_view(monkeypatch):
    monkeypatch.setattr("spherec.ranking.usearch._LEAST", 2)


@pytest.mark.parametrize("name", RANKERS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases())
def test_promises(name, case):
    vectors, lists, k = case
    ranker = RANKERS[name](vectors)
    queries = vectors.user_table.numpy()
    by_vector = ranker.top_of(queries, k, without=[np.array(items, dtype=np.int32) for items in lists])
    check_promises(by_vector, queries, vectors, lists, k)
    by_user = ranker.top(np.arange(len(queries)), k, without=matrix_of(lists, len(vectors.item_table)))
    assert np.array_equal(by_user.items, by_vector.items)
    assert by_user.scores == pytest.approx(by_vector.scores, abs=1e-6)
    check_promises(ranker.top_of(queries, k), queries, vectors, [[]] * len(queries), k)


@pytest.mark.parametrize("name", RANKERS)
def test_users_in_any_order_and_more_than_one_block(name, monkeypatch):
    monkeypatch.setattr("spherec.ranking.usearch._QUERIES", 3)
    monkeypatch.setattr("spherec.ranking.exact._SCORES", 200)
    vectors, own = vectors_of(), interactions(random_rows(20, 60, 0.4))
    ranker, of = RANKERS[name](vectors), np.array([3, 17, 3, 0, 12, 5, 5])
    result = ranker.top(of, 9, without=own)
    for row, user in enumerate(of):
        alone = ranker.top(np.array([user]), 9, without=own)
        assert np.array_equal(result.items[row], alone.items[0])


@pytest.mark.parametrize("name", RANKERS)
def test_no_queries_is_no_lists(name):
    ranker = RANKERS[name](vectors_of())
    assert ranker.top(np.zeros(0, np.int64), 3).items.shape == (0, 3)
    assert ranker.top_of(np.zeros((0, 6), np.float32), 3, without=[], mainstream=np.zeros(0)).scores.shape == (0, 3)


QUERIES = np.zeros((2, 6), np.float32)
WRONG = {
    "one vector": ((QUERIES[0], 3), {}, r"\(6\)"),
    "another dimension": ((QUERIES[:, :5], 3), {}, r"\(2, 5\)"),
    "other numbers": ((QUERIES.astype(np.float64), 3), {}, "float64"),
    "NaN": ((QUERIES * np.nan, 3), {}, "vectors of 6 numbers"),
    "a dial as text": ((QUERIES, 3), {"mainstream": "high"}, "str"),
    "a dial of NaN": ((QUERIES, 3), {"mainstream": float("nan")}, "nan"),
    "a dial with NaN": ((QUERIES, 3), {"mainstream": np.array([0.1, np.nan])}, "nan"),
    "a dial too far for one": ((QUERIES, 3), {"mainstream": np.array([0.1, -1e9])}, "-1000000000"),
}


@pytest.mark.parametrize("name", ["exact", "usearch", "merged"])
@pytest.mark.parametrize(("arguments", "options", "got"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_asked(name, arguments, options, got):
    ranker = RANKERS[name](vectors_of())
    with pytest.raises(ArgumentError, match=got):
        ranker.top_of(*arguments, **options)
