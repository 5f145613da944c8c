from contextlib import contextmanager

import pytest

from spherec import kernels, optim


@contextmanager
def using(backend):
    """Let everything that is made in the block compute with this backend, whatever the device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_choose", lambda _: backend)
        yield backend


class DenseAdam:
    """The optimiser of a table whose rows are no groups."""

    def __init__(self, table, config, **options):
        self._state, self._rows = optim.start_adam(table, config, **options)

    def state(self):
        return self._state._asdict()

    def rows(self, index):
        rows = self._rows.read(index.reshape(-1))
        return rows.view(*index.shape, rows.shape[1])

    def block(self, first, past):
        return self._rows.read_range(first, past)

    def everything(self):
        return self.block(0, len(self._state.table))

    def step(self, index, gradient):
        self._rows.move(index, gradient)
