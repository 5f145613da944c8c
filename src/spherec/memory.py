"""How much memory something takes, at its peak."""

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
# On a CPU torch has no error of its own for it: what its allocator says, and what is said of more bytes than there are
# numbers for. A driver's error comes so, too.
_SHORTAGE = re.compile(r"DefaultCPUAllocator|Storage size calculation overflowed|out of memory")


@dataclass
class Growth:
    """Known when the block has ended."""

    mb: float | None = None
    "By how much memory grew within the block, at most; None where the system does not tell."


@contextmanager
def enough_memory() -> Iterator[None]:
    """Raise a `NotEnoughMemoryError` where the block fails for want of memory."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and not _SHORTAGE.search(str(error)):
            raise
        raise NotEnoughMemoryError("there is not enough memory; take smaller dim, batch_size or negatives") from None


@contextmanager
def watched(device: torch.device) -> Iterator[Growth]:
    """Watches the block: on a GPU what torch has allocated there, on a CPU the resident memory of this process."""
    growth = Growth()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        yield growth
        torch.cuda.synchronize(device)
        growth.mb = (torch.cuda.max_memory_allocated(device) - before) / 1e6
        return
    start = _begin()
    yield growth
    if start is not None:
        growth.mb = max(_read("VmHWM") - start, 0) / 1e3


def _begin() -> int | None:
    """Gives back what is free, forgets the highest mark so far; resident kilobytes then."""
    with suppress(OSError, AttributeError):  # another C library has no such call
        ctypes.CDLL(None).malloc_trim(0)
    try:
        (_PROCESS / "clear_refs").write_text("5")
        return _read("VmRSS")
    except OSError:
        return None


def _read(name: str) -> int:
    """Kilobytes."""
    found = re.search(rf"^{name}:\s+(\d+) kB", (_PROCESS / "status").read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"no {name} here")
    return int(found[1])
