import re
from dataclasses import FrozenInstanceError

import pytest

from spherec.errors import ArgumentError
from spherec.sampling import Hard, Popularity, SemiHard, TwoStage, Uniform

NAN, INF = float("nan"), float("inf")
COUNTS = [0, -1, 2.5, "3", None]
ALL = [Uniform, Popularity, TwoStage, Hard, SemiHard]
WRONG = [
    *((config, "negatives", value) for config in ALL for value in COUNTS),
    *((config, "candidates", value) for config in (TwoStage, Hard, SemiHard) for value in COUNTS),
    *((config, "beta", value) for config in (Popularity, TwoStage) for value in (INF, -INF, NAN)),
    *((TwoStage, "sharpness", value) for value in (-0.1, INF, NAN)),
    *((TwoStage, "cap", value) for value in (0, 1, -0.5, 1.5, NAN)),
    *((TwoStage, "vectors", value) for value in ("Live", "", None)),
    *((SemiHard, "margin", value) for value in (0, -1, INF, NAN)),
]


@pytest.mark.parametrize(("config", "field", "value"), WRONG, ids=lambda one: getattr(one, "__name__", repr(one)))
def test_a_value_outside_its_range_is_refused_by_name(config, field, value):
    with pytest.raises(ArgumentError, match=f"^{field} .*{re.escape(str(value))}"):
        config(**{field: value})


def test_more_negatives_than_candidates_are_refused():
    with pytest.raises(ArgumentError, match=r"^negatives .*4 of 3"):
        TwoStage(negatives=4, candidates=3)


@pytest.mark.parametrize("config", ALL)
def test_configs_cannot_be_changed(config):
    with pytest.raises(FrozenInstanceError):
        config().negatives = 2


@pytest.mark.parametrize(
    ("negatives", "beta"), [(1, 0.8), (2, 0.7), (3, 0.7), (4, 0.525), (5, 0.525), (10, 0.525), (100, 0.525)]
)
def test_more_negatives_are_tuned_to_a_smaller_beta(negatives, beta):
    assert TwoStage.tuned(negatives) == TwoStage(negatives, beta, 0.02, vectors="live")


@pytest.mark.parametrize(("preset", "vectors"), [(TwoStage.as_released, "frozen"), (TwoStage.as_written, "live")])
def test_presets_of_the_paper_have_the_full_sharpness(preset, vectors):
    assert preset() == TwoStage(1, 0.8, 1.0, 2000, False, vectors, 0.875)
    assert preset(negatives=5, beta=1.0) == TwoStage(5, 1.0, 1.0, 2000, False, vectors, 0.875)
