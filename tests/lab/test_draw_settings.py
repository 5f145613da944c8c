"""Which settings are tried."""

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from spherec.lab.baselines.most_popular import MostPopular
from tests.sampling.checks import FEWEST_DRAWS, assert_follows

SPACES = st.dictionaries(
    st.sampled_from("abcd"), st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True), max_size=4
)


def drawn(space, trials, seed=0, fold=0, name="x"):
    model = MostPopular()
    model.name, model.search_space = name, space
    return model.draw(trials, seed=seed, fold=fold)


def combinations(space):
    return [dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())]


@given(space=SPACES, few=st.integers(1, 5), more=st.integers(0, 300), seed=st.integers(0, 5), fold=st.integers(0, 3))
def test_the_default_first_none_twice_and_more_trials_begin_like_fewer(space, few, more, seed, fold):
    found, every = drawn(space, few + more, seed, fold), combinations(space)
    assert found[0] == {name: values[0] for name, values in space.items()}
    assert len(found) == min(few + more, len(every))
    assert all(one in every for one in found)
    assert len({tuple(one.items()) for one in found}) == len(found)
    assert found[:few] == drawn(space, few, seed, fold)


def test_every_combination_is_as_likely_as_any_other():
    space = {"a": (0, 1, 2), "b": (0, 1)}
    seen = Counter(tuple(drawn(space, 2, seed)[1].values()) for seed in range(FEWEST_DRAWS))
    others = [tuple(one.values()) for one in combinations(space)][1:]
    assert_follows(list(seen.elements()), dict.fromkeys(others, 1 / 5))


def test_seed_fold_and_name_decide():
    space = {"a": range(50), "b": range(50)}
    first = drawn(space, 5)
    assert first == drawn(space, 5)
    for other in ({"seed": 1}, {"fold": 1}, {"name": "y"}):
        assert drawn(space, 5, **other) != first
