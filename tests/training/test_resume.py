"""A run that was stopped, by whatever, goes on as if it had not been; and the file of its checkpoint."""

import signal
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
import torch

from spherec.errors import ArgumentError, CheckpointWarning, DataError
from spherec.losses import Hinge, Softmin
from spherec.optim import Adam
from spherec.sampling import Hard, Popularity, Uniform
from spherec.training import RunFiles
from spherec.training.checkpoint import remove_checkpoint
from spherec.training.crew import Crew
from tests.sampling.checks import interactions, random_rows
from tests.training.runs import (
    DATA,
    SAMPLERS,
    STEPS,
    Crash,
    at_step,
    crash,
    each_sampler,
    facts,
    falling,
    same,
    trained,
    watch,
)
from tests.training.test_features import features_of

EACH_STEP = {"checkpoint_seconds": 0}

REACHING = {"reach": True, "mainstream": 0.4, "subspace_dim": 4}
POOL = {"loss": Softmin(0.2), "sampler": Popularity(12, beta=0.5, shared=True), "balance": 0.5}
RUNS = {name: {"sampler": sampler} for name, sampler in SAMPLERS.items()} | {
    "reach, hinge": {"sampler": Hard(2), **REACHING},
    "reach, cosine": {"optimizer": Adam(1e-2, schedule="cosine"), **REACHING, **POOL},
    "reach, penalties": {"covariance": 1.0, "spread_out": 1.0, **REACHING, **POOL},
    "features": {"features": features_of(without=[2])},
    "features, reach": {"features": features_of(without=[2]), **REACHING, **POOL},
}


def same_run(one, other):
    return same(one.vectors, other.vectors) and facts(one.history) == facts(other.history) and one.ended == other.ended


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.checkpoint"


@cache
def whole_run(name):
    return trained(validate=falling, **RUNS[name])


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("step", [2, STEPS - 1, STEPS, STEPS + 1, 2 * STEPS + 3, 3 * STEPS])
def test_after_a_crash_it_goes_on_from_the_last_step(step, name, path, monkeypatch):
    whole, settings = whole_run(name), {"validate": falling, "checkpoint": path, **RUNS[name]}
    with monkeypatch.context() as patch:
        watch(patch, at_step(step, crash))
        with pytest.raises(Crash):
            trained(**settings, **EACH_STEP)
    resumed_steps = []
    watch(monkeypatch, lambda *_: resumed_steps.append(1))
    resumed = trained(**settings, resume=True)
    assert len(resumed_steps) == 3 * STEPS - (step - 1)
    assert same_run(resumed, whole)
    if "features" in settings:
        assert torch.equal(resumed.feature_map.weights, whole.feature_map.weights)
        assert torch.equal(resumed.feature_map.lengths, whole.feature_map.lengths)


