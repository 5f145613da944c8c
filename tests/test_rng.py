import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

import spherec
from spherec import rng
from spherec.errors import ArgumentError

STREAMS = [
    (0, "split"),
    (0, "split", 0),
    (0, "split", 1),
    (0, "split", 0, 0),
    (0, "split", 0, 1),
    (0, "split", 1, 0),
    (0, "negatives"),
    (0, "negatives", 0),
    (1, "split"),
    (2**32, "split"),
    (2**64 + 1, "split"),
]


def test_streams_of_other_seed_name_or_index_share_nothing():
    draws = {stream: set(rng.stream(*stream).random(100).tolist()) for stream in STREAMS}
    alike = [(one, other) for one, other in combinations(STREAMS, 2) if draws[one] & draws[other]]
    assert not alike


def test_the_same_stream_draws_the_same_whatever_others_drew():
    expected = rng.stream(7, "negatives", 3).random(5)
    rng.stream(7, "split").random(1000)
    np.random.default_rng(7).random(3)
    np.testing.assert_array_equal(rng.stream(7, "negatives", 3).random(5), expected)


def test_no_global_state_is_touched():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    rng.stream(0, "split").random(10)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize("arguments", [(-1, "split"), (0, "split", -1)], ids=str)
def test_negative_numbers_are_refused(arguments):
    with pytest.raises(ArgumentError, match="-1"):
        rng.stream(*arguments)


def torch_draws(*stream, **options):
    return torch.rand(100, generator=rng.torch_stream(*stream, **options), dtype=torch.float64)


def test_torch_streams_of_other_seed_name_or_index_share_nothing():
    draws = {stream: set(torch_draws(*stream).tolist()) for stream in STREAMS}
    alike = [(one, other) for one, other in combinations(STREAMS, 2) if draws[one] & draws[other]]
    assert not alike


def test_the_same_torch_stream_draws_the_same_whatever_others_drew():
    expected = torch_draws(7, "negatives", 3)
    torch_draws(7, "split")
    torch.rand(3)
    assert torch.equal(torch_draws(7, "negatives", 3), expected)
    assert torch.equal(torch_draws(7, "negatives", 3, device=torch.device("cpu")), expected)


def test_no_global_state_of_torch_is_touched():
    before = torch.get_rng_state()
    torch_draws(0, "split")
    rng.permutation(10, rng.torch_stream(0, "split"))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_a_permutation_holds_each_number_once(n):
    order = rng.permutation(n, rng.torch_stream(0, "shuffle"))
    assert order.dtype == torch.int64
    assert sorted(order.tolist()) == list(range(n))
    assert torch.equal(order, rng.permutation(n, rng.torch_stream(0, "shuffle")))


def test_every_order_of_three_is_as_likely():
    generator = rng.torch_stream(0, "shuffle")
    counts = Counter(tuple(rng.permutation(3, generator).tolist()) for _ in range(6000))
    assert chisquare(list(counts.values())).pvalue > 1e-3
    assert len(counts) == 6


def test_nothing_else_in_the_package_makes_generators():
    other_ways = re.compile(
        r"np\.random\.(?!Generator\b)|default_rng|import random|from random|torch\.(rand|manual_seed)"
    )
    root = Path(spherec.__file__).parent
    guilty = [
        f"{path.relative_to(root)}:{number}"
        for path in sorted(root.rglob("*.py"))
        if path != root / "rng.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if other_ways.search(line)
    ]
    assert not guilty
