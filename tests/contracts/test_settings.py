"""Settings of samplers, losses, the optimiser and the index: refused by name where they are out of range."""

import re
from dataclasses import FrozenInstanceError

import pytest

from spherec.errors import ArgumentError
from spherec.losses import Hinge, Softmin
from spherec.optim import Adam
from spherec.ranking.usearch import Hnsw
from spherec.sampling import Hard, Popularity, SemiHard, TwoStage, Uniform

NAN, INF = float("nan"), float("inf")
COUNTS, NUMBERS, POSITIVE = [0, -1, 2.5, "3", None], [INF, -INF, NAN], [0, -1, INF, NAN]
CANDIDATES = {"negatives": COUNTS, "candidates": COUNTS}
TWO_STAGE = {
    "beta": NUMBERS,
    "sharpness": [-0.1, INF, NAN],
    "cap": [0, 1, -0.5, 1.5, NAN],
    "vectors": ["Live", "", None],
}
BETAS = {"beta1": [-0.1, 0.999, 1.0, NAN], "beta2": [0.9, 0.0, 1.0, 1.5, NAN]}
RANGES = {
    Uniform: {"negatives": COUNTS},
    Popularity: {"negatives": COUNTS, "beta": NUMBERS},
    TwoStage: {**CANDIDATES, **TWO_STAGE},
    Hard: CANDIDATES,
    SemiHard: {**CANDIDATES, "margin": POSITIVE},
    Hinge: {"margin": POSITIVE},
    Softmin: {"temperature": POSITIVE, "gamma": NUMBERS},
    Adam: {"learning_rate": POSITIVE, "epsilon": POSITIVE, **BETAS},
}


@pytest.mark.parametrize("kind", RANGES)
def test_a_value_outside_its_range_is_refused_by_name(kind):
    for name, values in RANGES[kind].items():
        for value in values:
            with pytest.raises(ArgumentError, match=f"{name} .*{re.escape(str(value))}"):
                kind(**{name: value})
    with pytest.raises(FrozenInstanceError):
        setattr(kind(), next(iter(RANGES[kind])), 2)


def test_settings_of_the_index_are_refused_by_name():
    for name, value in {"connectivity": 1, "width": "5", "exact_beyond": 1.5, "dtype": "f64"}.items():
        with pytest.raises(ArgumentError, match=name):
            Hnsw(**{name: value})


def test_more_negatives_than_candidates_are_refused():
    with pytest.raises(ArgumentError, match=r"^negatives .*4 of 3"):
        TwoStage(negatives=4, candidates=3)
