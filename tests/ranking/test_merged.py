"""Indexes of parts of the items, merged: as good as one index, and the same as one exact ranker."""

import pickle

import numpy as np
import pytest
import torch

import spherec
from spherec.errors import DataError
from spherec.ranking import ExactRanker, MergedRanker
from spherec.ranking.ranker import take_items
from tests.ranking.test_usearch import GRAPH, clustered, recall
from tests.recommender.models import ITEMS, USERS, model_of, small
from tests.sampling.checks import interactions, random_rows

pytest.importorskip("usearch")
from spherec.ranking.usearch import UsearchRanker

PARTS = 4


def merged(vectors, make):
    return MergedRanker([make(take_items(vectors, j, PARTS)) for j in range(PARTS)], vectors)


@pytest.fixture
def one_thread():
    """With several threads, the graph of an index is another one at each run."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("constraint", ["sphere", "ball"])
def test_indexes_of_parts_find_as_much_as_one(constraint):
    vectors = clustered(constraint=constraint)
    users, without = np.arange(40), interactions(random_rows(40, 3000, 0.01))
    true, one, several = (
        ranker.top(users, 20, without=without).items
        for ranker in (
            ExactRanker(vectors),
            UsearchRanker.build(vectors, GRAPH),
            merged(vectors, lambda part: UsearchRanker.build(part, GRAPH)),
        )
    )
    assert recall(several, true) >= recall(one, true) > 0.98


def test_a_model_answers_through_the_indexes_of_its_parts(tmp_path):
    """Each is built by whoever has that part of the items alone."""
    model = model_of(small(density=0.1), mainstream=0.6)
    model.save(tmp_path / "m.spherec", shards=PARTS)
    files = [tmp_path / f"{j}.usearch" for j in range(PARTS)]
    for j, file in enumerate(files):
        spherec.load(tmp_path / "m.spherec", items=(j, PARTS), mmap=True).build_index(file, GRAPH)
    loaded = spherec.load(tmp_path / "m.spherec", index=files, mmap=True)
    assert isinstance(loaded.ranker, MergedRanker)
    for answer in (
        lambda model: model.recommend(USERS, 8),
        lambda model: model.recommend(USERS, 8, mainstream=-0.5),
        lambda model: model.recommend_for(ITEMS[:3], 5),
        lambda model: model.similar_items(ITEMS[:5], 4),
    ):
        assert answer(loaded) == answer(model)
        assert answer(pickle.loads(pickle.dumps(loaded))) == answer(model)
    grown, expected = (one.fold_in(small(users=["new"], density=0.5)) for one in (loaded, model))
    assert isinstance(grown.ranker, MergedRanker)
    assert grown.recommend("new", 5) == expected.recommend("new", 5)
    with pytest.raises(DataError, match="is the index of other vectors"):
        model.use_index(files[::-1])
    with pytest.raises(DataError, match="is the index of other vectors"):
        model.use_index(files[:2])
