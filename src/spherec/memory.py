"""Peak memory of a block of code, and a clear error where memory runs out."""

import ctypes
import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from spherec.errors import NotEnoughMemoryError

_PROCESS = Path("/proc/self")  # Linux
# On a CPU torch has no error type for it, only these messages: of its allocator, of sizes beyond 64 bits, of drivers.
_SHORTAGE = re.compile(r"DefaultCPUAllocator|Storage size calculation overflowed|out of memory")


@dataclass
class PeakMemory:
    """Peak memory of a block; known when the block has ended."""

    mb: float | None = None
    "Largest peak within the block, in megabytes; None if the system does not report it."


@contextmanager
def enough_memory() -> Iterator[None]:
    """Raise a `NotEnoughMemoryError` if the block runs out of memory."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and not _SHORTAGE.search(str(error)):
            raise
        raise NotEnoughMemoryError("there is not enough memory; take smaller dim, batch_size or negatives") from None


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
    start = _begin()
    yield peak
    if start is not None:
        peak.mb = max(_read("VmHWM") - start, 0) / 1e3


def _begin() -> int | None:
    """Return free memory to the system, reset the peak, and return the resident kilobytes."""
    with suppress(OSError, AttributeError):  # another C library has no such call
        ctypes.CDLL(None).malloc_trim(0)
    try:
        (_PROCESS / "clear_refs").write_text("5")
        return _read("VmRSS")
    except OSError:
        return None


def _read(name: str) -> int:
    """Return an entry of /proc/self/status in kilobytes."""
    match = re.search(rf"^{name}:\s+(\d+) kB", (_PROCESS / "status").read_text(), re.MULTILINE)
    if match is None:
        raise OSError(f"no {name} here")
    return int(match[1])
