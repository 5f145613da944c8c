"""A few inputs of every target of `make fuzz`, and all that ever failed."""

import time

import pytest

pytest.importorskip("polars")
pytest.importorskip("usearch")

from tests.fuzz.__main__ import TooLongError, judge, keep_case, kept_cases, make_case
from tests.fuzz.targets import TARGETS, Target

SECONDS = 0.4  # of new inputs for each target


@pytest.mark.parametrize("name", TARGETS)
def test_only_our_own_errors_come_out(name, tmp_path):
    for case in kept_cases(name):
        assert judge(TARGETS[name], case, tmp_path) is None
    begin, number = time.process_time(), 0
    while number < 3 or (time.process_time() - begin < SECONDS and number < 60):
        problem = judge(TARGETS[name], make_case(name, "default tier", number), tmp_path)
        assert problem is None, f"input {number}"
        number += 1


def test_the_same_seed_gives_the_same_inputs():
    for name in ("model", "text", "shards-forged", "call"):
        assert make_case(name, "x", 3) == make_case(name, "x", 3) != make_case(name, "y", 3)


def fail(error):
    def run(case, folder):
        raise error

    return Target(None, run)


def test_a_foreign_error_is_a_failure(tmp_path):
    assert "ZeroDivisionError" in judge(fail(ZeroDivisionError("x")), b"", tmp_path)
    assert "TooLongError" in judge(fail(TooLongError("x")), b"", tmp_path)
    assert "AssertionError" in judge(fail(AssertionError("other content")), b"", tmp_path)


def test_a_failing_input_is_kept_and_replayed(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.fuzz.__main__.CASES", tmp_path)
    file = keep_case("model", b"bad")
    assert file.parent == tmp_path
    assert kept_cases("model") == [b"bad"]
    assert kept_cases("data") == []
