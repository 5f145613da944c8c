"""The benchmark on next to nothing: what it tells must be sane, whatever the machine."""

import json
import time

import pytest
import torch

from spherec import Interactions, rng
from spherec.bench import BenchmarkPlan, Report, benchmark, machine, measure
from spherec.bench.baseline import Floor, step_floor
from spherec.bench.machine import Machine
from spherec.bench.report import LoadingResult
from spherec.bench.steps import TrainerSteps, generate_interactions
from spherec.bench.timing import WorkDone, time_in_turns
from spherec.errors import ArgumentError, DataError
from spherec.geometry import DenseVectors
from spherec.memory import measure_peak
from spherec.sampling import TwoStage, Uniform
from spherec.training import Training

CPU = torch.device("cpu")
TINY = BenchmarkPlan(dim=8, batches=(32,), chunks=2, seconds=0.002, k=5, rows=500, imports=1)
DATA = generate_interactions(40, 3000, 800)

SPEED = {"ms_per_step", "fastest_ms_per_step", "steps_measured"}
STEP = {"sampler", "negatives", "batch", "dim", "floor_mb", "floor_gflop", "floor_ms", "spherec", "baseline", "ratio"}
TOP = {"benchmark", "environment", "quick", "data", "machine", "steps", "ranking", "reading", "loading"}


@pytest.fixture(scope="module")
def told() -> dict:
    """The record, as a script gets it."""
    said = []
    with pytest.MonkeyPatch.context() as patch:  # importing torch again and again takes long
        patch.setattr(benchmark, "measure_loading", lambda times, data: LoadingResult(0.1, 2.0, 0.3, 3.0, data))
        patch.setattr(machine, "_FLOATS", 1 << 22)
        record = measure(DATA, TINY, device=CPU, loaded_in=0.5, on_progress=said.append)
    assert isinstance(record, Report)
    assert len([line for line in said if line.startswith("steps: ")]) == 6
    return json.loads(json.dumps(record.to_dict(), allow_nan=False))


def test_all_parts_are_there(told):
    assert set(told) == TOP
    assert told["data"] == {"users": 40, "items": 3000, "pairs": len(DATA)}
    assert {"spherec", "commit", "device", "python", "torch", "numpy", "threads", "cores", "date"} <= set(
        told["environment"]
    )
    assert told["machine"]["copy_gb_per_second"] > 0.1
    assert told["machine"]["gflops"] > 0.1
    assert told["machine"]["launch_us"] is None


def test_every_step_is_measured_beside_the_baseline(told):
    settings = [(one["sampler"], one["negatives"], one["batch"]) for one in told["steps"]]
    assert settings == [(name, n, 32) for name in ("uniform", "popularity", "two-stage") for n in (1, 5)]
    for one in told["steps"]:
        assert set(one) == STEP
        for who in ("spherec", "baseline"):
            speed = one[who]
            assert set(speed) == SPEED | {"triplets_per_second", "peak_mb"}
            assert speed["steps_measured"] >= 2
            assert min(speed["triplets_per_second"], speed["ms_per_step"]) > 0
            assert speed["peak_mb"] is None or 0 <= speed["peak_mb"] < 500
        assert one["ratio"] == one["spherec"]["triplets_per_second"] / one["baseline"]["triplets_per_second"]


@pytest.mark.parametrize(("part", "unit"), [("ranking", "users"), ("reading", "rows")])
def test_lists_and_reading_too(told, part, unit):
    assert set(told[part]["spherec"]) == SPEED | {f"{unit}_per_second"}
    assert told[part]["ratio"] > 0
    assert told["ranking"]["users"] == 40
    assert told["reading"]["rows"] == 500


@pytest.mark.slow
def test_loading():
    loading = benchmark.measure_loading(times=1, data=0.5)
    assert 0 < loading.python < loading.import_spherec < loading.import_training
    assert loading.python < loading.import_torch
    assert loading.data == 0.5


def test_ours_count_what_they_do():
    config = Training(dim=4, sampler=Uniform(3), batch_size=64)
    initial = DenseVectors.random(DATA.n_users, DATA.n_items, 4, rng.torch_stream(0, "x"))
    whole_epoch = -(-len(DATA) // 64)
    assert TrainerSteps(DATA, config, initial)(whole_epoch) == WorkDone(whole_epoch, 3 * len(DATA))
    assert TrainerSteps(DATA, config, initial)(2 * whole_epoch) == WorkDone(2 * whole_epoch, 6 * len(DATA))


def test_contenders_take_turns():
    made = []

    def contender(name, seconds):
        def work(calls):
            made.append(name)
            time.sleep(calls * seconds)
            return WorkDone(calls, 10 * calls)

        return work

    slow, fast = time_in_turns([contender("slow", 0.02), contender("fast", 0.01)], 3, 0.02, CPU)
    assert made[-6:] == ["slow", "fast"] * 3
    assert 20 <= slow.fastest_ms_per_step <= slow.ms_per_step
    assert 10 <= fast.fastest_ms_per_step <= fast.ms_per_step
    assert fast.per_second == pytest.approx(10_000 / fast.ms_per_step)
    assert fast.steps >= slow.steps >= 3


def test_memory_is_what_was_taken_at_the_peak():
    with measure_peak(CPU) as peak:
        torch.ones(25_000_000)  # 100 MB, and gone again
    if peak.mb is None:
        pytest.skip("this system does not tell")
    assert 95 < peak.mb < 140
    with measure_peak(CPU) as peak:
        pass
    assert peak.mb < 5


def test_the_floor_by_hand():
    uniform = step_floor(Training(dim=10, sampler=Uniform(2), batch_size=100))
    assert uniform.mb == pytest.approx(100 * (1 + 1 + 2) * 10 * 3 * 2 * 4 / 1e6)
    two_stage = step_floor(Training(dim=10, sampler=TwoStage(2, candidates=50), batch_size=100))
    assert two_stage.mb == pytest.approx(uniform.mb + 50 * 10 * 3 * 4 / 1e6)
    assert two_stage.gflop == pytest.approx(uniform.gflop + 2 * 100 * 50 * 10 / 1e9)


def test_the_slower_of_moving_and_multiplying_counts():
    can = Machine(copy_gb_per_second=10, gather_gb_per_second=5, gflops=100, launch_us=None, graph_launch_us=None)
    assert Floor(mb=20, gflop=0.1).ms_on(can) == pytest.approx(2)
    assert Floor(mb=20, gflop=0.3).ms_on(can) == pytest.approx(3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"seconds": 0.0}, "seconds must be > 0, got 0.0"), ({"chunks": 0}, "chunks must be a whole number >= 1, got 0")],
)
def test_a_plan_must_measure_something(settings, words):
    with pytest.raises(ArgumentError, match=words):
        BenchmarkPlan(**settings)


def test_there_must_be_pairs():
    with pytest.raises(DataError, match="no pairs to train on"):
        measure(Interactions.from_matrix([[0, 0]]), TINY, device=CPU)
