"""The device to compute on, decided once at the border, and its threads and streams."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

import torch

from spherec.errors import ArgumentError

DeviceName = Literal["auto", "cpu", "cuda"]

_SMALL = 1024  # pairs in a batch
_LARGE = 1 << 26  # multiplications
_LARGEST_KEPT = (32 << 20) - (64 << 10)  # bytes, with room for the block's header

_taken = threading.local()  # `before`: the number of threads before `threads_for` took them away; 0 outside
_streams = threading.local()


def resolve(name: DeviceName | torch.device) -> torch.device:
    """Return the device of that name; "auto" is the GPU if there is one."""
    if isinstance(name, torch.device):
        return name
    if name not in get_args(DeviceName):
        raise ArgumentError(f"device must be one of {', '.join(get_args(DeviceName))}, got {name!r}")
    is_available = torch.cuda.is_available()
    if name == "cuda" and not is_available:
        raise ArgumentError("device is 'cuda', but torch finds no CUDA device; use 'auto' or 'cpu'")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and is_available) else "cpu")


def keep_freed_memory() -> None:
    """Let the C library keep tens of megabytes of freed memory instead of handing them back to the system.

    A large step on a CPU allocates its rows and their gradient anew. If that memory goes back to the system at the end
    of each step, half of the next is spent on page faults. glibc keeps up to twice the largest mapped block that was
    ever freed, if that is at most 32 MiB: so one is allocated here, which touches no memory, and freed at once.
    """
    torch.empty(_LARGEST_KEPT, dtype=torch.uint8)


def records_graphs(device: torch.device) -> bool:
    """Tell whether operations on this device can be recorded as a graph and replayed with one call."""
    return device.type == "cuda"


def stream_of_thread(purpose: str) -> torch.cuda.Stream:
    """Return a stream of the calling thread, the same one for the same purpose.

    torch hands out the same 32 streams in turn. If a new one were taken each time, two threads would come to share one,
    and the work of one thread would end up in the recording of the other.
    """
    streams: dict[str, torch.cuda.Stream] = _streams.__dict__
    if purpose not in streams:
        streams[purpose] = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    return streams[purpose]


@contextmanager
def threads_for(batch_size: int, device: torch.device) -> Iterator[None]:
    """Let torch use one thread for small batches on a CPU within this block, and as many as before for all others.

    The operations of a small step take microseconds. Threads that wait for each other after every one of them gain
    little on an idle machine, and lose tenfold where another process needs a core.
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


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return left (n, m) @ right (m, k); a large product on a CPU uses all threads, also within a small step.

    It takes milliseconds, in which threads wait for each other once.
    """
    before = getattr(_taken, "before", 0)
    if not before or left.device.type != "cpu" or left.shape[0] * left.shape[1] * right.shape[1] < _LARGE:
        return left @ right
    torch.set_num_threads(before)
    try:
        return left @ right
    finally:
        torch.set_num_threads(1)
