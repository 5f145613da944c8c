"""The device to compute on, decided once at the border, and its threads, streams and memory.

A fork copies one thread and all locks, but no pools of threads: in the child torch computes in one thread, which needs
no pool, and a lock that a thread of the parent held is free.
"""

import ctypes
import gc
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import torch

from spherec.errors import ArgumentError, NotEnoughMemoryError, check_choice

DeviceName = Literal["auto", "cpu", "cuda"]
_Result = TypeVar("_Result")

_SMALL = 1024  # pairs in a batch
_LARGE = 1 << 23  # multiplications that are worth a thread: a fifth of a millisecond, five times the cost of waking it
_LARGEST_KEPT = (32 << 20) - (64 << 10)  # bytes, with room for the block's header

_PROCESS = Path("/proc/self")  # Linux
# On a CPU torch has no error type for it, only these messages: of its allocator, of sizes beyond 64 bits, of drivers.
_SHORTAGE = re.compile(r"DefaultCPUAllocator|Storage size calculation overflowed|out of memory")


class ProcessLock:
    """A reentrant lock for the threads of one process. In a forked process, and in a copy, it is free."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if self._process != os.getpid():  # only one thread survives a fork
            self._process, self._lock = os.getpid(), threading.RLock()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return ProcessLock, ()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))

_step = threading.local()  # `threads`: those among which a step divides large operations; `count`: their number
_changing = ProcessLock()  # held while the count that new threads begin with is not the right one
_settled = threading.local()  # `is_done`: torch has counted the threads of this thread
_streams = threading.local()


def resolve(name: DeviceName | torch.device) -> torch.device:
    """Return the device of that name; "auto" is the GPU if there is one that can be used."""
    if isinstance(name, torch.device):
        return name
    check_choice("device", name, get_args(DeviceName))
    is_lost = torch.cuda._is_in_bad_fork()  # CUDA was in use before this process was forked
    is_available = not is_lost and torch.cuda.is_available()
    if name == "cuda" and not is_available:
        why = "was used before this process was forked" if is_lost else "is not there for torch"
        raise ArgumentError(f"device is 'cuda', but a GPU {why}; use 'auto' or 'cpu'")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and is_available) else "cpu")


def keep_freed_memory() -> None:
    """Let the C library keep tens of megabytes of freed memory instead of handing them back to the system.

    Half of a large step on a CPU would be spent on page faults of the rows and gradients that it allocates anew. glibc
    keeps up to twice the largest mapped block that was ever freed, of at most 32 MiB. One of that size is freed here.
    """
    torch.empty(_LARGEST_KEPT, dtype=torch.uint8)


def make_table(shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Return a table of zeros whose rows will be read in random order.

    On a CPU NumPy asks for pages of 2 MB; with those of 4 KB nearly every row needs a walk through the page tables.
    """
    return torch.from_numpy(np.zeros(shape, np.float32)) if device.type == "cpu" else torch.zeros(shape, device=device)


def stream_of_thread(purpose: str) -> torch.cuda.Stream:
    """Return a stream of the calling thread, the same one for the same purpose.

    torch hands out 32 streams in turn, so that new ones would put the work of one thread into another's recording.
    """
    streams: dict[str, torch.cuda.Stream] = _streams.__dict__
    if purpose not in streams:
        streams[purpose] = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    return streams[purpose]


@contextmanager
def threads_for(batch_size: int, device: torch.device) -> Iterator[None]:
    """Let this thread compute small batches on a CPU in one thread of torch, and all others in as many as before.

    The operations of a small step take microseconds. Threads that wait for each other after every one of them lose
    tenfold where another process needs a core. For those of milliseconds, `run_at_once` has as many as torch had.

    Nothing changes for other threads, whose lists would be rounded in another way. torch counts for each one, but new
    threads begin with the last count that any thread set. So one more thread sets it back.
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
    """Return the results of tasks, computed at once by the threads of this step, and by this one; not for autograd."""
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


@dataclass
class PeakMemory:
    """Peak memory of a block; known when the block has ended."""

    mb: float | None = None
    "Largest peak within the block, in megabytes; None if the system does not report it."


@contextmanager
def measure_peak(device: torch.device) -> Iterator[PeakMemory]:
    """Measure the block: memory that torch allocates on a GPU, or resident memory of this process on a CPU."""
    peak = PeakMemory()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        yield peak
        torch.cuda.synchronize(device)
        peak.mb = (torch.cuda.max_memory_allocated(device) - before) / 1e6
        return
    with suppress(OSError, AttributeError):  # another C library has no such call
        ctypes.CDLL(None).malloc_trim(0)  # returns free memory to the system
    with suppress(OSError):
        (_PROCESS / "clear_refs").write_text("5")  # resets the peak
    start = _read_kb("VmRSS")
    yield peak
    if start is not None:
        peak.mb = max((_read_kb("VmHWM") or 0) - start, 0) / 1e3


def _read_kb(name: str) -> int | None:
    with suppress(OSError, IndexError):
        return int((_PROCESS / "status").read_text().partition(f"\n{name}:")[2].split()[0])
    return None


@contextmanager
def enough_memory() -> Iterator[None]:
    """Raise a `NotEnoughMemoryError` if the block runs out of memory."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and not _SHORTAGE.search(str(error)):
            raise
        raise NotEnoughMemoryError(
            "there is not enough memory; take smaller dim, batch_size or negatives, drop rare users and items, or "
            "divide them among several processes (docs/scaling.md)"
        ) from None
