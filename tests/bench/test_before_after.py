"""The comparison of two trees: turns, ratios and their spread; and, slowly, this tree with itself."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benchmarks/before_after.py"


@pytest.fixture(scope="module")
def before_after():
    spec = importlib.util.spec_from_file_location("before_after", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["before_after"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["before_after"]


def test_each_tree_comes_first_every_other_time(before_after):
    called = []

    def timer(name, speed):
        return lambda: called.append(name) or speed

    pairs = before_after.take_turns(3, timer("this", 6.0), timer("other", 3.0))
    assert called == ["other", "this", "this", "other", "other", "this"]
    assert pairs == [(6.0, 3.0)] * 3


def test_a_figure_is_the_median_of_the_ratios(before_after):
    figure = before_after.summarise("x", [(1.0, 2.0), (4.0, 4.0), (9.0, 6.0)])
    assert (figure.ratio, figure.low, figure.high, figure.this, figure.other) == (1.0, 0.75, 1.25, 4.0, 4.0)
    alone = before_after.summarise("x", [(1.0, 2.0)])
    assert (alone.ratio, alone.low, alone.high) == (0.5, 0.5, 0.5)


@pytest.mark.slow
def test_a_tree_is_as_fast_as_itself():
    source = PATH.parents[1] / "src"
    command = [sys.executable, str(PATH), "--other", str(source), "--quick", "--only", "uniform", "--least", "0.3"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "fits: uniform, batch 4096" in done.stdout
    assert "least ratio: " in done.stdout
