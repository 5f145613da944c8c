"""What people see while a model learns."""

import time

import pytest

from spherec.recommender.progress import Estimate, training_bar
from spherec.training import EpochRecord, History
from spherec.training.config import Plan


def record(epoch, **facts):
    told = {"pairs": 50, "seconds": 1.0, "loss": 0.25, "active": 0.5, "masked": 0.0, "triplets_per_second": 1234.5}
    return EpochRecord(epoch, **told | facts)


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_is_a_bar_on_a_terminal_and_a_line_an_epoch_elsewhere(terminal, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
    history = History((record(1, metric=0.125),))
    with training_bar(3, 100, Estimate(Plan(3, 1, 3), 100, stops_early=False)) as progress:
        progress(record(1), History())
        progress(record(2, loss=0.2, masked=0.1), history)
        time.sleep(0.2 if terminal else 0)
        progress(record(2), history)
    said = capsys.readouterr().err
    assert ("epoch 2/3" if terminal else "epoch 1: loss 0.250, active 50%, 1k triplets/s") in said
    assert "best NDCG@50 0.1250 in epoch 1" in said
    if not terminal:
        assert len(said.splitlines()) == 1


def test_a_log_has_lines_where_there_is_something_to_say(capsys, monkeypatch):
    """After the first epoch, when one was validated, and when nothing was said for a while."""
    clock = iter(range(1000))
    monkeypatch.setattr("spherec.recommender.progress.time.monotonic", lambda: next(clock))
    monkeypatch.setenv("COLUMNS", "200")
    epochs = [record(n, metric=0.5 if n == 4 else None) for n in range(1, 21)]
    with training_bar(20, 100, Estimate(Plan(20, 1, 20), 100, stops_early=False)) as progress:
        for many in range(21):
            progress(record(many + 1), History(tuple(epochs[:many])))
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("about")] == ["about 20 seconds: 20 epochs of 1 step"]
    said = [int(line.split()[1].rstrip(":")) for line in lines if not line.startswith("about")]
    assert {1, 4} <= set(said)
    assert 3 <= len(said) <= 5


@pytest.mark.parametrize(
    ("epochs", "seconds", "early", "sentence"),
    [
        (100, 1.0, True, "about 3 minutes: 100 epochs of 8 steps, fewer if it stops early"),
        (100, 1.0, False, "about 3 minutes: 100 epochs of 8 steps"),
        (10_000, 1.0, False, "about 5.6 hours: 10,000 epochs of 8 steps"),
        (20, 1.0, False, "about 40 seconds: 20 epochs of 8 steps"),
        (3, 1.0, False, None),
        (100, 0.001, False, None),
    ],
)
def test_a_run_says_once_about_how_long_it_will_take(epochs, seconds, early, sentence):
    """Each call is 50 of 100 pairs later; the first second, with all compiling, does not count."""
    estimate = Estimate(Plan(epochs, 2, 8 * epochs), 100, stops_early=early)
    ended = tuple(record(n + 1, pairs=100, seconds=2 * seconds) for n in range(2))
    calls = [
        (record(1, pairs=50, seconds=60.0 * seconds), History()),
        (record(1, pairs=100, seconds=61.0 * seconds), History()),
        (ended[0], History(ended[:1])),
        (record(2, pairs=50, seconds=seconds), History(ended[:1])),
    ]
    said = [text for text in (estimate.make(*call) for call in calls) if text is not None]
    assert said == ([sentence] if sentence else [])


def test_a_resumed_run_counts_what_is_left():
    estimate = Estimate(Plan(100, 2, 800), 100, stops_early=False)
    history = History(tuple(record(n + 1, pairs=100, seconds=2.0) for n in range(40)))
    assert estimate.make(record(41, pairs=50, seconds=1.0), history) is None
    assert estimate.make(record(41, pairs=100, seconds=2.0), history) == "about 2 minutes: epochs 41 to 100 of 8 steps"
