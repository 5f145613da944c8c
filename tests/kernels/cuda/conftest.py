"""What tests of the kernels for GPUs share. Where there is no GPU, Triton's interpreter runs them on the CPU.

The interpreter runs one program after the other, a few milliseconds each: cases are small, and races stay unseen.
"""

import os

import pytest
import torch

from spherec.kernels.reference import Backend
from tests.kernels import using

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
INTERPRETED = DEVICE.type == "cpu"
if INTERPRETED:
    # Asked when Triton is imported, and for each kernel when its file is. pytest imports this file before the tests
    # beside it, and no other test imports Triton; where tests of this folder are not collected, nothing is set.
    os.environ["TRITON_INTERPRET"] = "1"


def pytest_pycollect_makemodule():
    """Skip the tests of this folder before they are imported, if what they import is not there."""
    pytest.importorskip("triton", reason="Triton is not installed")


def pytest_itemcollected(item):
    item.add_marker(pytest.mark.filterwarnings("ignore::RuntimeWarning"))  # of numpy, about what `tl.where` throws away


@pytest.fixture
def both():
    """What a function builds, through Triton and then in plain torch."""
    from spherec.kernels.cuda import CudaBackend

    def both(build):
        built = []
        for backend in (CudaBackend(), Backend()):
            with using(backend):
                built.append(build())
        return built

    return both


def assert_close(ours, theirs, atol=1e-6):
    torch.testing.assert_close(ours, theirs, atol=atol, rtol=1e-5)
