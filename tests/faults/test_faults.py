"""The fault tier: a run is killed at every call on its files, or the call fails; then it is resumed.

`make faults` runs all of it. The default tier has the kills at each sync, rename and removal of the last files.
"""

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from spherec import Interactions
from tests.child_process import ROOT, answering

MODEL, CHECKPOINT = "m.spherec", "m.spherec.checkpoint"
OLD = b"an old good model"

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")


@pytest.fixture(scope="module")
def run():
    """Train in a child: the folder, what is to happen, at which call, and more options."""
    with answering("tests.faults.child") as ask:

        def train(folder, action="none", call=0, *options):
            done = ask({"folder": str(folder), "action": action, "call": call, "options": options})
            assert "Traceback" not in done["said"], done["said"]
            return done

        yield train


def prepare(folder):
    rows = (np.random.default_rng(0).random((30, 40)) < 0.3).astype(int)
    folder.mkdir(parents=True)
    Interactions.from_matrix(rows).save(folder / "data.npz")
    return folder


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    """The model of a run that nothing happened to, and the calls of that run."""
    folder = prepare(tmp_path_factory.mktemp("whole") / "run")
    done = run(folder)
    assert done["code"] == 0, done["said"]
    assert files(folder) == ["data.npz", MODEL]
    return model(folder), done["calls"]


@pytest.fixture
def folder(tmp_path):
    return prepare(tmp_path / "run")


def model(folder):
    """The vectors, without what depends on the clock."""
    from spherec.artifact import Artifact

    content = Artifact.load(folder / MODEL)
    return content.vectors.user_table.numpy().tobytes(), content.vectors.item_table.numpy().tobytes(), content.ended


def files(folder):
    return sorted(file.name for file in folder.iterdir())


def begin(folder):
    for file in folder.iterdir():
        if file.name != "data.npz":
            file.unlink()
    (folder / MODEL).write_bytes(OLD)


def finish(run, folder, whole, name):
    """Resume, or start anew where there is no checkpoint, and compare with the run that nothing happened to."""
    if (folder / MODEL).read_bytes() != OLD:
        assert model(folder) == whole[0], f"{name}: a model that is neither the old one nor the new"
    resume = ["--resume"] if (folder / CHECKPOINT).exists() else []
    done = run(folder, "none", 0, *resume)
    assert done["code"] == 0, (name, done["said"])
    assert model(folder) == whole[0], name
    assert files(folder) == ["data.npz", MODEL], name


def numbered(calls, keep=lambda _: True):
    return [(number, call) for number, call in enumerate(calls, 1) if keep(call)]


def is_rare(call):
    return not call.startswith("write")


def kill_at(run, folder, whole, chosen, moments):
    for number, call in chosen:
        for moment in moments:
            begin(folder)
            done = run(folder, moment, number)
            assert done["code"] == -signal.SIGKILL, (call, done)
            finish(run, folder, whole, f"killed {moment} call {number}, {call}")


def test_killed_around_the_end_of_a_run(run, folder, whole):
    kill_at(run, folder, whole, numbered(whole[1], is_rare)[-9:], ["before"])


@pytest.mark.slow
def test_killed_at_every_call(run, folder, whole):
    """Every fsync, rename, unlink and open; of the writes, which are many alike, every third."""
    calls = whole[1]
    kill_at(
        run, folder, whole, [one for one in numbered(calls) if is_rare(one[1]) or one[0] % 3 == 0], ["before", "after"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("action", ["error", "full"])
def test_an_error_at_any_call_or_a_disk_that_is_full_from_there_on_leaves_the_old_or_the_new(
    run, folder, whole, action
):
    for number, call in numbered(whole[1], is_rare):
        begin(folder)
        done = run(folder, action, number)
        assert done["code"] in (0, 2), (call, done["said"])
        if action == "error" and CHECKPOINT in call and ".lock" not in call:
            assert done["code"] == 0, f"a checkpoint ended the run: {call}, {done['said']}"
        if action == "full" and done["code"] == 2:
            assert "No space left on device" in done["said"], call
        if done["code"] == 0:
            assert model(folder) == whole[0], call
        finish(run, folder, whole, f"{action} at call {number}, {call}")


COMMAND = [sys.executable, "-m", "tests.cli.hurried", "train"]
QUICK = ["--device", "cpu", "--epochs", "2", "--dim", "32", "--set", "batch_size=64"]


def spherec(folder, *options, limit=None):
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [*COMMAND, str(folder / "data.npz"), "-o", str(folder / MODEL), *QUICK, *options],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1", "CHECKPOINT_SECONDS": "0"},
        preexec_fn=small_files if limit else None,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_model_is_saved_where_only_the_checkpoint_is_too_large(folder):
    done = spherec(folder, limit=20_000)
    assert done.returncode == 0, done.stderr
    assert "warning: no checkpoint: " in done.stderr
    assert "File too large" in done.stderr
    assert files(folder) == ["data.npz", MODEL]


@pytest.mark.slow
def test_a_small_disk(folder, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        os.getuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(disk)], check=False).returncode
    ):
        pytest.skip("needs the right to mount")
    try:
        shutil.copy(folder / "data.npz", disk)
        done = spherec(disk)
        assert done.returncode == 2
        assert "make room or choose another place" in done.stderr
        assert files(disk) == ["data.npz"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)
