"""Learning through the model object: from anything, with a bar or without, the same as the trainer; what people see."""

import inspect
import time
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest

import spherec
from spherec.errors import ArgumentError, DataError, TrainingError
from spherec.evaluation import Validation
from spherec.recommender import CML
from spherec.recommender.progress import show_progress
from spherec.training import EpochRecord, History, Training
from spherec.training.config import PRESETS
from tests.recommender.models import model_of, small
from tests.training.runs import same, train

DATA = small(density=0.4)
QUICK = {"dim": 6, "sampler": spherec.Uniform(2), "batch_size": 32, "epochs": 3, "validate_every": 1, "device": "cpu"}


def fitted(data=DATA, **options):
    return CML(**QUICK).fit(data, **options)


def test_too_little_memory_is_one_sentence():
    with pytest.raises(TrainingError, match="memory"):
        CML(**QUICK | {"dim": 10**16}).fit(DATA)


def test_users_with_one_item_each_leave_nothing_to_validate_on_but_can_be_trained_on():
    single = spherec.Interactions.from_pairs(list("abc"), list("xyz"))
    with pytest.raises(DataError, match=r"validation 0.05 .*--validation 0"):
        fitted(single)
    assert len(fitted(single, validation=0).history.epochs) == 3


# --- What it learns from ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "options", "told"),
    [
        (DATA, {"validation": 2}, "validation .* got 2"),
        (DATA, {"validation": "x"}, "validation .* got 'x'"),
        (DATA, {"validation": np.array([0.1, 0.2])}, "validation .* of shape"),
        (DATA, {"files": "books.spherec"}, "RunFiles, got 'books.spherec'"),
        (DATA, {"user": "who"}, "user"),
        (pd.DataFrame({"u": [1], "i": [2]}), {"orientation": "users x items"}, "orientation"),
        (DATA.matrix, {"user": "who", "item": "what"}, "user, item"),
        ("events.csv", {}, "str"),
    ],
)
def test_what_does_not_fit_is_refused(data, options, told):
    with pytest.raises((ArgumentError, DataError), match=told):
        fitted(data, **options)


@pytest.mark.parametrize("method", ["fit", "partial_fit", "fold_in", "recommend", "recommend_for", "load"])
def test_a_wrong_keyword_names_the_method_that_was_called(method):
    with pytest.raises(TypeError, match=rf"^{method}\(\) got an unexpected keyword argument 'outputs'$"):
        getattr(model_of(DATA), method)(DATA, outputs=3)


# --- How it learns ---------------------------------------------------------------------------------------------------


def test_it_is_the_trainer_with_early_stopping():
    settings = {name: one for name, one in QUICK.items() if name != "device"}
    fold = spherec.splits.ratio(DATA, 0.2)
    told = train(fold.train, Training(**settings), validate=Validation(fold.train, fold.test), device="cpu")
    model = fitted(validation=np.float32(0.2))
    assert same(model.vectors, told.vectors)
    assert model.history.best is not None
    assert model.history.best.metric == told.history.best.metric
    assert model.data == DATA, "held-out items are seen items all the same"


def test_if_nothing_is_said_a_schedule_learns_from_everything():
    assert fitted().history.best is not None
    for model in (fitted(validation=0), CML(**QUICK, optimizer={"schedule": "cosine"}).fit(DATA)):
        assert model.history.best is None
        assert model.history.epochs[0].pairs == len(DATA)


def test_every_field_of_training_is_a_parameter_with_its_default_and_documented():
    parameters = inspect.signature(CML).parameters
    assert list(parameters) == ["device", *(field.name for field in fields(Training))]
    for name, parameter in parameters.items():
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert f"\n    {name}: " in inspect.getdoc(CML), "help(spherec.CML) explains every setting"
        assert parameter.default == getattr(PRESETS["fast"].training, name, "auto")
    with pytest.raises(TypeError, match=r"^CML\(\) .* 'gamma'"):
        CML(gamma=0.3)
    with pytest.raises(ArgumentError, match="gamma"):
        CML.preset("accurate", gamma=0.3)


# --- What it shows ---------------------------------------------------------------------------------------------------


def test_it_tells_on_request(capsys):
    fitted()
    assert capsys.readouterr() == ("", ""), "there is no terminal"
    fitted(progress=True)
    assert "epoch 3: loss" in capsys.readouterr().err
    heard = []
    fitted(progress=lambda epoch, history: heard.append(epoch.epoch))
    assert heard[-1] == 3


def test_advice_comes_with_the_bar_once_in_a_process(capsys, monkeypatch):
    monkeypatch.setattr("spherec.recommender.progress._advised", set())
    options = QUICK | {"sampler": spherec.TwoStage(2), "epochs": 1}
    CML(**options).fit(DATA, progress=False)
    assert "candidates" not in capsys.readouterr().err
    for _ in range(3):
        CML(**options).fit(DATA, progress=True)
    assert capsys.readouterr().err.count("all 30 items are candidates in every batch") == 1


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
        progress(history.epochs[0], history)
        progress(record(2, loss=0.2, masked=0.1), history)
        time.sleep(0.2 if terminal else 0)
        progress(record(2), history)
    said = capsys.readouterr().err
    assert ("epoch 2/3" if terminal else "epoch 1: loss 0.250, active 50%, 1k triplets/s") in said
    assert "best NDCG@50 0.1250 in epoch 1" in said
    if not terminal:
        assert len(said.splitlines()) == 1
