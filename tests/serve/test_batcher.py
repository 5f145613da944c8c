"""Queries ranked together: the lists of each alone; a bounded queue; a failure that stays with its request."""

import asyncio
import os
import threading
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

import spherec
from spherec.serve import ServeOptions, batcher
from spherec.serve.batcher import Batcher, BusyError, Query, rank_together
from spherec.serve.served_model import ServedModel, stamp_files


@pytest.fixture(scope="module")
def served(model_file):
    return ServedModel.load(ServeOptions(model_file))


def test_indexes_of_all_parts_are_served_and_watched(model_file, tmp_path):
    pytest.importorskip("usearch")
    files = [tmp_path / f"{j}.usearch" for j in range(2)]
    for j, file in enumerate(files):
        spherec.load(model_file, items=(j, 2)).build_index(file)
    options = ServeOptions(model_file, index=files)
    served = ServedModel.load(options)
    assert len(served.model.ranker.rankers) == 2
    assert served.stamp == stamp_files(options)
    os.utime(files[1], (0, 0))
    assert served.stamp != stamp_files(options)


def draw_query(served, rng):
    """A query of a random kind."""
    model, k = served.model, int(rng.integers(1, 31))
    own = np.unique(rng.integers(0, 30, rng.integers(1, 9)))
    only = np.unique(rng.integers(0, 30, 12)) if rng.random() < 0.3 else None
    left_out = own if rng.random() < 0.5 else own[:0]
    vector = None if rng.random() < 0.4 else model.vectors.user_table[int(rng.integers(12))].numpy()
    mainstream = float(rng.uniform(-1, 1)) if rng.random() < 0.5 else None
    offset = int(rng.integers(0, 5)) if rng.random() < 0.3 else 0
    return Query(served, vector, k, offset, own, left_out, only, mainstream, int(rng.integers(0, 4)))


def test_every_list_is_the_one_that_its_query_gets_alone(served):
    rng = np.random.default_rng(0)
    queries = [draw_query(served, rng) for _ in range(150)]
    for query, together in zip(queries, rank_together(queries), strict=True):
        (alone,) = rank_together([query])
        assert together.items.tolist() == alone.items.tolist()
        assert together.scores.tobytes() == alone.scores.tobytes()
        if query.reasons:
            assert together.reasons.items.tolist() == alone.reasons.items.tolist()
            assert not np.any(together.reasons.items == together.items[:, None]), "an item is no reason for itself"
        allowed = set(range(30)) if query.only is None else set(query.only.tolist())
        assert set(together.items.tolist()) <= allowed - set(query.left_out.tolist())
        n_allowed = len(allowed - set(query.left_out.tolist()))
        assert len(together.items) == min(query.k, max(n_allowed - query.offset, 0))


def test_reasons_are_found_for_the_items_that_are_listed_alone(served):
    own = np.arange(4)
    whole = Query(served, served.model.vectors.user_table[0].numpy(), 9, 0, own, own, reasons=2)
    (rest,) = rank_together([replace(whole, k=3, offset=6)])
    (every,) = rank_together([whole])
    assert rest.items.tolist() == every.items[6:].tolist()
    assert rest.reasons.items.tolist() == every.reasons.items[6:].tolist()


@pytest.fixture
def gate(monkeypatch):
    """Ranking waits until it is opened, and notes the sizes of what it is given."""
    opened, sizes = threading.Event(), []

    def wait_and_rank(queries):
        sizes.append(len(queries))
        assert opened.wait(10)
        return rank_together(queries)

    monkeypatch.setattr(batcher, "rank_together", wait_and_rank)
    opened.sizes = sizes
    return opened


def query(served):
    return Query(served, served.model.vectors.user_table[0].numpy(), 3)


def test_what_waits_is_ranked_together(served, gate):
    async def ask():
        queue = Batcher(1, batch=8)
        queue.start(lambda _: None)
        first = queue.rank([query(served)])
        while not gate.sizes:
            await asyncio.sleep(0.001)
        rest = [queue.rank([query(served)] * 2) for _ in range(6)]
        gate.set()
        lists = await asyncio.gather(first, *rest)
        queue.close()
        return lists

    lists = asyncio.run(ask())
    assert gate.sizes == [1, 8, 4]
    assert [len(one) for one in lists] == [1, *[2] * 6]


def test_a_full_queue_refuses_and_a_closed_one_answers_what_it_has(served, gate):
    async def ask():
        queue = Batcher(1, batch=4, queue=3)
        queue.start(lambda _: None)
        waiting = [queue.rank([query(served)])]
        while not gate.sizes:
            await asyncio.sleep(0.001)
        waiting += [queue.rank([query(served)]) for _ in range(3)]
        with pytest.raises(BusyError, match="3 lists are waiting"):
            queue.rank([query(served)])
        assert queue.waiting == 3
        closing = asyncio.create_task(asyncio.to_thread(queue.close))
        await asyncio.sleep(0.01)
        with pytest.raises(BusyError, match="stopping"):
            queue.rank([query(served)])
        gate.set()
        await closing
        return await asyncio.wait_for(asyncio.gather(*waiting), 5)

    assert all(len(one[0].items) == 3 for one in asyncio.run(ask()))


def test_a_query_that_fails_fails_alone(served, monkeypatch):
    broken = query(served)

    def fail_for_broken(queries):
        if broken in queries:
            raise RuntimeError("broken")
        return rank_together(queries)

    monkeypatch.setattr(batcher, "rank_together", fail_for_broken)

    async def ask():
        queue = Batcher(1, window=0.05)
        queue.start(lambda _: None)
        answers = [queue.rank([one]) for one in (query(served), broken, query(served))]
        found = await asyncio.gather(*answers, return_exceptions=True)
        queue.close()
        return found

    first, error, last = asyncio.run(ask())
    assert str(error) == "broken"
    assert len(first[0].items) == len(last[0].items) == 3
