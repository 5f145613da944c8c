"""The hot loops of training, once for each kind of device.

`backend(device)` returns an object with the operations of `protocol.Backend`: `reference` has them in plain torch for
any device, `cpu` compiled by numba, `cuda` compiled by Triton.
"""

from functools import cache
from importlib.util import find_spec

import torch

from spherec.kernels.cpu import CpuBackend
from spherec.kernels.protocol import Backend
from spherec.kernels.reference import ReferenceBackend

__all__ = ["Backend", "backend"]


def backend(device: torch.device) -> Backend:
    """Return the fastest backend for tensors of this device."""
    return _choose(device.type)


@cache
def _choose(device_type: str) -> Backend:
    if device_type == "cpu":
        return CpuBackend()
    if device_type == "cuda" and find_spec("triton") is not None:  # comes with the CUDA builds of torch
        from spherec.kernels.cuda import CudaBackend

        return CudaBackend()
    return ReferenceBackend()
