"""Devices, locks after a fork; and threads: one for small steps, all for large operations in them."""

import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from spherec.device import ProcessLock, measure_peak, resolve, run_at_once, split_work, threads_for
from spherec.errors import ArgumentError

CPU = torch.device("cpu")


@pytest.mark.parametrize(("found", "forked"), [(True, False), (False, False), (True, True)])
def test_a_gpu_is_chosen_where_there_is_one_that_can_be_used(monkeypatch, found, forked):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: found)
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: forked)
    usable = found and not forked
    assert resolve("auto").type == ("cuda" if usable else "cpu")
    assert resolve("cpu") == resolve(torch.device("cpu")) == CPU
    if not usable:
        with pytest.raises(ArgumentError, match="use 'auto' or 'cpu'"):
            resolve("cuda")


@pytest.mark.parametrize("name", ["gpu", "CPU", "cuda:0", "", None])
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(ArgumentError, match=f"one of auto, cpu, cuda, got {name!r}"):
        resolve(name)


def test_memory_is_what_was_taken_at_the_peak():
    with measure_peak(CPU) as peak:
        torch.ones(25_000_000)  # 100 MB, and gone again
    if peak.mb is None:
        pytest.skip("this system does not report it")
    assert 95 < peak.mb < 140
    with measure_peak(CPU) as peak:
        pass
    assert peak.mb < 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_lock_is_free_in_a_child_and_in_a_copy():
    lock = ProcessLock()
    with lock, lock:
        with pickle.loads(pickle.dumps(lock)):
            pass
        child = os.fork()
        if not child:
            with lock:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


@pytest.fixture
def three(set_threads):
    set_threads(3)


@pytest.mark.parametrize(("batch_size", "inside"), [(256, 1), (1024, 1), (1025, 3)])
@pytest.mark.usefixtures("three")
def test_small_batches_get_one_thread_also_where_they_fail(batch_size, inside):
    def fail():
        with threads_for(batch_size, CPU):
            assert torch.get_num_threads() == inside
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize("batch_size", [64, 4096])
@pytest.mark.usefixtures("three")
def test_large_work_is_divided_among_as_many_threads_as_before(batch_size):
    together = threading.Barrier(3)

    def count_threads():
        together.wait(timeout=10)  # all three are at work
        return torch.get_num_threads(), threading.get_ident()

    with threads_for(batch_size, CPU):
        assert split_work(10, 1 << 30) == [slice(0, 3), slice(3, 6), slice(6, 10)]
        counts, threads = zip(*run_at_once([count_threads] * 3), strict=True)
    assert counts == (1, 1, 1)
    assert len(set(threads)) == 3
    assert (threading.get_ident() in threads) == (batch_size == 64)  # this thread works, too, unless it has several


@pytest.mark.usefixtures("three")
def test_little_work_stays_in_one_piece():
    with threads_for(64, CPU):
        assert split_work(10, 1000) == [slice(0, 10)]
        assert split_work(0, 1 << 30) == [slice(0, 0)]
        assert len(split_work(10, 1 << 24)) == 2
        assert run_at_once([torch.get_num_threads]) == [1]
    assert split_work(10, 1 << 30) == [slice(0, 10)], "outside of a step"
    assert run_at_once([torch.get_num_threads] * 2) == [3, 3]
    with threads_for(64, CPU), pytest.raises(ZeroDivisionError):
        run_at_once([lambda: 1 // 0, lambda: 1])


@pytest.mark.usefixtures("three")
def test_other_threads_keep_theirs():
    """A thread that begins in the meantime, one that was there before, and two that train at once."""
    seen, began, ask = [], threading.Event(), threading.Event()

    def note():
        torch.ones(10).sum()  # torch counts the threads of a thread when it is first used there
        seen.append(torch.get_num_threads())

    def note_twice():
        note()
        began.set()
        ask.wait()
        note()

    old = threading.Thread(target=note_twice)
    old.start()
    began.wait()
    with threads_for(1, CPU), ThreadPoolExecutor(1) as pool:
        new = threading.Thread(target=note)
        new.start()
        new.join()
        ask.set()
        old.join()
        other = threads_for(1, CPU)
        pool.submit(other.__enter__).result()
        pool.submit(other.__exit__, None, None, None).result()
        assert torch.get_num_threads() == 1
    new = threading.Thread(target=note)
    new.start()
    new.join()
    assert seen == [3, 3, 3, 3]
    assert torch.get_num_threads() == 3
