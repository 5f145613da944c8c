"""Lists ranked together: those of each alone; a bounded queue; a failure that stays with its request."""

import asyncio
import threading

import numpy as np
import pytest

from spherec.recommender.trained_model import Query
from spherec.serve import ServeOptions
from spherec.serve.batcher import Batcher, BusyError
from spherec.serve.metrics import Metrics
from spherec.serve.served_model import ServedModel

QUERY = Query(user=0, k=3)


@pytest.fixture(scope="module")
def versions(model_file):
    """Two versions of a model."""
    return [ServedModel.load(ServeOptions(model_file)) for _ in range(2)]


@pytest.fixture
def served(versions):
    return versions[0]


@pytest.fixture
def gate(monkeypatch):
    """Ranking waits until it is opened, and notes the numbers of lists that it is given."""
    opened, rank = threading.Event(), ServedModel.rank

    def wait_and_rank(served, queries):
        opened.sizes.append(len(queries))
        assert opened.wait(10)
        return rank(served, queries)

    monkeypatch.setattr(ServedModel, "rank", wait_and_rank)
    opened.sizes = []
    return opened


def draw(rng):
    """A list of a random kind."""
    place = {"user": int(rng.integers(12))} if rng.random() < 0.5 else {"basket": np.unique(rng.integers(0, 30, 5))}
    only = np.unique(rng.integers(0, 30, 12)) if rng.random() < 0.3 else None
    dial = float(rng.uniform(-1, 1)) if rng.random() < 0.5 else None
    return Query(k=int(rng.integers(1, 31)), only=only, mainstream=dial, **place)


async def ask_first(batcher, served, gate):
    """Ask for a list, and wait until it is ranked."""
    first = batcher.rank(served, [QUERY])
    while not gate.sizes:
        await asyncio.sleep(0.001)
    return first


def test_every_list_is_the_one_that_it_is_alone(versions, gate):
    rng, batcher = np.random.default_rng(0), Batcher(1, 200, Metrics())
    wanted = [(versions[int(rng.random() < 0.2)], draw(rng)) for _ in range(150)]

    async def ask():
        waiting = [await ask_first(batcher, versions[0], gate)]
        waiting += [batcher.rank(served, [query]) for served, query in wanted]
        gate.set()
        return (await asyncio.gather(*waiting))[1:]

    for (served, query), (together,) in zip(wanted, asyncio.run(ask()), strict=True):
        (alone,) = served.rank([query])
        assert together.items.tolist() == alone.items.tolist()
        assert together.scores.tobytes() == alone.scores.tobytes()
        assert len(together.items) == len(together.scores) <= query.k
    assert max(gate.sizes) > 30


def test_a_full_queue_refuses_and_a_closed_one_answers_what_it_has(served, gate):
    batcher = Batcher(1, 3, Metrics(), batch=4)

    async def ask():
        waiting = [await ask_first(batcher, served, gate)]
        waiting += [batcher.rank(served, [QUERY]) for _ in range(3)]
        with pytest.raises(BusyError, match="3 lists"):
            batcher.rank(served, [QUERY])
        waiting.pop().cancel()  # a client that has gone
        closing = asyncio.create_task(asyncio.to_thread(batcher.close))
        await asyncio.sleep(0.05)
        gate.set()
        await closing
        return await asyncio.wait_for(asyncio.gather(*waiting), 5)

    assert all(len(lists[0].items) == 3 for lists in asyncio.run(ask()))
    assert gate.sizes == [1, 2]


def test_a_list_that_fails_fails_alone(served, gate):
    batcher = Batcher(1, 64, Metrics())

    async def ask():
        await ask_first(batcher, served, gate)
        answers = [batcher.rank(served, [query]) for query in (QUERY, Query(user=10**6, k=3), QUERY)]
        gate.set()
        return await asyncio.gather(*answers, return_exceptions=True)

    first, error, last = asyncio.run(ask())
    assert "1000000" in str(error)
    assert len(first[0].items) == len(last[0].items) == 3
