"""The growth curves, on sizes that take no time."""

from dataclasses import replace

import growth
import pytest
import torch
from machine import Machine

MACHINE = Machine(20.0, 10.0, 90.0, None, None)


@pytest.fixture(scope="module")
def points():
    base = growth.Size(items=200, pairs=1000, dim=4, batch=16)
    curves = {"items": [base, replace(base, items=2000)], "dim": [base, replace(base, dim=8)]}
    return list(growth.measure(curves, MACHINE, torch.device("cpu"), 0.001))


def test_every_size_with_every_sampler(points):
    assert [(point.curve, point.sampler, point.size.items, point.size.dim) for point in points] == [
        *(("items", sampler, items, 4) for sampler in ("uniform", "popularity", "two-stage") for items in (200, 2000)),
        *(("dim", sampler, 200, dim) for sampler in ("uniform", "popularity", "two-stage") for dim in (4, 8)),
    ]
    for point in points:
        assert 0 < point.fastest_ms_per_step <= point.ms_per_step
        assert point.users == 20
        assert 0 < point.pairs <= 1000
        assert point.tables_mb == pytest.approx(3 * 4 * (20 + point.size.items) * point.size.dim / 1e6)


def test_the_claim_compares_many_items_with_few(points):
    one = points[0]
    at = {10**5: 1.0, 10**7: 2.5}
    made = [replace(one, size=replace(one.size, items=items), fastest_ms_per_step=ms) for items, ms in at.items()]
    assert growth.claim(made)["uniform"]["ratio"] == 2.5
    assert growth.claim(made)["uniform"]["holds"] is False
    assert growth.claim(points) == {}
