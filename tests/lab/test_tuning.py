"""Studies: what wins, what goes on, what is refused."""

import signal
import time
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import optuna
import pytest
import sqlalchemy.exc

from spherec.data import splits
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError
from spherec.evaluation import evaluate
from spherec.lab import Goal
from spherec.lab import tuning as tuning_module
from spherec.lab.tuning import TuneWatcher
from spherec.ranking import ExactRanker
from spherec.sampling import TwoStage
from tests.lab.tunings import DATA, QUICK, facts, plant, space, tuned
from tests.training.runs import train


def test_the_best_is_what_training_with_its_config_gives():
    goal = Goal(metric="map", k=7, validation=0.2)
    done = tuned(goal=goal, trials=4)
    assert done.ended == "all trials done"
    assert [one.number for one in done.trials] == [0, 1, 2, 3]
    assert done.best.scores["map"] == max(one.scores["map"] for one in done.trials)
    assert done.config == space().config(done.best.settings)
    inner = splits.ratio(DATA, 0.2, seed=QUICK.seed)

    def validate(vectors):
        return evaluate(ExactRanker(vectors), inner.train, inner.test, k=7).map

    again = train(inner.train, done.config, validate=validate, device="cpu")
    assert again.history.best.metric == pytest.approx(done.best.scores["map"], abs=1e-12)
    assert again.history.best.epoch == done.best.epochs
    assert evaluate(again.vectors, inner.train, inner.test, k=7).mmr == pytest.approx(done.best.scores["mmr"])


def test_the_same_seed_gives_the_same_trials_and_the_first_is_the_base():
    one, other = tuned(trials=4), tuned(trials=4)
    assert one.trials[0].settings == {"dim": QUICK.dim, "optimizer.learning_rate": QUICK.optimizer.learning_rate}
    assert facts(one.trials) == facts(other.trials)
    elsewhere = tuned(trials=4, base=replace(QUICK, seed=1))
    assert [trial.settings for trial in elsewhere.trials[1:]] != [trial.settings for trial in one.trials[1:]]


def test_a_study_goes_on_as_if_it_had_not_stopped(tmp_path):
    for trials in (2, 3, 5):
        stopped = tuned(trials=trials, storage=tmp_path / "study.db")
        assert len(stopped.trials) == trials, "earlier calls are counted"
    assert facts(stopped.trials) == facts(tuned(trials=5).trials)
    again = tuned(trials=4, storage=tmp_path / "study.db")
    assert facts(again.trials) == facts(stopped.trials), "nothing left to do"


OTHERS = {
    "data": ({"data": Interactions.from_matrix(DATA.matrix[:39])}, "data was 40 users.*now it is 39 users"),
    "search": ({"searches": ["dim=2,4"]}, "the search was dim=2,4,8, optimizer.*now it is dim=2,4"),
    "seed": ({"base": replace(QUICK, seed=3)}, "seed was 0, now it is 3"),
    "goal": ({"goal": Goal(metric="map")}, "metric was NDCG@50, now it is MAP@50"),
}


def test_a_study_of_something_else_does_not_go_on(monkeypatch, tmp_path):
    plant(monkeypatch, lambda config: [(0.1, 1.0)])
    tuned(trials=1, storage=tmp_path / "study.db")
    for change, words in OTHERS.values():
        searches = change.pop("searches", ())
        with pytest.raises(DataError, match=f"'spherec'.*study.db.*{words}"):
            tuned(*searches, storage=tmp_path / "study.db", **change)


@contextmanager
def database(url):
    """Open a study's database as another program would, and close it."""
    storage = optuna.storages.RDBStorage(url)
    yield storage
    storage.remove_session()
    storage.engine.dispose()


