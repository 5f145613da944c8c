"""Large products in bfloat16: chosen where they pay, and near what plain torch computes in float32."""

import pytest
import torch

from spherec.kernels.cpu import CpuBackend, factors
from spherec.kernels.reference import ReferenceBackend

ROUNDING = 2.0**-8  # of bfloat16, relative


@pytest.fixture
def rounds(monkeypatch):
    """Let all products have factors of bfloat16, on any processor."""
    monkeypatch.setattr(factors, "_LARGE", 1)
    monkeypatch.setattr(factors, "_has_bfloat16", lambda: True)


@pytest.mark.parametrize("has", [False, True])
def test_only_large_products_are_rounded_and_only_where_the_processor_gains(monkeypatch, has):
    monkeypatch.setattr(factors, "_has_bfloat16", lambda: has)
    assert factors.choose_factors(1000) == torch.float32
    assert factors.choose_factors(1 << 30) == (torch.bfloat16 if has else torch.float32)


@pytest.mark.parametrize("features", [{}, {"avx512f": True}, {"avx512bf16": False}, RuntimeError("no information")])
def test_other_processors_keep_float32(monkeypatch, features):
    def find():
        if isinstance(features, RuntimeError):
            raise features
        return features

    monkeypatch.setattr(factors, "get_host_cpu_features", find)
    monkeypatch.setattr(factors, "_has_bfloat16", factors._has_bfloat16.__wrapped__)  # not what is remembered
    assert factors.choose_factors(1 << 30) == torch.float32


@pytest.mark.parametrize(("reach", "temperature"), [(False, 0.1), (True, 0.1), (True, 0.005)])
def test_the_gradient_of_softmin_is_near_that_of_float32(rounds, reach, temperature):
    random = torch.Generator().manual_seed(0)
    pairs, pool, dim = 50, 200, 48
    rows = torch.randn(2, 2 * pairs + pool, dim + reach, generator=random)
    valid = torch.rand(pairs, pool, generator=random) < 0.9
    log_q, weights = torch.randn(1, pool, generator=random) - 5, torch.rand(pairs, generator=random)
    dial = torch.rand(pairs, generator=random) if reach else None
    given = rows, valid, log_q, weights, dial
    settings = {"temperature": temperature, "gamma": 1.0, "n_items": 1000}
    gradient, sums = CpuBackend().gradients["Softmin"](*given, **settings)
    expected, expected_sums = ReferenceBackend().gradients["Softmin"](*given, **settings)
    error = (gradient - expected).norm() / expected.norm()
    assert 0 < error < 2 * ROUNDING
    torch.testing.assert_close(sums[0], expected_sums[0], rtol=ROUNDING, atol=0)
    assert sums[2] == expected_sums[2]
    assert sums[1] == expected_sums[1] or temperature < 0.1  # e^(-87) may be on either side of 0


def test_products_with_features_are_near_those_of_float32(rounds):
    random = torch.Generator().manual_seed(0)
    numbers, weights, rows = (torch.randn(*shape, generator=random) for shape in ((30, 40), (2, 40, 17), (2, 50, 17)))
    index = torch.randint(30, (50,), generator=random)
    made = []
    for kernels in (CpuBackend(), ReferenceBackend()):
        products, added, gradient = kernels.features(numbers), rows.clone(), rows.clone()
        products.add(added, index, weights)
        made.append((added, products.learn(gradient, (index % 2).float()), gradient))
    for ours, theirs in zip(*made, strict=True):
        assert (ours - theirs).norm() < 2 * ROUNDING * theirs.norm()
    assert not torch.equal(made[0][0], made[1][0])
    assert torch.equal(made[0][2], made[1][2])
