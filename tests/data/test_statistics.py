from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.data.interactions import Interactions
from spherec.data.statistics import CountSummary, statistics
from tests import oracles

PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 400)), min_size=1, max_size=600, unique=True)


@given(PAIRS)
def test_statistics_equal_the_plain_count(pairs):
    found = asdict(statistics(Interactions.from_pairs(*zip(*pairs, strict=True))))
    for name, expected in oracles.statistics(pairs).items():
        value = tuple(found[name].values()) if isinstance(expected, tuple) else found[name]
        assert value == pytest.approx(expected), name


def test_users_and_items_without_interactions_are_not_counted():
    assert statistics(Interactions.from_matrix(np.zeros((2, 2)))).items_per_user == CountSummary(0, 0, 0, 0)
    matrix = np.zeros((5, 7))
    matrix[1, 2] = matrix[3, 2] = matrix[3, 4] = 1
    bare = matrix[[1, 3]][:, [2, 4]]
    assert statistics(Interactions.from_matrix(matrix)) == statistics(Interactions.from_matrix(bare))
