"""The hot loops of training, once for each kind of device.

`backend(device)` returns an object with the operations of `reference.Backend`, which has them in plain torch for any
device; `cpu` has them compiled by numba, `cuda` compiled by Triton.
"""

from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from spherec.geometry import each_subspace
from spherec.kernels.cpu import CpuBackend
from spherec.kernels.protocol import FusedGradient, Gradient, GradientTask
from spherec.kernels.reference import Backend

__all__ = ["Backend", "FusedGradient", "GradientTask", "backend", "fuse"]


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
    return Backend()


def fuse(loss: object, task: GradientTask, kernels: Backend) -> FusedGradient | None:
    """Return a faster way to the gradient of a loss than autograd, or None if there is none for this task."""
    name = type(loss).__name__
    return _FUSED[name](loss, task, kernels.gradients[name]) if name in kernels.gradients else None


def _fuse_hinge(loss: Any, task: GradientTask, gradient: Gradient) -> FusedGradient | None:
    """One pass over the pairs, if each has its own negatives and all weigh the same."""
    if task.shared or task.weighted or task.reach:
        return None
    on_sphere = task.constraint == "sphere"
    of_part = partial(gradient, margin=loss.margin, ranked=loss.rank_weight, n_items=task.n_items, on_sphere=on_sphere)

    def fused(rows: Tensor, valid: Tensor, *_: Tensor | None) -> tuple[Tensor, Tensor]:
        return each_subspace(lambda part: of_part(part, valid), rows)

    return fused


def _fuse_softmin(loss: Any, task: GradientTask, gradient: Gradient) -> FusedGradient | None:
    """A few passes over one table of pairs and negatives, if a batch shares its negatives on the sphere."""
    if not task.shared or task.constraint != "sphere":
        return None
    return partial(gradient, temperature=loss.distance_scale, gamma=loss.gamma, n_items=task.n_items)


_FUSED = {"Hinge": _fuse_hinge, "Softmin": _fuse_softmin}
