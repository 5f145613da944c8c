"""What depends on the machine: a place to keep compiled kernels, and a processor that multiplies bfloat16."""

import pytest
import torch

from spherec.kernels.cpu import compiled as module


def test_without_a_place_to_keep_it_a_kernel_is_compiled_all_the_same(monkeypatch):
    real = module.njit

    def njit(**options):
        if "cache" in options:
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(module, "njit", njit)
    assert module.compiled(fastmath=True)(lambda number: 2 * number)(21) == 42


@pytest.mark.parametrize("features", [{}, {"avx512f": True}, {"avx512bf16": False}, {"avx512bf16": True}, None])
def test_only_large_products_are_rounded_and_only_where_the_processor_gains(monkeypatch, features):
    def find():
        if features is None:
            raise RuntimeError("no information")
        return features

    monkeypatch.setattr(module, "get_host_cpu_features", find)
    monkeypatch.setattr(module, "_has_bfloat16", module._has_bfloat16.__wrapped__)  # not what is remembered
    gains = bool(features) and features.get("avx512bf16", False) and torch.backends.mkldnn.is_available()
    assert module.choose_factors(1 << 30) == (torch.bfloat16 if gains else torch.float32)
    assert module.choose_factors(1000) == torch.float32
