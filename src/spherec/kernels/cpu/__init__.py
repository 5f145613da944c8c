"""The operations of a backend for CPUs, in loops that numba compiles: no temporary for every operation."""

from collections.abc import Mapping
from typing import ClassVar

from spherec.kernels.cpu.adam import CpuRows, scale_to_unit
from spherec.kernels.cpu.features import CpuFeatures
from spherec.kernels.cpu.hinge import hinge_gradient
from spherec.kernels.cpu.least_squares import solve_rows
from spherec.kernels.cpu.negatives import CpuLaw, CpuMembership, CpuTwoStage
from spherec.kernels.cpu.softmin import softmin_gradient
from spherec.kernels.protocol import Gradient
from spherec.kernels.reference import Backend


class CpuBackend(Backend):
    """Numba's loops on tensors of a CPU."""

    adam = CpuRows
    unit = staticmethod(scale_to_unit)
    law = CpuLaw
    membership = CpuMembership
    two_stage = CpuTwoStage
    gradients: ClassVar[Mapping[str, Gradient]] = {"Hinge": hinge_gradient, "Softmin": softmin_gradient}
    features = CpuFeatures
    solve_rows = staticmethod(solve_rows)
