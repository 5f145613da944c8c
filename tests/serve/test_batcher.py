"""Lists ranked together: those of each alone; a bounded queue; a failure that stays with its request."""

import asyncio
import threading
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from spherec.recommender.trained_model import Query
from spherec.serve import ServeOptions, batcher
from spherec.serve.batcher import Batcher, BusyError, Wanted, rank_together
from spherec.serve.metrics import Metrics
from spherec.serve.served_model import ServedModel


@pytest.fixture(scope="module")
def served(model_file):
    return ServedModel.load(ServeOptions(model_file))


def draw(served, rng):
    """A list of a random kind."""
    place = {"user": int(rng.integers(12))} if rng.random() < 0.5 else {"basket": np.unique(rng.integers(0, 30, 5))}
    only = np.unique(rng.integers(0, 30, 12)) if rng.random() < 0.3 else None
    dial = float(rng.uniform(-1, 1)) if rng.random() < 0.5 else None
    return Wanted(served, Query(k=int(rng.integers(1, 31)), only=only, mainstream=dial, **place))


def test_every_list_is_the_one_that_it_is_alone(served, model_file):
    rng, other = np.random.default_rng(0), ServedModel.load(ServeOptions(model_file))
    wanted = [draw(served if rng.random() < 0.8 else other, rng) for _ in range(150)]
    for one, together in zip(wanted, rank_together(wanted), strict=True):
        (alone,) = rank_together([one])
        assert together.items.tolist() == alone.items.tolist()
        assert together.scores.tobytes() == alone.scores.tobytes()
        assert len(together.items) == len(together.scores) <= one.query.k


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


def wanted(served):
    return Wanted(served, Query(user=0, k=3))


@contextmanager
def running(queue=64, **options):
    """A batcher in the event loop that runs."""
    made = Batcher(1, queue, Metrics(), **options)
    made.start()
    yield made
    made.close()


async def ask_first(queue, served, gate):
    """Ask for a list, and wait until it is ranked."""
    first = queue.rank([wanted(served)])
    while not gate.sizes:
        await asyncio.sleep(0.001)
    return first


def test_what_waits_is_ranked_together(served, gate):
    async def ask():
        with running(batch=8) as queue:
            first = await ask_first(queue, served, gate)
            rest = [queue.rank([wanted(served)] * 2) for _ in range(6)]
            gate.set()
            return await asyncio.gather(first, *rest)

    assert [len(lists) for lists in asyncio.run(ask())] == [1, *[2] * 6]
    assert gate.sizes == [1, 8, 4]


def test_a_full_queue_refuses_and_a_closed_one_answers_what_it_has(served, gate):
    async def ask():
        with running(batch=4, queue=3) as queue:
            waiting = [await ask_first(queue, served, gate)]
            waiting += [queue.rank([wanted(served)]) for _ in range(3)]
            with pytest.raises(BusyError, match="3 lists"):
                queue.rank([wanted(served)])
            closing = asyncio.create_task(asyncio.to_thread(queue.close))
            await asyncio.sleep(0.01)
            with pytest.raises(BusyError, match="stopping"):
                queue.rank([wanted(served)])
            gate.set()
            await closing
            return await asyncio.wait_for(asyncio.gather(*waiting), 5)

    assert all(len(lists[0].items) == 3 for lists in asyncio.run(ask()))


def test_a_list_that_fails_fails_alone(served):
    async def ask():
        broken = Wanted(served, Query(user=10**6, k=3))
        with running() as queue:
            answers = [queue.rank([one]) for one in (wanted(served), broken, wanted(served))]
            return await asyncio.gather(*answers, return_exceptions=True)

    first, error, last = asyncio.run(ask())
    assert "1000000" in str(error)
    assert len(first[0].items) == len(last[0].items) == 3
