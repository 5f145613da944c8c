"""How many threads a step on a CPU is worth."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_SMALL = 1024  # pairs in a batch


@contextmanager
def threads_for(batch_size: int, device: torch.device) -> Iterator[None]:
    """Inside, torch uses one thread for small batches on a CPU, and as many as before for all else.

    The operations of a small step take microseconds. Threads that wait for each other after every one of them gain
    little on an idle machine, and lose tenfold on one where another process wants a core.
    """
    before = torch.get_num_threads()
    if device.type == "cpu" and batch_size <= _SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
