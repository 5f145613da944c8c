"""Ctrl-C, SIGTERM and SIGHUP: the step in progress ends, the best model comes back, the handlers are restored."""

import signal
import threading

import pytest

from spherec.training.trainer import interruptible
from tests.training.runs import STEPS, Crash, at_step, crash, falling, same, trained, watch


def press():
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def handler():
    """A handler of somebody else's, to be found again afterwards."""
    before = signal.getsignal(signal.SIGINT)

    def mine(*_):
        raise AssertionError("not while training")

    signal.signal(signal.SIGINT, mine)
    yield mine
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("step", [1, 3, STEPS, STEPS + 1])
def test_the_run_ends_after_the_step_in_progress(step, handler, monkeypatch):
    seen = []
    stop = at_step(step, press)
    watch(monkeypatch, lambda *batch: (seen.append(batch), stop()))
    result = trained()
    assert result.ended == "interrupted"
    assert len(seen) == step
    assert len(result.history.epochs) == step // STEPS
    assert result.vectors.item_table.isfinite().all()
    assert signal.getsignal(signal.SIGINT) is handler


def test_during_validation_the_epoch_is_still_written_down(handler):
    result = trained(validate=lambda at: (press(), falling(at))[1])
    assert result.ended == "interrupted"
    assert [record.metric is not None for record in result.history.epochs] == [True]
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize(("act", "error"), [(lambda: (press(), press()), KeyboardInterrupt), (crash, Crash)])
def test_pressed_twice_it_stops_at_once_and_after_any_error_the_handler_is_back(act, error, handler, monkeypatch):
    watch(monkeypatch, at_step(3, act))
    with pytest.raises(error):
        trained()
    assert signal.getsignal(signal.SIGINT) is handler


def test_in_another_thread_the_handler_is_left_alone(handler, monkeypatch):
    handlers, results = [], []
    watch(monkeypatch, lambda *_: handlers.append(signal.getsignal(signal.SIGINT)))
    thread = threading.Thread(target=lambda: results.append(trained()))
    thread.start()
    thread.join()
    assert set(handlers) == {handler}
    assert results[0].ended == "all epochs done"
    assert same(results[0].vectors, trained().vectors)


ENDS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])


@ENDS
def test_a_signal_that_comes_twice_at_once_is_one_and_a_later_one_ends_the_process(number, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("spherec.training.trainer.time.monotonic", lambda: now[0])

    def send():
        signal.raise_signal(number)

    with monkeypatch.context() as patch:
        watch(patch, at_step(3, lambda: (send(), send())))
        assert trained().ended == "interrupted"
    watch(monkeypatch, at_step(3, lambda: (send(), now.insert(0, 5.0), send())))
    with pytest.raises(SystemExit) as ended:
        trained()
    assert ended.value.code == 128 + number
    assert signal.getsignal(number) is signal.SIG_DFL


@ENDS
def test_a_signal_that_is_ignored_stays_ignored(number, monkeypatch):
    """As under nohup."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        watch(monkeypatch, at_step(3, lambda: signal.raise_signal(number)))
        assert trained().ended == "all epochs done"
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_a_handler_of_the_callers_own_is_called_after_the_run(tmp_path, monkeypatch):
    called, checkpoint = [], tmp_path / "run.checkpoint"
    before = signal.signal(signal.SIGTERM, lambda number, _: called.append((number, checkpoint.exists())))
    try:
        watch(monkeypatch, at_step(3, lambda: signal.raise_signal(signal.SIGTERM)))
        assert trained(checkpoint=checkpoint).ended == "interrupted"
        assert called == [(signal.SIGTERM, True)]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_one_around_the_run_hears_of_it(monkeypatch):
    """Also where the run had nothing left to interrupt."""
    for step in (1, 3 * STEPS):
        watch(monkeypatch, at_step(step, press))
        with interruptible() as around:
            assert not around.is_wanted()
            trained()
            assert around.is_wanted()
