"""Peak memory of a block of code."""

import ctypes
import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

_PROCESS = Path("/proc/self")  # Linux


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
    with suppress(OSError):
        match = re.search(rf"^{name}:\s+(\d+) kB", (_PROCESS / "status").read_text(), re.MULTILINE)
        return int(match[1]) if match else None
    return None
