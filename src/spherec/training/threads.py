"""How many threads a step on a CPU is worth."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from spherec.training.config import Training

_SMALL = 1024  # pairs in a batch
_MANY = 1 << 18  # distances in a step, all found by one multiplication of matrices


@contextmanager
def threads_for(config: Training, device: torch.device) -> Iterator[None]:
    """Inside, torch uses one thread for small batches on a CPU, and as many as before for all else.

    The operations of a small step take microseconds. Threads that wait for each other after every one of them gain
    little on an idle machine, and lose tenfold on one where another process wants a core.
    """
    before = torch.get_num_threads()
    shared = config.sampler.negatives if getattr(config.sampler, "shared", False) else 0
    if device.type == "cpu" and config.batch_size <= _SMALL and config.batch_size * shared < _MANY:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
