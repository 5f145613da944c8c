"""Runs of an experiment: each once, each as its row says, and recorded when done."""

import json
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from spherec.data import splits
from spherec.errors import DataError
from spherec.evaluation import evaluate
from spherec.evaluation.metrics import ndcg
from spherec.lab import RecordFile, Result, Row, Trial, best_trial
from spherec.lab import reproduction as reproduction_module
from spherec.lab import trial as trial_module
from spherec.lab.reproduction import digest_of
from spherec.optim import Adam
from spherec.training import train
from tests.lab.tiny import (
    CPU,
    DATA,
    EXPERIMENT,
    ONE_ROW,
    ROWS,
    TRAINING,
    fold,
    pairs_of,
    ran,
    without_clock,
)
from tests.sampling.checks import interactions, random_rows
from tests.training.runs import at_step, watch

RUNS = [(row.name, index) for index in range(EXPERIMENT.folds) for row in ROWS]
TIMES_TRAINED = 2  # a run: to choose the epochs, and for good


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The records of the whole experiment, and their file."""
    records = RecordFile(tmp_path_factory.mktemp("done") / "records.jsonl", Result)
    return ran(records), records


def named(records):
    return [(record.model, record.fold) for record in records]


def results(records):
    return [(record.model, record.fold, record.settings["epochs"], record.scores, record.digest) for record in records]


# --- What a run does -------------------------------------------------------------------------------------------------


def test_there_is_one_record_for_each_row_and_fold(done):
    assert named(done[0]) == RUNS
    assert {record.study for record in done[0]} == {"tiny"}


def test_records_survive_in_the_file(done):
    assert list(RecordFile(done[1].path, Result)) == done[0]
    assert len(done[1].path.read_text().splitlines()) == len(RUNS)


def test_the_final_model_learns_from_the_whole_training_folds_for_the_chosen_epochs(done):
    for record in done[0]:
        training = {row.name: row.training for row in ROWS}[record.model]
        part = fold(record.fold)
        direct = train(part.train, replace(training, epochs=record.settings["epochs"]), device=CPU).vectors
        assert digest_of(direct) == record.digest
        assert evaluate(direct, part.train, part.test, k=EXPERIMENT.k).summary() == record.scores


def test_the_chosen_epoch_is_the_best_of_the_curve(done):
    for record in done[0]:
        metrics = [epoch["metric"] for epoch in record.curve]
        assert record.settings["epochs"] == 1 + int(np.argmax(metrics))
    assert {record.settings["epochs"] for record in done[0]} > {TRAINING.epochs}, (
        "the last epoch is not always the best"
    )


@pytest.mark.parametrize(("metrics", "best"), [((0.1, 0.4, 0.2, 0.3), 2), ((0.4, 0.4, 0.1, 0.4), 1), ((0, 0, 0, 0), 1)])
def test_the_validation_alone_decides_how_long_to_train(records, trainings, monkeypatch, metrics, best):
    told = iter(metrics)
    monkeypatch.setattr(trial_module, "Validation", lambda *_, **__: lambda vectors: next(told))
    (record,) = ran(records, ONE_ROW, folds=[0])
    assert record.settings["epochs"] == best
    assert [epoch["metric"] for epoch in record.curve] == list(metrics)
    assert [config.epochs for _, config in trainings] == [TRAINING.epochs, best]


def test_training_that_is_never_validated_takes_all_epochs(records):
    unseen = replace(TRAINING, validate_every=9)
    (record,) = ran(records, replace(ONE_ROW, rows=(Row("uniform-1-32", unseen),)), folds=[0])
    assert record.settings["epochs"] == TRAINING.epochs


def test_a_schedule_is_run_to_its_end_and_looked_at_there(records, trainings, monkeypatch):
    told = iter([0.4])
    monkeypatch.setattr(trial_module, "Validation", lambda *_, **__: lambda vectors: next(told))
    falling = replace(TRAINING, optimizer=Adam(1e-2, schedule="cosine"), validate_every=None)
    (record,) = ran(records, replace(ONE_ROW, rows=(Row("uniform-1-32", falling),)), folds=[0])
    assert record.settings["epochs"] == TRAINING.epochs
    assert [config.epochs for _, config in trainings] == [TRAINING.epochs, TRAINING.epochs]


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
def test_the_validation_knows_the_list_length_and_the_space(records, monkeypatch, constraint):
    told = []

    def validation(train, held_out, **options):
        told.append((len(held_out) / len(train), options))
        return lambda vectors: 0.5

    monkeypatch.setattr(trial_module, "Validation", validation)
    row = Row("a-1-1", replace(TRAINING, constraint=constraint, epochs=1))
    ran(records, replace(ONE_ROW, rows=(row,)), folds=[0])
    ((ratio, options),) = told
    assert options == {"k": EXPERIMENT.k, "metric": ndcg}
    assert ratio == pytest.approx(0.2 / 0.8, rel=0.2)


def test_a_record_says_how_and_where_it_was_made(done):
    for record in done[0]:
        assert [choice["dim"] for choice in record.identity["choices"]] == [4]
        assert [one.refit for one in record.trials] == [record.settings]
        assert record.environment["device"].startswith("CPU")
        assert set(record.seconds) == {"choosing", "training", "testing"}
        assert min(record.seconds.values()) >= 0
        assert record.scores.keys() >= {"map", "ndcg", "mmr"}


def test_settings_are_chosen_on_the_validation_part(records):
    grid = tuple(replace(TRAINING, optimizer=Adam(rate)) for rate in (1e-5, 0.05, 0.2))
    (record,) = ran(records, replace(ONE_ROW, rows=(Row("uniform-1-32", TRAINING, grid),)), folds=[0])
    best = max(record.trials, key=lambda one: one.scores["ndcg"])
    assert record.settings == best.refit
    assert [one.settings.get("optimizer.learning_rate") for one in record.trials] == [None, 0.05, 0.2]
    part = fold(0)
    inner = splits.ratio(part.train, EXPERIMENT.validation, seed=EXPERIMENT.seed)
    for one, training in zip(record.trials, grid, strict=True):
        again = train(inner.train, replace(training, epochs=one.epochs), device=CPU).vectors
        assert evaluate(again, inner.train, inner.test, k=EXPERIMENT.k).summary() == one.scores
    final = train(
        part.train, replace(grid[record.trials.index(best)], epochs=record.settings["epochs"]), device=CPU
    ).vectors
    assert digest_of(final) == record.digest


@pytest.mark.parametrize(("limit", "chosen"), [(None, 0), (9.0, 0), (8.0, 2), (5.0, 1), (1.0, 1)])
def test_the_most_accurate_that_is_not_too_popular_is_chosen(limit, chosen):
    scores = [{"ndcg": 0.3, "mmr": 9.0}, {"ndcg": 0.1, "mmr": 2.0}, {"ndcg": 0.2, "mmr": 6.0}]
    trials = [Trial({}, one) for one in scores]
    assert best_trial(trials, mmr_at_most=limit) is trials[chosen]


def test_threads_give_the_same_results(done, records):
    together = ran(records, workers=3)
    assert results(together) == results(done[0])
    assert [without_clock(one.curve) for one in together] == [without_clock(one.curve) for one in done[0]]
    assert sorted(named(records)) == sorted(RUNS)


@pytest.mark.parametrize("workers", [1, 2])
def test_those_who_watch_hear_of_every_run(records, workers):
    stages = []
    ran(records, workers=workers, watch=stages.append)
    assert Counter((one.model, one.fold) for one in stages if one.doing == "done") == Counter(RUNS)
    assert {one.doing for one in stages} >= {"testing", "done"}
    stages.clear()
    ran(records, workers=workers, watch=stages.append)
    assert [one.doing for one in stages] == ["done"] * len(RUNS)


# --- What is not run again -------------------------------------------------------------------------------------------


def test_what_is_recorded_is_not_run_again(done, trainings):
    before = done[1].path.read_bytes()
    assert ran(RecordFile(done[1].path, Result)) == done[0]
    assert trainings == []
    assert done[1].path.read_bytes() == before


def test_folds_can_be_run_one_after_the_other(done, records, trainings):
    assert named(ran(records, folds=[2])) == [(row.name, 2) for row in ROWS]
    assert len(trainings) == TIMES_TRAINED * len(ROWS)
    assert results(ran(records)) == results(done[0])
    assert len(trainings) == TIMES_TRAINED * len(RUNS)


def test_rows_can_be_run_one_after_the_other(records, trainings):
    ran(records, ONE_ROW)
    first = len(trainings)
    assert named(ran(records)) == RUNS
    assert len(trainings) - first == TIMES_TRAINED * EXPERIMENT.folds


def test_a_run_that_was_killed_while_writing_is_run_again(done, records, trainings):
    whole = done[1].path.read_bytes()
    records.path.write_bytes(whole[:-40])
    assert results(ran(records)) == results(done[0])
    assert len(trainings) == TIMES_TRAINED
    assert results(records) == results(done[0])
    ran(records)
    assert len(trainings) == TIMES_TRAINED


def test_a_line_that_is_no_record_stops_the_experiment_before_it_begins(records, trainings):
    records.path.write_text(json.dumps({"row": "uniform-1-32"}) + "\n")
    with pytest.raises(DataError, match=r"records\.jsonl, line 1 is not a record"):
        ran(records)
    assert trainings == []


OTHER_TRAINING = replace(ONE_ROW, rows=(Row("uniform-1-32", replace(TRAINING, seed=1)),))
CHANGED = {
    "config": (OTHER_TRAINING, DATA),
    "split seed": (replace(ONE_ROW, seed=8), DATA),
    "folds": (replace(ONE_ROW, folds=4), DATA),
    "list length": (replace(ONE_ROW, k=6), DATA),
    "validation": (replace(ONE_ROW, validation=0.3), DATA),
    "name": (replace(ONE_ROW, name="other"), DATA),
    "pairs": (ONE_ROW, interactions(random_rows(24, 20, 0.4, seed=1))),
    "an item that nobody has": (ONE_ROW, interactions(np.pad(random_rows(24, 20, 0.4), ((0, 0), (0, 1))))),
}


@pytest.mark.parametrize(("experiment", "data"), CHANGED.values(), ids=CHANGED)
def test_what_has_changed_is_run_again(records, trainings, experiment, data):
    (before,) = ran(records, ONE_ROW, folds=[0])
    (after,) = ran(records, experiment, data, folds=[0])
    assert len(trainings) == 2 * TIMES_TRAINED
    assert before.key != after.key
    assert ran(records, ONE_ROW, folds=[0]) == [before]
    assert len(list(records)) == 2


def test_a_run_that_fails_is_not_recorded(records, monkeypatch):
    def fail(*_, **__):
        raise DataError("no more")

    monkeypatch.setattr(reproduction_module, "evaluate", fail)
    with pytest.raises(DataError, match="no more"):
        ran(records, ONE_ROW)
    assert list(records) == []


@pytest.mark.parametrize(("step", "times_trained"), [(2, 1), (14, 2)], ids=["choosing the epochs", "training"])
def test_a_run_that_is_interrupted_is_not_recorded(records, trainings, monkeypatch, step, times_trained):
    reached = []

    def interrupt():
        reached.append(len(trainings))
        signal.raise_signal(signal.SIGINT)

    watch(monkeypatch, at_step(step, interrupt))
    with suppress(KeyboardInterrupt):
        ran(records, ONE_ROW, folds=[0])
    assert reached == [times_trained]
    assert list(records) == []


def test_tiny_folds_are_what_they_seem():
    parts = [fold(index) for index in range(EXPERIMENT.folds)]
    assert sum(len(part.test) for part in parts) == len(DATA)
    assert all(pairs_of(part.train) | pairs_of(part.test) == pairs_of(DATA) for part in parts)
