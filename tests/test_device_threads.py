"""Threads: one for small steps, all for large operations in them, and afterwards as before."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from spherec.device import run_at_once, split_work, threads_for

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def three():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("batch_size", "inside"), [(256, 1), (1024, 1), (1025, 3)])
def test_small_batches_get_one_thread(batch_size, inside):
    with threads_for(batch_size, CPU):
        assert torch.get_num_threads() == inside
    assert torch.get_num_threads() == 3


def test_after_an_error_there_are_as_many_as_before():
    with pytest.raises(ZeroDivisionError), threads_for(1, CPU):
        1 / 0  # noqa: B018
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize("batch_size", [64, 4096])
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


def test_little_work_stays_in_one_piece():
    with threads_for(64, CPU):
        assert split_work(10, 1000) == [slice(0, 10)]
        assert split_work(0, 1 << 30) == [slice(0, 0)]
        assert len(split_work(10, 1 << 24)) == 2
        assert run_at_once([torch.get_num_threads]) == [1]


def test_outside_of_a_step_work_stays_in_one_piece():
    assert split_work(10, 1 << 30) == [slice(0, 10)]
    assert run_at_once([torch.get_num_threads] * 2) == [3, 3]


def test_an_error_in_a_part_is_raised():
    with threads_for(64, CPU), pytest.raises(ZeroDivisionError):
        run_at_once([lambda: 1 // 0, lambda: 1])


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
