"""Which settings are tried."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from spherec.lab.models import draw_settings
from tests.sampling.checks import FEWEST_DRAWS, assert_follows

SPACES = st.dictionaries(
    st.sampled_from("abcd"), st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True), max_size=4
)


def combinations(space):
    found = [{}]
    for name, values in space.items():
        found = [one | {name: value} for one in found for value in values]
    return found


@given(space=SPACES, trials=st.integers(1, 300), seed=st.integers(0, 5), fold=st.integers(0, 3))
def test_the_default_first_and_none_twice(space, trials, seed, fold):
    drawn = draw_settings(space, trials, seed=seed, name="x", fold=fold)
    every = combinations(space)
    assert drawn[0] == {name: values[0] for name, values in space.items()}
    assert len(drawn) == min(trials, len(every))
    assert all(one in every for one in drawn)
    assert len({tuple(one.items()) for one in drawn}) == len(drawn)


@given(space=SPACES, few=st.integers(1, 5), more=st.integers(0, 5))
def test_more_trials_go_on_from_fewer(space, few, more):
    drawn = draw_settings(space, few + more, seed=1, name="x", fold=0)
    assert drawn[:few] == draw_settings(space, few, seed=1, name="x", fold=0)


def test_every_combination_is_as_likely_as_any_other():
    space = {"a": (0, 1, 2), "b": (0, 1)}
    seen = Counter(
        tuple(draw_settings(space, 2, seed=seed, name="x", fold=0)[1].values()) for seed in range(FEWEST_DRAWS)
    )
    others = [tuple(one.values()) for one in combinations(space)][1:]
    draw = [key for key, count in seen.items() for _ in range(count)]
    assert_follows(draw, dict.fromkeys(others, 1 / 5))


def test_seed_fold_and_name_decide():
    space = {"a": range(50), "b": range(50)}
    first = draw_settings(space, 5, seed=0, name="x", fold=0)
    assert first == draw_settings(space, 5, seed=0, name="x", fold=0)
    for other in ({"seed": 1}, {"fold": 1}, {"name": "y"}):
        assert draw_settings(space, 5, **({"seed": 0, "name": "x", "fold": 0} | other)) != first
