"""The dial in rankers: λ times an item's reach on top of its score, the same from exact ranking and from an index."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spherec.errors import DataError
from spherec.geometry import DenseVectors
from spherec.ranking import ExactRanker
from tests.oracles import best_with_reach
from tests.ranking.test_usearch import GRAPH, clustered, recall
from tests.sampling.checks import generator, interactions

from spherec.ranking.usearch import UsearchRanker  # isort: skip

DIAL = [-0.5, -0.25, 0.0, 0.25, 0.5, 0.6, 0.75, 1.0, 1.25]


def with_reach(vectors, scale=0.025, mainstream=0.6):
    """The same vectors with a reach that few items have much of, as learned ones are."""
    reach = torch.empty(vectors.n_items, 2).exponential_(generator=generator(4)) * scale
    return replace(vectors, item_reach=reach - reach.mean(), mainstream=mainstream)


# --- Against plain loops ---------------------------------------------------------------------------------------------

QUARTERS = st.integers(-8, 8).map(lambda n: n / 4)  # sums and products of these are exact, so ties are ties


@st.composite
def cases(draw):
    """Vectors with many ties, λ for each query, what each may not get, and what nobody may; some without reach."""
    n_users, n_items, parts = draw(st.integers(1, 5)), draw(st.integers(1, 9)), draw(st.sampled_from([0, 1, 2, 4]))

    def rows(count, width, numbers):
        return draw(st.lists(st.lists(numbers, min_size=width, max_size=width), min_size=count, max_size=count))

    users, items = (rows(count, 2, st.integers(-2, 2)) for count in (n_users, n_items))
    vectors = DenseVectors(
        torch.tensor(users, dtype=torch.float32),
        torch.tensor(items, dtype=torch.float32),
        draw(st.sampled_from(["sphere", "ball"])),
        torch.tensor(rows(n_items, parts, QUARTERS)) if parts else None,
        draw(QUARTERS),
    )
    dial = draw(st.none() | QUARTERS | st.lists(QUARTERS, min_size=n_users, max_size=n_users).map(np.array))
    own = np.array(rows(n_users, n_items, st.booleans()), dtype=int)
    some = st.none() | st.lists(st.integers(0, n_items - 1), unique=True).map(lambda items: np.array(items, dtype=int))
    return vectors, dial, own, draw(some), draw(some), draw(st.integers(1, 11))


@pytest.mark.parametrize(("scores", "items"), [(1 << 24, 1 << 17), (1 << 24, 2), (6, 3), (1, 1)])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases())
def test_exact_ranking_with_reach_is_that_of_plain_loops(case, scores, items, monkeypatch):
    monkeypatch.setattr("spherec.ranking.exact._SCORES", scores)
    monkeypatch.setattr("spherec.geometry._BLOCK", items)
    vectors, dial, own, only, exclude, k = case
    ranker, queries = ExactRanker(vectors), vectors.user_table.numpy()
    options = {"only": only, "exclude": exclude, "mainstream": dial}
    by_user = ranker.top(np.arange(len(queries)), k, without=interactions(own), **options)
    by_vector = ranker.top_of(queries, k, without=[np.flatnonzero(row) for row in own], **options)
    places = np.broadcast_to(vectors.mainstream if dial is None else dial, len(queries)).tolist()
    allowed = range(vectors.n_items) if only is None else only.tolist()
    closed = () if exclude is None else exclude.tolist()
    for row, place in enumerate(places):
        listed = [item for item in allowed if item not in closed and not own[row, item]]
        reach = torch.zeros(vectors.n_items, 1) if vectors.item_reach is None else vectors.item_reach
        tables = vectors.item_table.tolist(), reach.tolist()
        expected = best_with_reach(queries[row].tolist(), *tables, place, listed, k, ball=vectors.constraint == "ball")
        missing = k - len(expected)
        for found in (by_user, by_vector):
            assert found.items[row].tolist() == [item for item, _ in expected] + [-1] * missing
            assert found.scores[row].tolist() == [score for _, score in expected] + [-np.inf] * missing


# --- Through an index ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[16, 32], ids="D = {}".format)
def plain(request):
    return clustered(n_users=60, dim=request.param)


@pytest.fixture(scope="module")
def vectors(plain):
    return with_reach(plain)


@pytest.fixture(scope="module")
def ranker(vectors):
    return UsearchRanker.build(vectors, GRAPH)


def test_an_index_finds_as_much_as_without_reach_wherever_the_dial_is(plain, vectors, ranker):
    users = np.arange(60)
    without = recall(UsearchRanker.build(plain, GRAPH).top(users, 20).items, ExactRanker(plain).top(users, 20).items)
    lists = []
    for place in DIAL:
        found, true = (one.top(users, 20, mainstream=place) for one in (ranker, ExactRanker(vectors)))
        assert recall(found.items, true.items) >= without - 0.005
        same = found.items == true.items
        assert found.scores[same] == pytest.approx(true.scores[same], abs=1e-6)
        lists.append(true.items)
    assert recall(lists[0], lists[-1]) < 0.9


def test_what_is_left_out_is_left_out_wherever_the_dial_is(vectors, ranker):
    users, places, exact = np.arange(9), np.array(DIAL), ExactRanker(vectors)
    nearest = exact.top(users, 40, mainstream=places).items
    own = np.zeros((60, 3000), int)
    own[users[:, None], nearest[:, :10]] = 1
    options = {"without": interactions(own), "exclude": np.unique(nearest[:, 10]), "mainstream": places}
    found, expected = (one.top(users, 20, **options).items for one in (ranker, exact))
    assert not np.isin(found, options["exclude"]).any()
    assert not any(set(a) & set(b) for a, b in zip(found.tolist(), nearest[:, :10].tolist(), strict=True))
    assert recall(found, expected) > 0.98
    only = np.arange(0, 3000, 7)
    found, expected = (one.top(users, 20, only=only, mainstream=places).items for one in (ranker, exact))
    assert np.array_equal(found, expected)
    assert np.isin(found, only).all()


# --- Its file --------------------------------------------------------------------------------------------------------


def test_the_index_of_another_reach_is_refused(plain, vectors, ranker, tmp_path):
    ranker.save(tmp_path / "x.usearch")
    other = vectors.item_reach.clone()
    other[17, 1] += 1e-6
    for others in (replace(vectors, item_reach=other), plain):
        with pytest.raises(DataError, match="checksum"):
            UsearchRanker.load(tmp_path / "x.usearch", others)
    UsearchRanker.load(tmp_path / "x.usearch", replace(vectors, mainstream=-3.0))  # a default is no part of it
