"""Threads: one for small steps, all for large products, and afterwards as before."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from spherec import device
from spherec.device import product, threads_for

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


class Told(torch.Tensor):
    """Notes how many threads there are when it is multiplied."""

    threads: list = []  # noqa: RUF012

    def __matmul__(self, other):
        Told.threads.append(torch.get_num_threads())
        return torch.Tensor.__matmul__(self, other)


@pytest.mark.parametrize(("n", "many"), [(8, 1), (4096, 3)])
def test_large_products_get_all_threads_also_in_a_small_step(n, many, monkeypatch):
    Told.threads.clear()
    multiply = device._multiply_into

    def note_threads(*tensors):
        Told.threads.append(torch.get_num_threads())
        multiply(*tensors)

    monkeypatch.setattr(device, "_multiply_into", note_threads)
    one, other = torch.randn(n, 128), torch.randn(128, 256)
    with threads_for(64, CPU):
        result = product(one.as_subclass(Told), other)
        assert torch.get_num_threads() == 1
    assert Told.threads == [many]
    torch.testing.assert_close(result.as_subclass(torch.Tensor), one @ other)


def test_outside_of_a_step_nothing_changes():
    Told.threads.clear()
    product(torch.randn(4096, 128).as_subclass(Told), torch.randn(128, 256))
    assert Told.threads == [3]


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
