"""Named streams, permutations, and draws without replacement."""

from itertools import combinations

import numpy as np
import pytest
import torch

from spherec import rng
from spherec.errors import ArgumentError
from spherec.rng import draw_without_replacement
from tests.oracles import successive_law
from tests.sampling.checks import FEWEST_DRAWS, assert_follows, generator

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


def numpy_draws(*stream):
    return rng.stream(*stream).random(100)


def torch_draws(*stream):
    return torch.rand(100, generator=rng.torch_stream(*stream), dtype=torch.float64).numpy()


each_kind = pytest.mark.parametrize("draws", [numpy_draws, torch_draws])


@each_kind
def test_streams_of_other_seed_name_or_index_share_nothing(draws):
    drawn = {stream: set(draws(*stream).tolist()) for stream in STREAMS}
    assert not [pair for pair in combinations(STREAMS, 2) if drawn[pair[0]] & drawn[pair[1]]]


@each_kind
def test_the_same_stream_draws_the_same_whatever_others_drew_and_touches_no_global_state(draws):
    before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    expected = draws(7, "negatives", 3)
    draws(7, "split")
    rng.permutation(10, rng.torch_stream(0, "split"))
    np.testing.assert_array_equal(draws(7, "negatives", 3), expected)
    np.testing.assert_array_equal(np.random.get_state()[1], before[0])  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[1])


@pytest.mark.parametrize("arguments", [(-1, "split"), (0, "split", -1)], ids=str)
def test_negative_numbers_are_refused(arguments):
    with pytest.raises(ArgumentError, match="-1"):
        rng.stream(*arguments)


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_a_permutation_holds_each_number_once(n):
    order = rng.permutation(n, rng.torch_stream(0, "shuffle"))
    assert order.dtype == torch.int64
    assert sorted(order.tolist()) == list(range(n))
    assert torch.equal(order, rng.permutation(n, rng.torch_stream(0, "shuffle")))


WEIGHTS = [5.0, 1.0, 0.0, 3.0, 0.2]


def drawn(weights, n, seed=0, rows=FEWEST_DRAWS):
    return draw_without_replacement(torch.tensor(weights).log().repeat(rows, 1), n, generator(seed))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_places_are_drawn_one_after_the_other_without_replacement(n):
    places, valid = drawn(WEIGHTS, n, seed=n)
    assert valid.all()
    assert_follows(map(tuple, places.tolist()), successive_law(WEIGHTS, n))


def test_where_the_weights_run_out_the_rest_is_not_valid():
    places, valid = drawn(WEIGHTS, 5, rows=100)
    assert valid.tolist() == [[True] * 4 + [False]] * 100
    assert places[:, 4].eq(2).all()


def test_weights_of_any_size_count_by_their_ratios():
    log_weights = torch.tensor([700.0, 700.0 - 1.0986123, float("-inf")]).repeat(FEWEST_DRAWS, 1)
    places, _ = draw_without_replacement(log_weights, 1, generator(5))
    assert_follows(places[:, 0].tolist(), [0.75, 0.25, 0])


@pytest.mark.parametrize("extreme", [0.0, 1 - 2**-24])
def test_extreme_noise_stays_finite(extreme, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "uniform_", lambda self, generator: self.fill_(extreme))
    places, valid = draw_without_replacement(torch.tensor([0.0, 1.0, float("-inf")]), 3, generator())
    assert places.tolist() == [1, 0, 2]
    assert valid.tolist() == [True, True, False]
