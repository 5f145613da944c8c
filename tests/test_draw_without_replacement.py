import pytest
import torch

from spherec.rng import draw_without_replacement
from tests.oracles import image_law, successive_law
from tests.sampling.checks import FEWEST_DRAWS, assert_follows, generator

WEIGHTS = [5.0, 1.0, 0.0, 3.0, 0.2]


def drawn(weights, n, seed=0, rows=FEWEST_DRAWS):
    return draw_without_replacement(torch.tensor(weights).log().repeat(rows, 1), n, generator(seed))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_places_are_drawn_one_after_the_other_without_replacement(n):
    places, valid = drawn(WEIGHTS, n, seed=n)
    assert valid.all()
    assert_follows(map(tuple, places.tolist()), successive_law(WEIGHTS, n))


def test_each_place_is_drawn_by_the_weights_that_are_left():
    places, _ = drawn(WEIGHTS, 3)
    for at in range(3):
        assert_follows(places[:, at].tolist(), image_law(successive_law(WEIGHTS, 3), lambda order, at=at: order[at]))


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
