"""The hot loops, compiled for GPUs by Triton, which comes with the CUDA builds of torch.

What they replace stays beside their callers: as oracle, and for builds without Triton.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import torch


def kernels(name: str, device: torch.device) -> ModuleType | None:
    """The file `name` of this folder, or None where its kernels cannot work on tensors of this device."""
    return import_module(f"{__name__}.{name}") if serves(device) else None


def serves(device: torch.device) -> bool:
    """Whether Triton is there, and compiles for this device."""
    return device.type == "cuda" and _triton_is_there()


def warps(dim: int) -> int:
    """How many groups of 32 threads for a row: a power of 2, as Triton wants it."""
    return 1 << min(2, max(0, (dim // 128).bit_length() - 1))


@cache
def _triton_is_there() -> bool:
    return find_spec("triton") is not None
