"""A run that was stopped, by whatever, goes on as if it had not been."""

import signal
from functools import cache

import pytest
import torch

from spherec.errors import ArgumentError, DataError
from spherec.losses import Softmin
from spherec.optim import Adam
from spherec.sampling import Hard, Popularity
from spherec.training import RunFiles
from tests.training.runs import (
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


@pytest.mark.parametrize("look", [1, 2, 3])
def test_after_a_crash_of_the_validation_the_epoch_is_not_learned_again(look, path):
    looks = iter(range(1, 9))
    with pytest.raises(Crash):
        trained(validate=lambda at: crash() if next(looks) == look else falling(at), checkpoint=path, **EACH_STEP)
    assert same_run(trained(validate=falling, checkpoint=path, resume=True), trained(validate=falling))


def test_early_stopping_remembers_looks_before_the_stop(path, monkeypatch):
    settings = {"validate": falling, "epochs": 50, "patience": 3}
    whole = trained(**settings)
    assert (whole.ended, len(whole.history.epochs)) == ("no better for a while", 4)
    watch(monkeypatch, at_step(3 * STEPS + 2, lambda: signal.raise_signal(signal.SIGINT)))
    trained(**settings, checkpoint=path)
    assert same_run(trained(**settings, checkpoint=path, resume=True), whole)


def test_one_is_written_at_the_end_however_long_the_pause(path):
    result = trained(checkpoint=path, checkpoint_seconds=1e9)
    resumed = trained(checkpoint=path, resume=True)
    assert same_run(resumed, result)
    assert resumed.history == result.history


def test_a_finished_run_can_be_made_longer(path):
    trained(epochs=2, checkpoint=path)
    assert same_run(trained(checkpoint=path, resume=True, epochs=6), trained(epochs=6))


def test_a_run_that_lost_patience_can_be_given_more(path):
    assert len(trained(validate=falling, epochs=9, patience=2, checkpoint=path).history.epochs) == 3
    resumed = trained(validate=falling, epochs=9, patience=4, checkpoint=path, resume=True)
    assert same_run(resumed, trained(validate=falling, epochs=9, patience=4))


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
