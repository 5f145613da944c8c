"""Kernels work where nothing can be written, too."""

from spherec.kernels.cpu import compiled as module
from spherec.kernels.cpu.compiled import compiled


def test_without_a_place_to_keep_it_a_kernel_is_compiled_all_the_same(monkeypatch):
    real, asked = module.njit, []

    def njit(**options):
        asked.append(options)
        if "cache" in options:
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(module, "njit", njit)

    @compiled(fastmath=True)
    def twice(number):
        return 2 * number

    assert twice(21) == 42
    assert asked == [{"cache": True, "nogil": True, "fastmath": True}, {"nogil": True, "fastmath": True}]
