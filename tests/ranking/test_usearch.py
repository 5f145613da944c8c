"""The index of usearch: what it finds, when it gives way to exact ranking, its file, and indexes of parts, merged."""

import importlib
import pickle
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from usearch.index import Index

import spherec
from spherec.errors import DataError, MissingPackageError
from spherec.geometry import DenseVectors, unit
from spherec.ranking import ExactRanker, MergedRanker, usearch
from spherec.ranking.ranker import take_items
from spherec.ranking.usearch import Hnsw, UsearchRanker
from tests.recommender.models import ITEMS, USERS, model_of, small
from tests.sampling.checks import directions, generator, interactions, random_rows

GRAPH = Hnsw(exact_beyond=1.0)


def clustered(n_users=40, n_items=3000, dim=16, constraint="sphere"):
    """Items around 60 places, and users among them."""
    places = directions(60, dim)
    rows = (places[torch.arange(n) % 60] for n in (n_users, n_items))
    users, items = (unit(one + 0.15 * torch.empty(one.shape).normal_(generator=generator(2))) for one in rows)
    if constraint == "ball":
        items = items * torch.empty(n_items, 1).uniform_(0.2, 1, generator=generator(3))
    return DenseVectors(users, items, constraint)


def recall(found, true):
    return np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found.tolist(), true.tolist(), strict=True)])


@pytest.fixture(scope="module", params=["sphere", "ball"])
def vectors(request):
    return clustered(constraint=request.param)


@pytest.fixture(scope="module")
def ranker(vectors):
    return UsearchRanker.build(vectors, GRAPH)


# --- What it finds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_nearly_all_is_found_and_scored_exactly(vectors, dtype):
    ranker = UsearchRanker.build(vectors, replace(GRAPH, dtype=dtype))
    found, true = (one.top(np.arange(40), 20) for one in (ranker, ExactRanker(vectors)))
    assert recall(found.items, true.items) > 0.98
    same = found.items == true.items
    assert same.mean() > 0.95
    assert found.scores[same].tobytes() == true.scores[same].tobytes()


def test_the_graph_is_asked_until_there_is_enough(vectors, monkeypatch):
    ranker = UsearchRanker.build(vectors, replace(GRAPH, width=2))
    search, asked = ranker._index.search, []

    def stingy(queries, count, **options):
        """Finds a quarter of what it is asked for, as a graph in pieces may."""
        asked.append(count)
        found = search(queries, count, **options)
        found.counts[:] = count // 4
        return found

    monkeypatch.setattr(ranker._index, "search", stingy)
    found = ranker.top(np.arange(40), 20).items
    assert asked == [64, 128]
    assert (found >= 0).all()
    assert recall(found, ExactRanker(vectors).top(np.arange(40), 20).items) > 0.98


@pytest.mark.parametrize(("share", "through_the_graph"), [(0.0, 0), (99 / 3000, 0), (100 / 3000, 20), (1.0, 40)])
def test_beyond_a_share_of_the_catalogue_all_items_are_looked_at(vectors, share, through_the_graph, monkeypatch):
    ranker = UsearchRanker.build(vectors, replace(GRAPH, width=5, exact_beyond=share))
    search, asked = ranker._index.search, []
    monkeypatch.setattr(
        ranker._index, "search", lambda queries, *a, **o: asked.append(len(queries)) or search(queries, *a, **o)
    )
    own = np.zeros((40, 3000), int)
    own[:20, :50] = 1
    found = ranker.top(np.arange(40), 20, without=interactions(own)).items
    assert sum(asked) == through_the_graph
    assert (found >= 0).all()


# --- Its file --------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(ranker, tmp_path):
    ranker.save(tmp_path / "model.usearch")
    return tmp_path / "model.usearch"


def test_the_loaded_index_gives_the_same_lists(path, ranker, vectors):
    loaded = UsearchRanker.load(path, vectors)
    assert loaded.config == ranker.config
    ours, theirs = (each.top(np.arange(40), 30) for each in (loaded, ranker))
    assert np.array_equal(ours.items, theirs.items)
    assert np.array_equal(ours.scores, theirs.scores)
    assert UsearchRanker.load(path, vectors, width=9.5).config == replace(ranker.config, width=9.5)


def test_one_thread_builds_the_same_file_twice(path, vectors, tmp_path):
    assert torch.get_num_threads() == 1
    UsearchRanker.build(vectors, GRAPH).save(tmp_path / "again.usearch")
    assert path.read_bytes() == (tmp_path / "again.usearch").read_bytes()


def test_usearch_alone_reads_the_file(path, vectors):
    index = Index.restore(path, view=True)
    assert len(index) == 3000
    found = index.search(vectors.user_table.numpy(), 20).keys
    assert recall(found, ExactRanker(vectors).top(np.arange(40), 20).items) > 0.9


@pytest.mark.parametrize(
    "change",
    [
        lambda vectors: replace(vectors, item_table=vectors.item_table[:-1]),
        lambda vectors: DenseVectors(vectors.user_table[:, 1:], vectors.item_table[:, 1:], vectors.constraint),
        lambda vectors: replace(vectors, constraint={"sphere": "ball", "ball": "sphere"}[vectors.constraint]),
        lambda vectors: replace(vectors, item_table=torch.nextafter(vectors.item_table, torch.ones(1))),
    ],
    ids=["items", "dim", "constraint", "checksum"],
)
def test_the_index_of_other_vectors_is_refused(path, vectors, change):
    with pytest.raises(DataError, match="other vectors"):
        UsearchRanker.load(path, change(vectors))


def test_every_byte_counts(path, vectors):
    content = path.read_bytes()
    wrong = [content[: int(share * len(content))] for share in (0.0, 0.001, 0.5, 0.9999)]
    for at in (0, 60, 318_464, len(content) - 200, len(content) - 20, len(content) - 12, len(content) - 1):
        wrong.append(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    for each in wrong:
        path.write_bytes(each)
        with pytest.raises(DataError, match="damaged"):
            UsearchRanker.load(path, vectors)


@pytest.mark.parametrize("is_loaded", [False, True], ids=["built", "loaded"])
def test_a_graph_is_extended_while_another_thread_searches(path, ranker, vectors, is_loaded):
    old = UsearchRanker.load(path, vectors) if is_loaded else ranker.with_vectors(vectors)
    more = replace(vectors, item_table=torch.cat((vectors.item_table, vectors.item_table[:7].flip(1))))
    grown = []
    with usearch._LOCK:  # as a search holds it
        extending = threading.Thread(target=lambda: grown.append(old.extend(more)), daemon=True)
        extending.start()
        extending.join(30)
        assert grown, "it waits for the search"
    assert len(grown[0]._index) == vectors.n_items + 7
    found = grown[0].top(np.arange(40), 20).items
    assert recall(found, ExactRanker(more).top(np.arange(40), 20).items) > 0.98


def test_without_usearch_the_error_names_the_remedy(hide):
    hide("usearch", "spherec.ranking.usearch")
    with pytest.raises(MissingPackageError, match=r"an index needs usearch.*pip install usearch"):
        importlib.import_module("spherec.ranking.usearch")


pytest.importorskip("usearch")

PARTS = 4


def merged(vectors, make):
    return MergedRanker([make(take_items(vectors, j, PARTS)) for j in range(PARTS)], vectors)


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
def test_indexes_of_parts_find_as_much_as_one(constraint, set_threads):
    set_threads(1)  # with several, the graph of an index is another one at each run
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
