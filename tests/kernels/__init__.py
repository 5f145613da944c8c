from contextlib import contextmanager

import pytest

from spherec import kernels


@contextmanager
def using(backend):
    """Let everything that is made in the block compute with this backend, whatever the device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_choose", lambda _: backend)
        yield backend
