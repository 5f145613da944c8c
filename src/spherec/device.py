"""The device to compute on, decided once at the border, and its threads and streams."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Literal, TypeVar, get_args

import numpy as np
import torch

from spherec.errors import ArgumentError, quote
from spherec.forks import ProcessLock

DeviceName = Literal["auto", "cpu", "cuda"]
_Result = TypeVar("_Result")

_SMALL = 1024  # pairs in a batch
_LARGE = 1 << 23  # multiplications that are worth a thread: a fifth of a millisecond, five times the cost of waking it
_LARGEST_KEPT = (32 << 20) - (64 << 10)  # bytes, with room for the block's header

_step = threading.local()  # `threads`: those among which a step divides large operations; `count`: their number
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


def make_table(shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Return a table of zeros whose rows will be read in random order.

    On a CPU, NumPy asks the system for pages of 2 MB where it can. With the usual pages of 4 KB nearly every row of a
    large table needs a walk through the page tables before it is read.
    """
    return torch.from_numpy(np.zeros(shape, np.float32)) if device.type == "cpu" else torch.zeros(shape, device=device)


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
    little on an idle machine, and lose tenfold where another process needs a core. For the few operations that take
    milliseconds, `run_at_once` has as many threads as torch had, each with one of torch's.

    Nothing changes for other threads, whose lists would be rounded in another way. torch counts for each thread, but
    the last count that any thread set is the one that new threads begin with. So one more thread sets it back.
    """
    before = torch.get_num_threads()
    if device.type != "cpu" or before == 1:
        yield
        return
    outside = getattr(_step, "threads", None), getattr(_step, "count", 1)
    with ThreadPoolExecutor(before) as threads:
        with _changing:
            _start_all(threads, before)
            if batch_size <= _SMALL:
                torch.set_num_threads(1)
            last = threading.Thread(target=torch.set_num_threads, args=(before,))
            last.start()
            last.join()
        _step.threads, _step.count = threads, before
        try:
            yield
        finally:
            _step.threads, _step.count = outside
            torch.set_num_threads(before)


def _start_all(threads: ThreadPoolExecutor, count: int) -> None:
    """Start all threads of a pool, each with one thread of torch."""
    started = threading.Barrier(count + 1)

    def start() -> None:
        torch.get_num_threads()  # at the first call in a thread torch sets the count itself
        torch.set_num_threads(1)
        started.wait()

    for _ in range(count):
        threads.submit(start)
    started.wait()


def split_work(n: int, operations: int) -> list[slice]:
    """Return ranges that cover n rows, one for each thread of this step that has enough multiplications to do."""
    count = max(min(getattr(_step, "count", 1), operations // _LARGE, n), 1)
    return [slice(n * part // count, n * (part + 1) // count) for part in range(count)]


def run_at_once(tasks: Sequence[Callable[[], _Result]]) -> list[_Result]:
    """Return the results of tasks, which the threads of this step compute at once. They are not for autograd.

    This thread takes its share of the tasks, unless it has several threads of torch.
    """
    threads: ThreadPoolExecutor | None = getattr(_step, "threads", None)
    if threads is None or len(tasks) == 1:
        return [task() for task in tasks]
    results: dict[int, _Result] = {}
    waiting = iter(enumerate(tasks))

    def work() -> None:
        for number, task in waiting:
            results[number] = task()

    is_alone = torch.get_num_threads() == 1
    others = [threads.submit(work) for _ in range(min(_step.count, len(tasks)) - is_alone)]
    try:
        if is_alone:
            work()
    finally:
        wait(others)
    for other in others:
        other.result()  # raises what the task did
    return [results[number] for number in range(len(tasks))]


def settle_thread() -> None:
    """Let torch count the threads of the calling thread, unless it has: not while `threads_for` changes the count."""
    if not getattr(_settled, "is_done", False):
        with _changing:
            torch.get_num_threads()
        _settled.is_done = True
