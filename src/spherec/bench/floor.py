"""What a step must do whoever writes it: bytes to move, operations to carry out."""

from typing import NamedTuple

from spherec.bench.machine import Machine
from spherec.sampling import TwoStage
from spherec.training import Training

_FLOAT = 4  # bytes
_TABLES = 3  # the row and the two moments of Adam


class Floor(NamedTuple):
    """Of one step."""

    mb: float
    "Moved between memory and processor, if nothing is moved twice."
    gflop: float
    "Of matrix products; the rest is small beside them, or beside the bytes."


def floor_of(config: Training) -> Floor:
    """Every row of the batch is read and written once with its moments; stage two reads C more, and multiplies.

    As if all rows were different: where some come twice, a little less would do.
    """
    pairs, negatives = config.batch_size, config.sampler.negatives
    rows = pairs * (2 + negatives)  # a user, a positive and N negatives each
    floats, products = 2 * _TABLES * rows * config.dim, 2 * pairs * (1 + negatives) * config.dim
    if isinstance(config.sampler, TwoStage):
        floats += _TABLES * config.sampler.candidates * config.dim
        products += 2 * pairs * config.sampler.candidates * config.dim
    return Floor(mb=_FLOAT * floats / 1e6, gflop=products / 1e9)


def least_ms(floor: Floor, machine: Machine) -> float:
    """How long that takes at this machine's measured speed, if moving and computing go on at once."""
    return max(floor.mb / machine.copy_gb_per_second, 1e3 * floor.gflop / machine.gflops)
