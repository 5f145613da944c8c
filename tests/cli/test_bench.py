"""`spherec bench`: a table for readers, a record for scripts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from spherec.bench import BenchmarkPlan, benchmark, machine
from spherec.bench.report import LoadingResult
from spherec.bench.steps import generate_interactions

ROOT = Path(__file__).parents[2]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A prepared file, and a benchmark that takes no time."""
    few = {"negatives": (5,), "batches": (32,), "chunks": 1, "rows": 100, "imports": 1}
    short = BenchmarkPlan(quick=True, dim=8, seconds=0.001, **few)
    monkeypatch.setattr("spherec.bench.QUICK", short)
    monkeypatch.setattr(benchmark, "measure_loading", lambda times, data: LoadingResult(0.1, 2.0, 0.3, 3.0, data))
    monkeypatch.setattr(machine, "_FLOATS", 1 << 20)
    path = tmp_path / "data.npz"
    generate_interactions(40, 3000, 800).save(path)
    return path


def test_a_script_gets_the_record(spherec, data):
    done = spherec("bench", "--quick", "--data", data, "--device", "cpu", "--json")
    assert done.code == 0
    told = json.loads(done.out)
    assert told["environment"]["device_type"] == "cpu"
    assert [one["sampler"] for one in told["steps"]] == ["uniform", "popularity", "two-stage"]
    assert told["loading"]["data"] > 0
    assert "steps: two-stage, N = 5, batch 32" in done.err


def test_a_reader_gets_tables_and_the_record_in_a_file(spherec, data, tmp_path):
    path = tmp_path / "speed.json"
    done = spherec("bench", "--quick", "--data", data, "--device", "cpu", "-o", path, "--seconds", 0.002)
    assert done.code == 0
    for word in ("two-stage-5-32", "exact lists of 50", "reading a CSV of 100 rows", "The machine copies"):
        assert word in done.out
    assert json.loads(path.read_text())["quick"] is True
    assert "a quick look" in done.err


def test_time_to_quality_prints_tables_and_writes_record_and_plot(spherec, data, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "quality.json"
    options = ("--models", "most-popular,ease", "--quick", "--device", "cpu", "-o", path)
    done = spherec("bench", "--time-to-quality", data, *options)
    assert done.code == 0, done.err
    for word in ("most-popular", "regularization 500.0", "NDCG@50, %", "100%"):
        assert word in done.out
    assert [run["model"] for run in json.loads(path.read_text())["runs"]] == ["most-popular", "ease"]
    assert path.with_suffix(".png").stat().st_size > 1000
    assert "a quick look" in done.err


def test_time_to_quality_for_scripts(spherec, data):
    done = spherec("bench", "--time-to-quality", data, "--models", "most-popular", "--quick", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["runs"][0]["model"] == "most-popular"


BAD = {
    "no time": (("--seconds", 0), "seconds must be > 0, got 0.0"),
    "no folder": (("-o", "no/such/folder/x.json"), "no/such/folder does not exist"),
    "no data": (("--data", "no-such-file.npz"), "no-such-file.npz does not exist"),
    "no model": (("--time-to-quality", "book-crossing", "--models", "eas"), "there is no model called 'eas'"),
    "no device": (("--device", "tpu"), "tpu"),
}


@pytest.mark.parametrize(("options", "words"), BAD.values(), ids=BAD)
def test_bad_input_ends_with_code_2(spherec, options, words):
    done = spherec("bench", "--quick", *options)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(spherec):
    done = spherec("bench", "--device", "cuda")
    assert (done.code, done.out) == (2, "")
    assert "torch finds no CUDA device" in done.err


WITHOUT_POLARS = """
import sys; sys.modules.update(dict.fromkeys(["polars", "pandas", "pydantic"]))
import json, torch
from spherec.bench import BenchmarkPlan, benchmark, measure
from spherec.bench.steps import generate_interactions
from spherec.bench.report import LoadingResult
benchmark.measure_loading = lambda times, data: LoadingResult(0.1, 2.0, 0.3, 3.0, data)
short = BenchmarkPlan(dim=8, negatives=(1,), batches=(32,), chunks=1, seconds=0.001, rows=100, imports=1)
print(json.dumps(measure(generate_interactions(40, 3000, 800), short, device=torch.device("cpu")).to_dict()))
"""


@pytest.mark.slow
def test_where_polars_is_absent_reading_is_skipped_with_a_reason():
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_POLARS], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert "pip install polars" in told["reading"]["skipped"]
    assert len(told["steps"]) == 3
