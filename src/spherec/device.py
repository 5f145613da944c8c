"""The device to compute on, decided once at the border, and its threads and streams."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Literal, get_args

import torch

from spherec.errors import ArgumentError, quote
from spherec.processes import ProcessLock

DeviceName = Literal["auto", "cpu", "cuda"]

_SMALL = 1024  # pairs in a batch
_LARGE = 1 << 26  # multiplications
_LARGEST_KEPT = (32 << 20) - (64 << 10)  # bytes, with room for the block's header

_taken = threading.local()  # `pool`: a thread with as many threads of torch as before `threads_for` took them away
_changing = ProcessLock()  # held while the count that new threads begin with is not the right one
_settled = threading.local()  # `is_done`: torch has counted the threads of this thread
_streams = threading.local()


def resolve(name: DeviceName | torch.device) -> torch.device:
    """Return the device of that name; "auto" is the GPU if there is one that can be used."""
    if isinstance(name, torch.device):
        return name
    if name not in get_args(DeviceName):
        raise ArgumentError(f"device must be one of {', '.join(get_args(DeviceName))}, got {quote(name)}")
    is_lost = torch.cuda._is_in_bad_fork()  # CUDA was in use before this process was forked
    if name == "cuda" and is_lost:
        raise ArgumentError(
            "device is 'cuda', which a forked process cannot use after its parent did; use 'cpu', or start processes "
            "with multiprocessing.get_context('spawn')"
        )
    is_available = not is_lost and torch.cuda.is_available()
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
    """Let this thread compute small batches on a CPU in one thread of torch, and all others in as many as before.

    The operations of a small step take microseconds. Threads that wait for each other after every one of them gain
    little on an idle machine, and lose tenfold where another process needs a core.

    Nothing changes for other threads, whose lists would be rounded in another way. torch counts for each thread, but
    the last count that any thread set is the one that new threads begin with. So a thread beside this one sets it back,
    and computes large products (`product`).
    """
    before = torch.get_num_threads()
    if device.type != "cpu" or batch_size > _SMALL or before == 1:
        yield
        return
    outside = getattr(_taken, "pool", None)
    with ThreadPoolExecutor(1) as pool:
        with _changing:
            torch.set_num_threads(1)
            pool.submit(torch.set_num_threads, before).result()
        _taken.pool = pool
        try:
            yield
        finally:
            _taken.pool = outside
            torch.set_num_threads(before)


def settle_thread() -> None:
    """Let torch count the threads of the calling thread, unless it has: not while `threads_for` changes the count."""
    if not getattr(_settled, "is_done", False):
        with _changing:
            torch.get_num_threads()
        _settled.is_done = True


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return left (n, m) @ right (m, k); a large product on a CPU uses all threads, also within a small step.

    It takes milliseconds, in which threads wait for each other once. It is not for autograd.
    """
    pool: ThreadPoolExecutor | None = getattr(_taken, "pool", None)
    if pool is None or left.device.type != "cpu" or left.shape[0] * left.shape[1] * right.shape[1] < _LARGE:
        return left @ right
    # Memory of this thread, which is used again in the next step; that of the other thread would be new each time.
    result = left.new_empty(left.shape[0], right.shape[1])
    pool.submit(_multiply_into, left, right, result).result()
    return result


def _multiply_into(left: torch.Tensor, right: torch.Tensor, result: torch.Tensor) -> None:
    with torch.no_grad():  # which each thread has for itself
        torch.mm(left, right, out=result)
