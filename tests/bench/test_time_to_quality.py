"""Time to quality: each fit timed and tested once, and the time until the lists are as good as EASE's."""

import torch
from steps import generate_interactions
from time_to_quality import Plan, TimedRun, measure, seconds_until

from tests.training.planted import TRAIN

CPU = torch.device("cpu")


def test_the_time_is_that_of_the_fastest_run_that_is_good_enough():
    figures = (("ours", 1, 0.181), ("ours", 3, 0.1985), ("ours", 9, 0.21), ("ease", 2, 0.2), ("ials", 4, 0.1))
    runs = [TimedRun(model, {}, seconds, None, ndcg, 5.0) for model, seconds, ndcg in figures]
    assert seconds_until(0.9, runs) == {"ours": 1, "ease": 2, "ials": None}
    assert seconds_until(0.99, runs) == {"ours": 3, "ease": 2, "ials": None}
    assert seconds_until(1.0, runs) == {"ours": 9, "ease": 2, "ials": None}
    assert seconds_until(0.9, runs[:1]) == {}, "without EASE there is nothing to reach"


def test_our_model_runs_for_each_length_and_a_baseline_once():
    plan = Plan(lengths=(0.0001, 0.01), trials=2, k=5)
    runs = list(measure(TRAIN, ("fast", "ease", "most-popular"), plan, CPU, 0.5))
    assert [run.model for run in runs] == ["fast", "fast", "ease", "most-popular"]
    assert 1 == runs[0].settings["epochs"] < runs[1].settings["epochs"]
    for run in runs:
        assert run.seconds > 0.5
        assert 0 < run.ndcg <= 1


def test_a_model_that_cannot_be_fit_is_left_out(monkeypatch, capsys):
    monkeypatch.setattr("spherec.lab.baselines.ease.LARGEST", 3)
    runs = measure(generate_interactions(20, 30, 200), ("ease", "most-popular"), Plan(), CPU, 0.0)
    assert [run.model for run in runs] == ["most-popular"]
    assert "ease is left out: ease inverts" in capsys.readouterr().out
