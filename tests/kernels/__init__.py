from contextlib import contextmanager

import pytest

from spherec import kernels, optim


@contextmanager
def using(backend):
    """Let everything that is made in the block compute with this backend, whatever the device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_choose", lambda _: backend)
        yield backend


class DenseAdam(optim.DenseAdam):
    """The optimiser of a table whose rows are no groups."""

    def rows(self, index):
        rows = super().rows(index.reshape(-1))[0]
        return rows.view(*index.shape, rows.shape[1])

    def everything(self):
        return self.block(0, len(self.state()["table"]))

    def step(self, index, gradient):
        super().step(index, gradient[None])
