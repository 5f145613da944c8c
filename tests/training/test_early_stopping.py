"""Validation while training: when it is asked, when it ends the run, and which model comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.training import EpochRecord, History
from tests.training.runs import SAMPLERS, copied, facts, falling, same, trained


class Script:
    """A validation that gives set numbers, the last one for ever, and keeps what it was shown."""

    def __init__(self, *metrics):
        self.metrics = metrics
        self.seen = []

    def __call__(self, vectors):
        self.seen.append(copied(vectors))
        return self.metrics[min(len(self.seen), len(self.metrics)) - 1]


CASES = [
    # metrics, settings -> epochs, best epoch, why it ended
    ((1, 2, 3), {"epochs": 3}, 3, 3, "all epochs done"),
    ((3, 2, 1), {"epochs": 3}, 3, 1, "all epochs done"),
    ((1, 3, 2, 2), {"epochs": 9, "patience": 2}, 4, 2, "no better for a while"),
    ((1, 1), {"epochs": 9, "patience": 1}, 2, 1, "no better for a while"),
    ((1, 0, 0, 2, 0, 0, 0), {"epochs": 9, "patience": 3}, 7, 4, "no better for a while"),
    ((-3, -1, -2, -2), {"epochs": 9, "patience": 2}, 4, 2, "no better for a while"),
    ((0, 0, 0), {"epochs": 3}, 3, 1, "all epochs done"),
    ((1, 3, 2), {"epochs": 5, "validate_every": 2}, 5, 4, "all epochs done"),
    ((2, 1, 1), {"epochs": 99, "validate_every": 3, "patience": 2}, 9, 3, "no better for a while"),
    ((1,), {"epochs": 3, "validate_every": 4}, 3, 3, "all epochs done"),
]


@pytest.mark.parametrize(("metrics", "settings", "epochs", "best", "ended"), CASES)
def test_training_ends_when_it_should_with_the_best_model(metrics, settings, epochs, best, ended):
    script = Script(*metrics)
    result = trained(validate=script, **settings)
    every = settings.get("validate_every", 1)
    looks = [epoch for epoch in range(1, epochs + 1) if epoch % every == 0 or epoch == settings["epochs"]]
    assert (len(result.history.epochs), result.ended) == (epochs, ended)
    told = {record.epoch: record.metric for record in result.history.epochs if record.metric is not None}
    assert told == dict(zip(looks, metrics[: len(looks)], strict=True)), "the last epoch is looked at, too"
    assert len(script.seen) == len(looks)
    assert result.history.best.epoch == best
    assert same(result.vectors, script.seen[looks.index(best)])


@pytest.mark.parametrize("name", SAMPLERS)
def test_looking_changes_nothing_that_is_learned(name):
    looks = {every: Script(*range(99)) for every in (1, 2, 4)}
    for every, script in looks.items():
        trained(validate=script, validate_every=every, epochs=4, sampler=SAMPLERS[name])
    unseen = trained(epochs=4, sampler=SAMPLERS[name]).vectors
    assert [len(script.seen) for script in looks.values()] == [4, 2, 1]
    assert all(same(script.seen[-1], unseen) for script in looks.values())
    assert same(looks[1].seen[1], looks[2].seen[0])


def test_without_validation_the_last_model_comes_back_after_all_epochs():
    result = trained(epochs=4, patience=1)
    assert len(result.history.epochs) == 4
    assert result.history.best is None
    assert facts(result.history)[:2] == facts(trained(epochs=2).history)


def history_of(metrics):
    history = History()
    for epoch, metric in enumerate(metrics, 1):
        history = History((*history.epochs, EpochRecord(epoch, 1, 1.0, 1.0, 1.0, 0.0, 1.0, metric)))
    return history


@given(st.lists(st.none() | st.integers(-2, 2)), st.integers(1, 4))
def test_history_knows_the_best_and_when_to_stop(metrics, patience):
    best, since = None, 0
    for epoch, metric in enumerate(metrics, 1):
        if metric is not None:
            since += 1
            if best is None or metric > metrics[best - 1]:
                best, since = epoch, 0
    history = history_of(metrics)
    assert (history.best and history.best.epoch) == best
    assert history.should_stop(patience) == (best is not None and since >= patience)


def test_a_run_can_be_given_up_after_a_look():
    """Asked after each look, and after nothing else; the best so far is what is left."""
    asked = []

    def stop(history):
        asked.append([record.epoch for record in history.epochs])
        return len(asked) == 2

    done = trained(epochs=9, validate_every=2, validate=falling, stop=stop)
    assert done.ended == "given up"
    assert asked == [[1, 2], [1, 2, 3, 4]]
    assert len(done.history.epochs) == 4
    assert same(done.vectors, trained(epochs=2).vectors)


def test_a_run_without_looks_is_never_given_up():
    assert trained(stop=lambda history: True).ended == "all epochs done"
    assert trained(validate=falling, stop=lambda history: False).ended == "all epochs done"