@pytest.mark.parametrize(
    ("storage", "word"),
    [
        ("{tmp}/no/such/study.db", "does not exist"),
        ("{tmp}/text.db", "text.db"),
        ("redis://me:secret@host/1", "postgresql://"),
        ("mysql+pymysql://me@host/db?passwd=secret", "pymysql"),
    ],
)
def test_a_place_that_cannot_be_is_one_sentence_without_the_password(tmp_path, storage, word):
    (tmp_path / "text.db").write_text("not a database, " * 100)
    with pytest.raises((DataError, ArgumentError)) as refused:
        tuned(storage=storage.format(tmp=tmp_path))
    message = str(refused.value)
    assert word in message
    assert "secret" not in message
    assert "\n" not in message


def test_what_a_driver_says_of_a_url_is_not_shown(monkeypatch, tmp_path):
    def fails(*_, **__):
        raise ValueError("bad dsn: password=hunter2")

    monkeypatch.setattr(optuna.storages, "RDBStorage", fails)
    with pytest.raises(DataError, match="ValueError") as refused:
        tuned(storage=f"sqlite:///{tmp_path}/kept.db?key=hunter2")
    assert "hunter2" not in str(refused.value)


def test_a_database_that_fails_is_one_sentence(monkeypatch, tmp_path):
    def full(*_, **__):
        raise sqlalchemy.exc.OperationalError("INSERT", {}, Exception("database or disk is full"))

    plant(monkeypatch, lambda config: [(0.1, 1.0)])
    tuned(trials=1, storage=tmp_path / "study.db")
    with monkeypatch.context() as failing:
        failing.setattr(optuna.storages.RDBStorage, "set_trial_state_values", full)
        with pytest.raises(DataError, match=r"study\.db: .*disk is full; what"):
            tuned(trials=2, storage=tmp_path / "study.db")
    assert len(tuned(trials=2, storage=tmp_path / "study.db").trials) == 2


def rising(config):
    """Ten looks, the higher the more dimensions; without rounding."""
    return [(config.dim / 64 * epoch / 16, 5.0) for epoch in range(1, 11)]


def test_a_poor_trial_is_ended_early(monkeypatch):
    """The looks of a trial below the median end; those of the best never do."""
    lived = plant(monkeypatch, rising)
    done = tuned("dim=2..60", trials=20, base=replace(QUICK, epochs=10))
    assert {one.state for one in done.trials} == {"complete", "pruned"}
    finals = []
    for one, looks in zip(done.trials, lived, strict=True):
        median = np.median(finals) if finals else 0
        is_poor = len(finals) >= 5 and one.settings["dim"] < median
        assert one.state == ("pruned" if is_poor else "complete")
        assert looks == (2 if is_poor else 10), "a fifth of the epochs is left to everybody"
        if not is_poor:
            finals.append(one.settings["dim"])
    assert done.best.settings["dim"] == max(one.settings["dim"] for one in done.trials)


@pytest.mark.parametrize(
    ("searches", "base", "fails", "why"),
    [
        (["spread_out=0,1e300"], QUICK, lambda one: one["spread_out"] > 0, "the loss is"),
        ([f"dim=4,{10**16}"], QUICK, lambda one: one["dim"] > 4, "not enough memory"),
        (
            ["sampler.negatives=1,5", "sampler.candidates=2,10"],
            replace(QUICK, sampler=TwoStage(2, candidates=5)),
            lambda one: one["sampler.negatives"] > one["sampler.candidates"],
            "negatives must be at most candidates",
        ),
    ],
    ids=["it diverges", "memory is short", "settings do not go together"],
)
def test_a_trial_that_fails_is_not_the_end(searches, base, fails, why):
    done = tuned(*searches, trials=8, base=base)
    assert {one.state for one in done.trials} >= {"complete", "failed"}
    assert len(done.trials) == 8
    for one in done.trials:
        assert (one.state == "failed") == (why in one.failed) == fails(one.settings)
    assert not fails(done.best.settings)


