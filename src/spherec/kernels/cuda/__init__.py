"""The operations of a backend for GPUs, in kernels that Triton compiles; it comes with the CUDA builds of torch."""

from collections.abc import Mapping
from typing import ClassVar

from spherec.kernels.cuda.adam import CudaRows, scale_to_unit
from spherec.kernels.cuda.batch import next_batch
from spherec.kernels.cuda.features import CudaFeatures, keep_rows
from spherec.kernels.cuda.hinge import hinge_gradient
from spherec.kernels.cuda.negatives import CudaLaw, CudaMembership, CudaTwoStage
from spherec.kernels.cuda.softmin import softmin_gradient
from spherec.kernels.protocol import Gradient
from spherec.kernels.reference import Backend


class CudaBackend(Backend):
    """Triton's kernels on tensors of a GPU. Nothing in here waits for the device."""

    adam = CudaRows
    unit = staticmethod(scale_to_unit)
    law = CudaLaw
    membership = CudaMembership
    two_stage = CudaTwoStage
    gradients: ClassVar[Mapping[str, Gradient]] = {"Hinge": hinge_gradient, "Softmin": softmin_gradient}
    keep_rows = staticmethod(keep_rows)
    features = CudaFeatures
    next_batch = staticmethod(next_batch)
