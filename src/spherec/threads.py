"""How many threads an operation on a CPU is worth."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_SMALL = 1024  # pairs in a batch
_LARGE = 1 << 26  # multiplications

_taken = threading.local()  # `before`: how many there were before `threads_for` took them away; 0 outside


@contextmanager
def threads_for(batch_size: int, device: torch.device) -> Iterator[None]:
    """Inside, torch uses one thread for small batches on a CPU, and as many as before for all else.

    The operations of a small step take microseconds. Threads that wait for each other after every one of them gain
    little on an idle machine, and lose tenfold on one where another process wants a core.
    """
    if device.type != "cpu" or batch_size > _SMALL:
        yield
        return
    outside, before = getattr(_taken, "before", 0), torch.get_num_threads()
    _taken.before = before
    torch.set_num_threads(1)
    try:
        yield
    finally:
        _taken.before = outside
        torch.set_num_threads(before)


def product(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """One (n, m) @ other (m, k); a large one on a CPU on all threads, also within a small step.

    It takes milliseconds, in which threads wait for each other once.
    """
    before = getattr(_taken, "before", 0)
    if not before or one.device.type != "cpu" or one.shape[0] * one.shape[1] * other.shape[1] < _LARGE:
        return one @ other
    torch.set_num_threads(before)
    try:
        return one @ other
    finally:
        torch.set_num_threads(1)
