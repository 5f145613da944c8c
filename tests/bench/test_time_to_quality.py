"""Time to quality: each fit timed and tested once, and the time until the lists are as good as EASE's."""

import json

import pytest
import torch

from spherec.bench.steps import generate_interactions
from spherec.bench.time_to_quality import QualityPlan, TimedRun, TimeToQuality, measure_time_to_quality
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError
from tests.training.planted import TRAIN

CPU = torch.device("cpu")
SMALL = "fast"


def made_up(*runs):
    timed = tuple(TimedRun(model, {}, seconds, None, ndcg, 5.0) for model, seconds, ndcg in runs)
    return TimeToQuality({}, {}, QualityPlan(), timed, {})


def test_the_time_is_that_of_the_fastest_run_that_is_good_enough():
    result = made_up(("ours", 1, 0.181), ("ours", 3, 0.1985), ("ours", 9, 0.21), ("ease", 2, 0.2), ("als", 4, 0.1))
    assert result.target == 0.2
    assert result.seconds_until(0.9) == {"ours": 1, "ease": 2, "als": None}
    assert result.seconds_until(0.99) == {"ours": 3, "ease": 2, "als": None}
    assert result.seconds_until(1.0) == {"ours": 9, "ease": 2, "als": None}


def test_seconds_of_als_are_there_if_it_was_fit():
    assert made_up(("ours", 1, 0.18), ("als", 4, 0.1)).als_seconds == 4
    assert made_up(("ours", 1, 0.18)).als_seconds is None


def test_without_ease_there_is_nothing_to_reach():
    assert made_up(("ours", 1, 0.18)).seconds_until(0.9) == {}


@pytest.fixture(scope="module")
def measured():
    said = []
    data = TRAIN
    models = (SMALL, "ease", "most-popular")
    plan = QualityPlan(lengths=(0.0001, 0.01), trials=2, k=5)
    return measure_time_to_quality(lambda: data, models, plan, device=CPU, on_progress=said.append), said


def test_our_model_runs_for_each_length_and_a_baseline_once(measured):
    result, said = measured
    assert [run.model for run in result.runs] == [SMALL, SMALL, "ease", "most-popular"]
    first, second = (run.settings["epochs"] for run in result.runs[:2])
    assert 1 == first < second
    assert len(said) == 4
    for run in result.runs:
        assert run.seconds > 0
        assert run.peak_mb is None or run.peak_mb >= 0
        assert 0 < run.ndcg <= 1
        assert run.mmr > 0


def test_the_record_is_plain_data(measured):
    record = json.loads(json.dumps(measured[0].to_dict()))
    assert record["seconds_until_share_of_ease"]["95%"]["ease"] == record["runs"][2]["seconds"]
    assert record["plan"]["k"] == 5


def test_a_model_that_cannot_be_fit_is_left_out_with_the_reason(monkeypatch):
    monkeypatch.setattr("spherec.lab.baselines.ease.LARGEST", 3)
    data = generate_interactions(20, 30, 200)
    result = measure_time_to_quality(lambda: data, ("ease", "most-popular"), device=CPU)
    assert [run.model for run in result.runs] == ["most-popular"]
    assert "EASE inverts" in result.skipped["ease"]


def test_data_of_which_nothing_can_be_held_out():
    with pytest.raises(DataError, match="hold a fifth"):
        measure_time_to_quality(lambda: Interactions.from_pairs([1, 2], [1, 2]), ("most-popular",), device=CPU)


@pytest.mark.parametrize("lengths", [(), (0.0,), (0.5, 1.5)])
def test_lengths_that_are_no_shares(lengths):
    with pytest.raises(ArgumentError, match="lengths must be"):
        QualityPlan(lengths=lengths)
