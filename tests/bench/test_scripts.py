"""The scripts of benchmarks/ on next to nothing: their records must be sane, whatever the machine."""

import json

import before_after
import machine
import pytest
import speed
import torch
from machine import Machine
from plain import Floor, step_floor
from steps import generate_interactions
from time_to_quality import Plan, TimedRun, measure, seconds_until

from spherec.sampling import TwoStage, Uniform
from spherec.training import Training
from tests.training.planted import TRAIN

CPU = torch.device("cpu")
TINY = speed.Plan(dim=8, batches=(32,), chunks=2, seconds=0.002, k=5, rows=500, imports=1)
DATA = generate_interactions(40, 3000, 800)
SPEED = {"ms_per_step", "fastest_ms_per_step", "steps_measured"}


def test_the_record_has_all_parts_with_the_plain_implementation_beside_ours(monkeypatch, capsys):
    monkeypatch.setattr(speed, "time_statement", lambda code, times: 0.5)
    monkeypatch.setattr(machine, "_FLOATS", 1 << 22)
    record = json.loads(json.dumps(speed.measure(DATA, TINY, CPU, loaded_in=0.5), allow_nan=False))
    speed.print_record(record)
    assert "two-stage-5-32" in capsys.readouterr().out
    assert record["data"] == {"users": 40, "items": 3000, "pairs": len(DATA)}
    assert record["machine"]["gflops"] > 0.1
    assert record["loading"]["import_torch"] == 0.5
    settings = [(step["sampler"], step["negatives"], step["batch"]) for step in record["steps"]]
    assert settings == [(name, n, 32) for name in ("uniform", "popularity", "two-stage") for n in (1, 5)]
    for step in record["steps"]:
        for who in ("spherec", "baseline"):
            assert set(step[who]) == SPEED | {"triplets_per_second", "peak_mb"}
            assert min(step[who]["triplets_per_second"], step[who]["ms_per_step"]) > 0
        assert step["ratio"] == step["spherec"]["triplets_per_second"] / step["baseline"]["triplets_per_second"]
    for part, unit in (("ranking", "users"), ("reading", "rows")):
        assert set(record[part]["spherec"]) == SPEED | {f"{unit}_per_second"}
        assert record[part]["ratio"] > 0


def test_the_floor_by_hand():
    uniform = step_floor(Training(dim=10, sampler=Uniform(2), batch_size=100))
    assert uniform.mb == pytest.approx(100 * (1 + 1 + 2) * 10 * 3 * 2 * 4 / 1e6)
    two_stage = step_floor(Training(dim=10, sampler=TwoStage(2, candidates=50), batch_size=100))
    assert two_stage.mb == pytest.approx(uniform.mb + 50 * 10 * 3 * 4 / 1e6)
    assert two_stage.gflop == pytest.approx(uniform.gflop + 2 * 100 * 50 * 10 / 1e9)
    limits = Machine(copy_gb_per_second=10, gather_gb_per_second=5, gflops=100, launch_us=None, graph_launch_us=None)
    assert Floor(mb=20, gflop=0.1).ms_on(limits) == pytest.approx(2)
    assert Floor(mb=20, gflop=0.3).ms_on(limits) == pytest.approx(3)


def test_the_time_is_that_of_the_fastest_run_that_is_good_enough():
    figures = (("ours", 1, 0.181), ("ours", 3, 0.1985), ("ours", 9, 0.21), ("ease", 2, 0.2), ("als", 4, 0.1))
    runs = [TimedRun(model, {}, seconds, None, ndcg, 5.0) for model, seconds, ndcg in figures]
    assert seconds_until(0.9, runs) == {"ours": 1, "ease": 2, "als": None}
    assert seconds_until(0.99, runs) == {"ours": 3, "ease": 2, "als": None}
    assert seconds_until(1.0, runs) == {"ours": 9, "ease": 2, "als": None}
    assert seconds_until(0.9, runs[:1]) == {}, "without EASE there is nothing to reach"


def test_our_model_runs_for_each_length_and_a_baseline_once():
    plan = Plan(lengths=(0.0001, 0.01), trials=2, k=5)
    runs = list(measure(TRAIN, ("fast", "ease", "most-popular"), plan, CPU, 0.5))
    assert [run.model for run in runs] == ["fast", "fast", "ease", "most-popular"]
    assert 1 == runs[0].settings["epochs"] < runs[1].settings["epochs"]
    for run in runs:
        assert run.seconds > 0.5
        assert 0 < run.ndcg <= 1


def test_each_tree_comes_first_every_other_time():
    called = []

    def timer(name, speed):
        return lambda: called.append(name) or speed

    pairs = before_after.take_turns(3, timer("this", 6.0), timer("other", 3.0))
    assert called == ["other", "this", "this", "other", "other", "this"]
    assert pairs == [(6.0, 3.0)] * 3


def test_a_figure_is_the_median_of_the_ratios():
    figure = before_after.summarise("x", [(1.0, 2.0), (4.0, 4.0), (9.0, 6.0)])
    assert (figure.ratio, figure.low, figure.high, figure.this, figure.other) == (1.0, 0.75, 1.25, 4.0, 4.0)
    alone = before_after.summarise("x", [(1.0, 2.0)])
    assert (alone.ratio, alone.low, alone.high) == (0.5, 0.5, 0.5)
