"""What people see while a model learns."""

import time

import pytest

from spherec.recommender.progress import show_progress
from spherec.training import EpochRecord, History, Training
from tests.recommender.models import small


def record(epoch, **facts):
    told = {"pairs": 50, "seconds": 1.0, "loss": 0.25, "active": 0.5, "masked": 0.0, "triplets_per_second": 1234.5}
    return EpochRecord(epoch, **told | facts)


def shown(epochs):
    return show_progress(True, Training(epochs=epochs), small(), None)


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_is_a_bar_on_a_terminal_and_a_line_an_epoch_elsewhere(terminal, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
    history = History((record(1, metric=0.125),))
    with shown(3) as progress:
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
    with shown(20) as progress:
        for many in range(21):
            progress(record(many + 1), History(tuple(epochs[:many])))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("0.3 minutes left")
    said = [int(line.split()[1].rstrip(":")) for line in lines]
    assert {1, 4} <= set(said)
    assert 3 <= len(said) <= 5
