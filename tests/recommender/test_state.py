"""One version of a model at a time: under threads, in copies and in pickles."""

import copy
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import spherec
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError
from spherec.recommender import fold_in
from tests.recommender.models import ITEMS, USERS, model_of, small

DATA = small()
NEW = Interactions.from_pairs(["u1", "u2", "new", "new"], ["i30", "i31", "i30", "i2"])
QUICK = {"dim": 6, "sampler": spherec.Uniform(2), "batch_size": 32, "epochs": 2, "device": "cpu"}


def answers(model):
    return [
        model.recommend(USERS, 50),
        model.recommend(USERS[:3], 4, only=ITEMS[:9], exclude=["i1"]),
        model.recommend_for(["i1", "i2"], 50),
        model.similar_items("i1", 50),
        model.similar_users("u1", 20),
    ]


def test_threads_see_one_version_while_a_model_learns():
    model = spherec.CML(**QUICK).fit(DATA, validation=0, progress=False)
    versions, stop, answered = [answers(model)], threading.Event(), threading.Barrier(9)

    def ask():
        given = []
        answered.wait()
        while not stop.is_set():
            given += answers(model)
        return given

    with ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(ask) for _ in range(8)]
        answered.wait()
        try:
            for round_ in range(6):
                rows = Interactions.from_pairs(["u1", f"n{round_}"], [f"new{round_}", "i2"])
                model.partial_fit(rows, validation=0, progress=False)
                versions.append(answers(model))
        finally:
            stop.set()
        given = [result for future in asking for result in future.result()]
    known = [result for version in versions for result in version]
    assert given
    assert all(any(result == other for other in known) for result in given), "every answer is of one version"


def test_threads_see_one_version_while_an_index_is_built():
    pytest.importorskip("usearch")
    from spherec.ranking.usearch import Hnsw

    model = model_of(DATA)
    true, stop = model.recommend(USERS, 5), threading.Event()

    def ask():
        given = []
        while not stop.is_set():
            given.append(model.recommend(USERS, 5))
        return given

    with ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(ask) for _ in range(8)]
        for _ in range(10):
            model.build_index(config=Hnsw(width=50, exact_beyond=1.0)).use_index(None)
        stop.set()
        given = [result for future in asking for result in future.result()]
    assert all(result.columns["item"] == true.columns["item"] for result in given)


def test_a_reader_that_is_slow_does_not_keep_the_old_version(monkeypatch):
    """A thread derives the pool of fold-in from the old version while a new one comes; the next call sees the new."""
    model = spherec.CML(**QUICK).fit(DATA, validation=0, progress=False)
    inside, go_on, draw = threading.Event(), threading.Event(), fold_in.NegativePool.draw

    def slow(artifact):
        inside.set()
        assert go_on.wait(10)
        return draw(artifact)

    monkeypatch.setattr(fold_in.NegativePool, "draw", slow)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(model.recommend_for, ["i1"], 50)
        assert inside.wait(10)
        monkeypatch.setattr(fold_in.NegativePool, "draw", draw)
        model.fit(small(seed=9, items=[*ITEMS, "i30"]), validation=0, progress=False)
        go_on.set()
        assert "i30" not in asked.result().columns["item"]
    assert "i30" in model.recommend_for(["i1"], 50).columns["item"]
    assert "i30" in model.recommend("u1", 50, exclude_seen=False).columns["item"]


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("index", [False, True])
def test_copies_answer_alike_and_have_no_index(again, index):
    model = model_of(DATA)
    before = answers(model)
    if index:
        pytest.importorskip("usearch")
        model.build_index()
    other = again(model)
    assert answers(other) == before
    assert other.config == model.config
    if again is not copy.copy:
        assert other._current.index is None
    other.partial_fit(NEW, validation=0, progress=False)
    assert (model.data.n_users, other.data.n_users) == (12, 13), "a copy is a model of its own"
    assert answers(model) == answers(model)


def test_a_process_forked_after_loading_answers(tmp_path):
    """As `gunicorn --preload` does: nothing in `load` may start threads that the child then waits for."""
    script = """
import multiprocessing, spherec, sys
model = spherec.load(sys.argv[1], device="cpu")
ask = lambda: model.recommend(list(model.data.user_ids), 5) and model.recommend_for(list(model.data.item_ids)[:3])
child = multiprocessing.get_context("fork").Process(target=ask)
child.start()
child.join(60)
child.kill()
sys.exit(child.exitcode)
"""
    rows = np.random.default_rng(0).random((400, 3000)) < 0.01
    model_of(Interactions.from_matrix(rows), dim=64).save(tmp_path / "m.spherec")
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": str(Path(spherec.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", script, tmp_path / "m.spherec"], env=environment, check=True, timeout=100)


def test_an_untrained_model_can_be_copied():
    assert copy.deepcopy(spherec.CML(**QUICK)).fit(DATA, validation=0, progress=False).data == DATA


def test_k_is_cut_to_what_there_is():
    model = model_of(DATA)
    whole = model.recommend("u1", 30)
    for k in (10**9, 2**40, 2**62, np.int64(31), np.uint8(200)):
        assert model.recommend("u1", k) == whole
        assert len(model.similar_users("u1", k)) == 11
        assert len(model.similar_items("i1", k)) == 29
    assert model.recommend("u1", np.int64(3)) == model.recommend("u1", 3)


def test_vectors_that_are_no_numbers_are_refused(tmp_path):
    model = model_of(DATA)
    with pytest.raises(ArgumentError, match="queries must be finite, got NaN or infinity in row 1"):
        model._current.exact.top_of(np.array([[0.0] * 6, [np.nan] * 6], np.float32), 3)
    model.vectors.item_table[5] = float("nan")
    with pytest.raises(ArgumentError, match="item vectors must be finite, got NaN or infinity in row 5"):
        model.save(tmp_path / "m.spherec")
    assert not list(tmp_path.iterdir())
