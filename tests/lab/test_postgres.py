"""Machines that share a study in a PostgreSQL server, and one of them is killed in the middle of a trial."""

import os
import subprocess
import sys
from contextlib import ExitStack

import optuna
import pytest

from tests.docs.blocks import ROOT
from tests.lab.test_tuning import database
from tests.postgres import Database, server

pytest.importorskip("psycopg", reason="needs a driver for PostgreSQL: pip install 'psycopg[binary]'")

States = optuna.trial.TrialState


@pytest.fixture(scope="module")
def folder():
    with server() as folder:
        yield folder


@pytest.fixture
def url(folder, request):
    name = request.node.name.split("[")[0][-60:].lower()
    Database(folder, name)
    return f"postgresql+psycopg://postgres@/{name}?host={folder}"


def run_workers(url, go, *arguments, seconds=150):
    """Start a worker for each (TRIALS, KILLED), let them begin at once, and return how each ended and what it said."""
    command = [sys.executable, "-m", "tests.lab.worker", url]
    how = {"cwd": ROOT, "env": os.environ | {"PYTHONPATH": f"{ROOT}/src:{ROOT}", "OMP_NUM_THREADS": "1"}, "text": True}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with ExitStack() as stack:
        begun = (subprocess.Popen([*command, *map(str, pair), str(go)], **how, **pipes) for pair in arguments)
        workers = [stack.enter_context(worker) for worker in begun]
        for worker in workers:
            stack.callback(worker.kill)
            assert worker.stdout.readline() == "ready\n"
        go.touch()
        said = [worker.communicate(timeout=seconds)[0].split() for worker in workers]
        return [(worker.returncode, words) for worker, words in zip(workers, said, strict=True)]


def trials_of(url):
    with database(url) as storage:
        return optuna.load_study(study_name="spherec", storage=storage).trials


@pytest.mark.slow
def test_a_killed_worker_does_not_stop_the_others_and_its_trial_is_run_again(url, tmp_path):
    killed, survived = run_workers(url, tmp_path / "go", (16, 2), (16, -1))
    assert killed[0] == -9
    assert survived == (0, ["all", "trials", "done", "16"])
    lost = int(killed[1][-1])
    trials = trials_of(url)
    assert [trial.number for trial in trials] == list(range(17))
    assert [trial.number for trial in trials if trial.state == States.FAIL] == [lost]
    assert {trial.state for trial in trials} <= {States.COMPLETE, States.PRUNED, States.FAIL}
    (again,) = (trial for trial in trials if trial.number > lost and trial.params == trials[lost].params)
    assert again.state in (States.COMPLETE, States.PRUNED)
    assert {str(trial.params) for trial in trials} == {str(trial.params) for trial in trials if trial.number != lost}


@pytest.mark.slow
def test_workers_that_begin_at_once_do_not_try_the_same(url, tmp_path):
    ended = run_workers(url, tmp_path / "go", *[(4, -1)] * 3)
    assert [code for code, _ in ended] == [0] * 3, ended
    trials = trials_of(url)
    assert 4 <= len(trials) <= 4 + 2
    assert len({str(trial.params) for trial in trials}) == len(trials)
    (again,) = run_workers(url, tmp_path / "go", (4, -1))
    assert again == (0, ["all", "trials", "done", str(len(trials))]), "there is nothing left to do"
