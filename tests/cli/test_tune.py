"""`spherec tune`, as a newcomer and as a script would call it."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from spherec.sampling import Uniform
from spherec.training.config import PRESETS
from tests.lab.tunings import DATA

ROOT = Path(__file__).parents[2]
QUICK = ["--device", "cpu"]
QUICK += [word for each in ("dim=4", "epochs=3", "batch_size=64", "validate_every=1") for word in ("--set", each)]
RATE = ("--search", "optimizer.learning_rate=0.003..0.1:log")


@pytest.fixture
def prepared(tmp_path):
    path = tmp_path / "data.npz"
    DATA.save(path)
    return path


@pytest.fixture
def tune(spherec, prepared, tmp_path):
    """Run `spherec tune` on the prepared data, into best.toml."""
    return lambda *options: spherec("tune", prepared, "-o", tmp_path / "best.toml", *QUICK, *options)


def files(folder):
    return sorted(file.name for file in folder.iterdir())


def test_the_best_settings_are_a_file_that_train_reads(tune, spherec, prepared, tmp_path):
    done = tune(*RATE, "--set", "sampler.kind=Uniform", "--set", "seed=3", "--trials", 4)
    assert done.code == 0, done.err
    assert files(tmp_path) == ["best.db", "best.toml", "data.npz"]
    text = (tmp_path / "best.toml").read_text()
    assert text.startswith(f"# spherec tune {prepared} -o")
    assert all(word in text for word in ("--search", "--trials 4", "commit", "NDCG@50 "))
    assert text.splitlines()[1][2:] in done.out, "the line of the best trial"
    config = PRESETS["accurate"].training.change(tomllib.loads(text))
    assert f"optimizer.learning_rate={config.optimizer.learning_rate:.4g}" in text
    assert (config.dim, config.seed, config.sampler) == (4, 3, Uniform())

    assert f"train with them: spherec train {prepared} --config {tmp_path}/best.toml -o" in done.err
    model = tmp_path / "best.spherec"
    command = ("train", prepared, "--config", tmp_path / "best.toml", "-o", model, "--device", "cpu", "--json")
    trained = json.loads(spherec(*command, "--validation", 0.1).out)
    best = max(record["metric"] for record in trained["history"])  # on the same held-out items
    assert f"NDCG@50 {100 * best:.2f} %" in done.out
    assert f"in epoch {trained['best_epoch']};" in done.out


def test_a_line_for_each_trial_and_for_the_best(tune):
    done = tune(*RATE, "--trials", 6)
    assert "searching optimizer.learning_rate=0.003..0.1:log" in done.err
    assert [line.split(":")[0] for line in done.err.splitlines() if line.startswith("trial ")] == [
        f"trial {n}" for n in range(6)
    ]
    assert done.out.count("optimizer.learning_rate=") == 1
    assert " %; the best" in done.out or " %, MMR " in done.out, "in percent, as in tables"
    again = tune(*RATE, "--trials", 6)
    assert "trial 0:" not in again.err, "nothing left to do"
    assert again.out == done.out


def test_what_is_searched_if_nothing_is_said_is_shown_first(tune):
    done = tune("--preset", "two-stage", "--trials", 1)
    first = done.err.splitlines()[0]
    for name in ("loss.margin=", "optimizer.learning_rate=", "sampler.beta=", "sampler.sharpness="):
        assert name in first
    assert "--search" in first


def test_no_trial_that_comes_to_its_end_is_an_error(tune, tmp_path):
    done = tune("--search", "spread_out=1e299..1e300", "--trials", 2)
    assert done.code == 2
    assert "error: no trial was completed; the last failed: the loss is" in done.err
    assert files(tmp_path) == ["best.db", "data.npz"]


def test_the_table_of_a_raw_file_needs_its_columns_again(spherec, tmp_path):
    table = tmp_path / "plays.csv"
    rows = [f"u{user},{item}" for user in range(20) for item in range(12) if (user + item) % 3]
    table.write_text("who,what\n" + "\n".join(rows) + "\n")
    columns = ("--user-column", "who", "--item-column", "what")
    done = spherec("tune", table, *columns, "-o", tmp_path / "b.toml", *QUICK, *RATE, "--trials", 1)
    assert done.code == 0, done.err
    assert f"spherec train {table} --user-column who --item-column what --config" in done.err


BAD = {
    "unknown field": (("--search", "dims=2..4"), ["dims is not a field", "did you mean 'dim'?"]),
    "no range": (("--search", "dim=2...4"), ["cannot search dim"]),
    "no share": ((*RATE, "--validation", 1), ["share between 0 and 1"]),
    "storage nowhere": ((*RATE, "--storage", "{tmp}/no/s.db"), ["does not exist"]),
    "output nowhere": ((*RATE, "-o", "{tmp}/no/b.toml"), ["does not exist"]),
}


@pytest.mark.parametrize(("options", "words"), BAD.values(), ids=BAD)
def test_what_cannot_be_is_one_sentence_before_any_trial(tune, tmp_path, options, words):
    done = tune(*(str(option).format(tmp=tmp_path) for option in options))
    assert (done.code, done.out) == (2, "")
    line = done.err.splitlines()[-1]
    assert line.startswith("error: ")
    for word in words:
        assert word in line
    assert "trial 0" not in done.err
    assert files(tmp_path) == ["data.npz"]


def test_a_password_is_not_written_anywhere(tune, tmp_path):
    place = f"sqlite:///{tmp_path}/kept.db"
    done = tune(*RATE, "--trials", 1, "--storage", place)
    assert done.code == 0, done.err
    assert place not in (tmp_path / "best.toml").read_text()
    done = tune(*RATE, "--storage", "postgresql+nosuch://me:secret@host/db")
    assert "secret" not in done.err


def test_the_place_can_come_from_the_environment(tune, tmp_path, monkeypatch):
    monkeypatch.setenv("SPHEREC_STORAGE", f"sqlite:///{tmp_path}/kept.db?timeout=7")
    done = tune(*RATE, "--trials", 1)
    assert done.code == 0, done.err
    assert files(tmp_path) == ["best.toml", "data.npz", "kept.db"]
    assert "timeout" not in (tmp_path / "best.toml").read_text()


def test_without_optuna_it_names_the_remedy(spherec, prepared, tmp_path, hide):
    hide("optuna", "spherec.lab.tuning")
    done = spherec("tune", prepared, "-o", tmp_path / "best.toml")
    assert done.code == 2
    assert done.err.strip() == "error: tuning needs optuna; install it with: pip install optuna"


def test_ctrl_c_writes_the_best_so_far_and_the_same_command_goes_on(tune, prepared, tmp_path):
    options = [str(one) for one in (*QUICK, *RATE)]
    command = [sys.executable, "-m", "spherec", "tune", str(prepared), "-o", str(tmp_path / "best.toml"), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(
        [*command, "--trials", "9999"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    said = ""
    while "trial 1:" not in said:
        said += (line := process.stderr.readline())
        assert line, said
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate()
    said += rest
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "rerun the command to continue" in said
    assert "interrupted" in out
    assert tomllib.loads((tmp_path / "best.toml").read_text())["dim"] == 4
    done = sum(line.startswith("trial ") for line in said.splitlines())
    assert f"all trials done, {done + 2} trials" in tune(*RATE, "--trials", done + 2).out