@each_sampler
def test_it_may_be_stopped_by_ctrl_c_again_and_again(sampler, path, monkeypatch):
    whole = trained(sampler=sampler, validate=falling, constraint="ball", loss=Softmin())
    watch(monkeypatch, at_step(5, lambda: signal.raise_signal(signal.SIGINT)))
    parts = []
    while not parts or parts[-1].ended == "interrupted":
        assert len(parts) < 10
        monkeypatch.undo()
        watch(monkeypatch, at_step(5, lambda: signal.raise_signal(signal.SIGINT)))
        options = {"checkpoint": path, "resume": bool(parts), "constraint": "ball", "loss": Softmin()}
        parts.append(trained(sampler=sampler, validate=falling, **options))
    assert len(parts) == -(-3 * STEPS // 5)
    assert same_run(parts[-1], whole)


def test_early_stopping_remembers_looks_before_the_stop(path, monkeypatch):
    settings = {"validate": falling, "epochs": 50, "patience": 3}
    whole = trained(**settings)
    assert (whole.ended, len(whole.history.epochs)) == ("no better for a while", 4)
    watch(monkeypatch, at_step(3 * STEPS + 2, lambda: signal.raise_signal(signal.SIGINT)))
    trained(**settings, checkpoint=path)
    assert same_run(trained(**settings, checkpoint=path, resume=True), whole)


def test_a_finished_run_can_be_made_longer(path):
    trained(epochs=2, checkpoint=path)
    assert same_run(trained(checkpoint=path, resume=True, epochs=6), trained(epochs=6))


def test_the_pauses_between_checkpoints_are_kept(path, monkeypatch):
    now, written = [0.0], []
    monkeypatch.setattr("spherec.training.trainer.time.monotonic", lambda: now[0])
    monkeypatch.setattr("spherec.training.crew.Crew.write_checkpoint", lambda *_: written.append(now[0]))

    def tick(*_):
        now[0] += 1

    watch(monkeypatch, tick)
    trained(checkpoint=path, checkpoint_seconds=10)
    assert written == [10, 20, 24]


def test_resume_needs_the_path_of_a_checkpoint():
    with pytest.raises(ArgumentError, match="no checkpoint was named"):
        trained(resume=True)


@pytest.mark.parametrize("wrong", [{"output": 5}, {"checkpoint": b"c"}])
def test_what_names_no_files_is_refused(wrong):
    with pytest.raises(ArgumentError):
        RunFiles(**wrong)


@pytest.mark.parametrize("place", ["no/such/folder", "."])
def test_a_checkpoint_that_cannot_be_written_is_refused_before_the_first_step(place, tmp_path, monkeypatch):
    watch(monkeypatch, lambda *_: crash())
    with pytest.raises(DataError, match=r"cannot write|is a folder"):
        trained(checkpoint=tmp_path / place)


# --- The file --------------------------------------------------------------------------------------------------------


OTHERS = {
    "seed": ({"seed": 1}, "seed is 0, here it is 1"),
    "constraint": ({"constraint": "ball"}, "constraint is sphere, here it is ball"),
    "loss": ({"loss": Hinge(margin=0.5)}, "its loss.margin is 1.0, here it is 0.5"),
    "kind of loss": ({"loss": Softmin()}, "its loss.kind is Hinge, here it is Softmin"),
    "negatives": ({"sampler": Uniform(3)}, "its sampler.negatives is 2, here it is 3"),
    "learning rate": ({"optimizer": Adam(2e-2)}, "its optimizer.learning_rate is 0.01, here it is 0.02"),
    "reach": ({"reach": True}, "reach is False, here it is True"),
    "a pair less": ({"data": DATA.filter(np.arange(len(DATA)) > 0)}, "its data is 20 users, 30 items"),
    "other pairs": ({"data": interactions(random_rows(20, 30, 0.2)[::-1])}, f"{len(DATA)} pairs, checksum"),
    "a user more": ({"data": interactions(np.vstack((random_rows(20, 30, 0.2), np.zeros((1, 30)))))}, "here it is 21"),
}


@pytest.mark.parametrize(("other", "difference"), OTHERS.values(), ids=OTHERS)
def test_the_checkpoint_of_another_run_is_refused(other, difference, path):
    trained(epochs=1, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(DataError) as refused:
        trained(**other, checkpoint=path, resume=True)
    assert str(path) in str(refused.value)
    assert difference in str(refused.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"PK", b"text" * 99], ids=["empty", "two bytes", "text"])
def test_what_is_no_checkpoint_is_refused(content, path):
    path.write_bytes(content)
    with pytest.raises(DataError, match="start anew"):
        trained(checkpoint=path, resume=True)


@pytest.mark.parametrize("failing", ["os.fsync", "pathlib.Path.replace"])
def test_a_failed_write_leaves_the_old_checkpoint(failing, path, monkeypatch):
    trained(epochs=1, checkpoint=path)
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(failing, full)
        with pytest.warns(CheckpointWarning, match="no checkpoint: .* No space left on device"):
            result = trained(checkpoint=path, resume=True, checkpoint_seconds=0)
    assert same(result.vectors, trained().vectors)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    assert same(trained(checkpoint=path, resume=True).vectors, trained().vectors)


def test_a_disk_that_was_full_for_a_while_costs_a_checkpoint_only(path, monkeypatch):
    whole, calls = Crew.write_checkpoint, iter(range(99))

    def write(*given):
        if next(calls) in (2, 3, 6):
            raise DataError("no room")
        whole(*given)

    monkeypatch.setattr(Crew, "write_checkpoint", write)
    with pytest.warns(CheckpointWarning):
        trained(checkpoint=path, checkpoint_seconds=0)
    monkeypatch.undo()
    assert same(trained(checkpoint=path, resume=True).vectors, trained().vectors)


def test_a_checkpoint_is_private_and_keeps_its_permissions(path):
    trained(epochs=1, checkpoint=path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    trained(epochs=1, checkpoint=path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_one_run_at_a_time_writes_a_checkpoint(path):
    began, ended = threading.Event(), threading.Event()

    def wait(vectors):
        began.set()
        ended.wait(30)
        return falling(vectors)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(trained, validate=wait, checkpoint=path)
        began.wait(30)
        with pytest.raises(DataError, match=r"another run is writing .*run\.checkpoint"):
            trained(checkpoint=path)
        ended.set()
        assert first.result().ended == "all epochs done"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("epochs", [1, 2])
def test_fewer_epochs_than_are_done_are_refused(epochs, path, monkeypatch):
    watch(monkeypatch, at_step(2 * STEPS + 2, lambda: signal.raise_signal(signal.SIGINT)))
    trained(checkpoint=path)
    with pytest.raises(ArgumentError, match=rf"epochs is {epochs}, .* has begun epoch 3; give at least 3"):
        trained(checkpoint=path, resume=True, epochs=epochs)
    assert same(trained(checkpoint=path, resume=True).vectors, trained().vectors)


def test_all_parts_are_removed_also_those_that_were_being_written(tmp_path):
    gone = ["m.ck", "m.ck.0-of-2.592c3c57", "m.ck.1-of-2.12345678", ".m.ck.1-of-2.12345678.0a1b2c3d.part"]
    kept = ["m.ck.npz", "m.ck.0-of-2.npz", "m.ck.b", "other.ck.0-of-2.592c3c57"]
    for name in gone + kept:
        (tmp_path / name).touch()
    remove_checkpoint(tmp_path / "m.ck")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