class CtrlC(TuneWatcher):
    """Presses it once, in the middle of a trial or between two."""

    def __init__(self, number, where):
        self.number, self.where, self.pressed = number, where, False

    def _press(self, number, where):
        if not self.pressed and (number, where) == (self.number, self.where):
            self.pressed = True
            signal.raise_signal(signal.SIGINT)

    def on_epoch(self, number, epoch, history):
        self._press(number, "going")

    def on_trial(self, trials, last):
        self._press(last.number, "ended")


@pytest.mark.parametrize("where", ["going", "ended"])
def test_ctrl_c_keeps_what_is_done_and_the_trial_waits(tmp_path, where):
    place = {"storage": tmp_path / "study.db", "trials": 4}
    stopped = tuned(**place, watcher=CtrlC(1, where))
    assert stopped.ended == "interrupted"
    assert len(stopped.trials) == (1 if where == "going" else 2)
    assert stopped.best is not None
    done = tuned(**place)
    assert done.ended == "all trials done"
    assert len(done.trials) == 4
    whole = tuned(trials=4)
    assert done.trials[1].settings == whole.trials[1].settings, "the trial that was stopped comes next"
    if where == "ended":
        assert facts(done.trials) == facts(whole.trials)


@pytest.mark.parametrize("is_written", [False, True])
def test_ctrl_c_while_the_end_of_a_trial_is_written(monkeypatch, tmp_path, is_written):
    plant(monkeypatch, lambda config: [(0.1, 1.0)])
    write, calls = optuna.storages.RDBStorage.set_trial_state_values, []

    def pressed(self, trial_id, state, values=None):
        calls.append(state)
        if calls.count(optuna.trial.TrialState.COMPLETE) == 2 and state == optuna.trial.TrialState.COMPLETE:
            if is_written:
                write(self, trial_id, state, values)
            raise KeyboardInterrupt
        return write(self, trial_id, state, values)

    monkeypatch.setattr(optuna.storages.RDBStorage, "set_trial_state_values", pressed)
    place = {"storage": tmp_path / "study.db", "trials": 3}
    stopped = tuned(**place)
    assert (stopped.ended, len(stopped.trials)) == ("interrupted", 2 if is_written else 1)
    done = tuned(**place)
    assert len(done.trials) == 3
    assert done.trials[1].settings == tuned(trials=3).trials[1].settings
    assert len({str(one.settings) for one in done.trials}) == 3


def test_a_trial_whose_process_was_killed_is_run_again(monkeypatch, tmp_path):
    monkeypatch.setattr(tuning_module, "_HEARTBEAT", 1)
    monkeypatch.setattr(tuning_module, "_GRACE", 1)
    plant(monkeypatch, lambda config: [(0.1, 1.0)])
    place = {"storage": tmp_path / "study.db"}
    tuned(trials=1, **place)
    with database(f"sqlite:///{tmp_path}/study.db") as storage:
        killed = optuna.load_study(study_name="spherec", storage=storage).ask()  # and nobody tells how it ended
        killed.suggest_categorical("dim", (2, 4, 8))
        rate = killed.suggest_float("optimizer.learning_rate", 0.001, 0.1, log=True)
        storage.record_heartbeat(killed._trial_id)
    time.sleep(2.5)
    done = tuned(trials=2, **place)
    assert [one.number for one in done.trials] == [0, 2]
    assert done.trials[1].settings["optimizer.learning_rate"] == rate


def test_no_trial_begins_after_the_time():
    done = tuned(trials=1000, minutes=0.005)
    assert done.ended == "out of time"
    assert 1 <= len(done.trials) < 1000


@pytest.mark.parametrize(
    ("facts", "word"), [({"metric": "auc"}, "auc"), ({"metric": "mmr"}, "mmr"), ({"k": 0}, "k must be")]
)
def test_a_goal_is_checked(facts, word):
    with pytest.raises(ArgumentError, match=word):
        tuned(goal=Goal(**facts))
