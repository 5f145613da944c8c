"""How many threads work on a row."""

import pytest
import torch
import triton

from spherec.kernels.cuda import adam, hinge
from spherec.losses import Hinge
from spherec.optim import Adam
from tests.kernels.cpu.test_hinge import batch
from tests.kernels.cuda.conftest import DEVICE
from tests.kernels.cuda.test_adam import optimisers
from tests.kernels.cuda.test_hinge import hinge_gradient


class Recorder:
    """Stands in for a kernel, and keeps how it would have been started."""

    def __init__(self):
        self.options = {}

    def __getitem__(self, grid):
        return lambda *_, **options: self.options.update(options)


@pytest.mark.parametrize("dim", [2, 100, 128, 300, 384, 511, 512, 600, 2000])
def test_threads_come_in_powers_of_2_as_the_compiler_wants_them(dim, both, monkeypatch):
    read, move, pair, scale = Recorder(), Recorder(), Recorder(), Recorder()
    ours, _ = optimisers(both, dim, "sphere", Adam())
    for module, name, recorder in (
        (adam, "_read", read),
        (adam, "_move", move),
        (adam, "_unit", scale),
        (hinge, "_pair", pair),
    ):
        monkeypatch.setattr(module, name, recorder)
    ours.rows(torch.tensor([1], device=DEVICE))
    ours.step(torch.tensor([1], device=DEVICE), torch.zeros(1, dim, device=DEVICE))
    adam.scale_to_unit(torch.zeros(1, dim, device=DEVICE))
    hinge_gradient(*batch(1, 1, dim), Hinge(), "sphere")
    for recorder in (read, move, pair, scale):
        assert recorder.options["num_warps"].bit_count() == 1
        assert recorder.options["WIDTH"] == triton.next_power_of_2(dim)
