"""The temperature that comes from the data: a number for any data, the higher the denser."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.data.interactions import Interactions
from spherec.losses import Hinge, Softmin
from spherec.losses.softmin import temperature_for
from tests.sampling.checks import interactions, random_rows


def test_it_is_that_of_the_formula():
    data = interactions(random_rows(40, 50, 0.1))
    matrix = data.matrix.toarray()
    users, items, pairs = (matrix.any(1)).sum(), (matrix.any(0)).sum(), matrix.sum()
    expected = 0.65 / math.log(users * items / pairs / 2)
    assert temperature_for(data) == temperature_for(data, 1024) == pytest.approx(expected, abs=1e-3)
    assert temperature_for(data, 128) == pytest.approx(expected * 4**0.2, abs=1e-3)


EDGES = {
    "one user": np.ones((1, 9)),
    "one item": np.ones((9, 1)),
    "half of a matrix": np.indices((8, 8)).sum(0) % 2,
    "no pairs": np.zeros((3, 4)),
    "no users": np.zeros((0, 4)),
}


@pytest.mark.parametrize("matrix", EDGES.values(), ids=EDGES)
def test_data_without_a_depth_has_the_highest(matrix):
    assert temperature_for(Interactions.from_matrix(matrix.astype(int))) == 1.0


@given(
    rows=st.integers(1, 12).flatmap(
        lambda width: st.lists(st.lists(st.booleans(), min_size=width, max_size=width), min_size=1, max_size=12)
    )
)
def test_it_is_a_usable_number_for_any_data(rows):
    temperature = temperature_for(interactions(np.array(rows, int)))
    assert 0 < temperature <= 1
    assert Softmin(temperature).temperature == temperature


def test_users_and_items_without_pairs_do_not_count_and_a_given_one_stays():
    rows = random_rows(20, 30, 0.1)
    data = interactions(rows)
    assert temperature_for(interactions(np.pad(rows, ((5, 35), (7, 53))))) == temperature_for(data)
    assert Softmin(0.3).resolve(data, 8) == Softmin(0.3)
    assert Softmin().resolve(data, 64) == Softmin(temperature_for(data, 64))
    assert Hinge(0.5).resolve(data, 8) == Hinge(0.5)
