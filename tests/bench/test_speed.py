"""The benchmark of speed on next to nothing: its record must be sane, whatever the machine."""

import json
import time

import machine
import pytest
import speed
import torch
from machine import Machine
from plain import Floor, step_floor
from steps import generate_interactions
from timing import WorkDone, time_in_turns

from spherec.sampling import TwoStage, Uniform
from spherec.training import Training

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


def test_workloads_take_turns():
    made = []

    def workload(name, seconds):
        def work(calls):
            made.append(name)
            time.sleep(calls * seconds)
            return WorkDone(calls, 10 * calls)

        return work

    slow, fast = time_in_turns([workload("slow", 0.02), workload("fast", 0.01)], 3, 0.02, CPU)
    assert made[-6:] == ["slow", "fast"] * 3
    assert 20 <= slow.fastest_ms_per_step <= slow.ms_per_step
    assert 10 <= fast.fastest_ms_per_step <= fast.ms_per_step
    assert fast.per_second == pytest.approx(10_000 / fast.ms_per_step)
    assert fast.steps >= slow.steps >= 3


def test_the_floor_by_hand():
    uniform = step_floor(Training(dim=10, sampler=Uniform(2), batch_size=100))
    assert uniform.mb == pytest.approx(100 * (1 + 1 + 2) * 10 * 3 * 2 * 4 / 1e6)
    two_stage = step_floor(Training(dim=10, sampler=TwoStage(2, candidates=50), batch_size=100))
    assert two_stage.mb == pytest.approx(uniform.mb + 50 * 10 * 3 * 4 / 1e6)
    assert two_stage.gflop == pytest.approx(uniform.gflop + 2 * 100 * 50 * 10 / 1e9)
    limits = Machine(copy_gb_per_second=10, gather_gb_per_second=5, gflops=100, launch_us=None, graph_launch_us=None)
    assert Floor(mb=20, gflop=0.1).ms_on(limits) == pytest.approx(2)
    assert Floor(mb=20, gflop=0.3).ms_on(limits) == pytest.approx(3)
