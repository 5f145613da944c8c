"""An experiment: what its rows are, each run once, recorded when done, and set against the paper's table."""

import csv
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import spherec.lab
from spherec import datasets
from spherec.data import splits
from spherec.errors import ArgumentError
from spherec.evaluation import evaluate
from spherec.evaluation.metrics import find_metric
from spherec.lab import Experiment, RecordFile, Reproduction, Row, Trial, best_trial, paper_rows
from spherec.lab import models as models_module
from spherec.lab.comparison import digest_of
from spherec.lab.reproduction import (
    EXPERIMENTS,
    PAPER_METRICS,
    PAPER_SETTINGS,
    compare_with_paper,
    mark,
    paper_csv,
    paper_markdown,
)
from spherec.lab.tables import MeanStd, TableRow, summarize
from spherec.losses import Hinge
from spherec.sampling import Popularity, TwoStage, Uniform
from spherec.training import Training
from tests.lab.tiny import CPU, DATA, EXPERIMENT, ONE_ROW, ROWS, TRAINING, fold, ran
from tests.lab.tiny import record as made
from tests.sampling.checks import interactions, random_rows
from tests.training.runs import at_step, train, watch

OF_THE_PAPER = [name for name in EXPERIMENTS if name != "two-stage"]
RUNS = [(row.name, index) for index in range(EXPERIMENT.folds) for row in ROWS]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The records of the whole experiment, and their file."""
    records = RecordFile(tmp_path_factory.mktemp("done") / "records.jsonl")
    return ran(records), records


def test_there_is_one_record_for_each_row_and_fold_and_nothing_is_run_again(done, trainings):
    assert sorted((record.model, record.fold) for record in done[0]) == sorted(RUNS)
    assert {record.study for record in done[0]} == {"tiny"}
    assert sorted(record.key for record in done[1]) == sorted(record.key for record in done[0])
    before = done[1].path.read_bytes()
    assert len(before.splitlines()) == len(RUNS)
    assert ran(RecordFile(done[1].path)) == done[0]
    assert trainings == []
    assert done[1].path.read_bytes() == before


def test_the_final_model_learns_from_the_whole_training_folds_for_the_chosen_epochs(done):
    for record in done[0]:
        training = {row.name: row.config for row in ROWS}[record.model]
        part = fold(record.fold)
        direct = train(part.train, replace(training, epochs=record.settings["epochs"]), device=CPU).vectors
        assert digest_of(direct) == record.digest
        assert evaluate(direct, part.train, part.test, k=EXPERIMENT.k).summary() == record.scores


@pytest.mark.parametrize(("metrics", "best"), [((0.1, 0.4, 0.2, 0.3), 2), ((0.4, 0.4, 0.1, 0.4), 1), ((0, 0, 0, 0), 1)])
def test_the_validation_alone_decides_how_long_to_train(records, trainings, monkeypatch, metrics, best):
    told = iter(metrics)
    monkeypatch.setattr(models_module, "Validation", lambda *_, **__: lambda vectors: next(told))
    (record,) = ran(records, ONE_ROW, folds=[0])
    assert record.settings["epochs"] == best
    assert [epoch["metric"] for epoch in record.curve] == list(metrics)
    assert [config.epochs for _, config in trainings] == [TRAINING.epochs, best]


def test_settings_are_chosen_on_the_validation_part(records):
    grid = [{"optimizer.learning_rate": rate} for rate in (1e-5, 0.05, 0.2)]
    row = Row("uniform-1-32", TRAINING, grid)
    (record,) = ran(records, replace(ONE_ROW, models=(row,)), folds=[0])
    best = max(record.trials, key=lambda one: one.scores["ndcg"])
    assert record.settings == best.refit
    assert [one.settings for one in record.trials] == grid
    part = fold(0)
    inner = splits.ratio(part.train, EXPERIMENT.validation, seed=EXPERIMENT.seed)
    for one, training in zip(record.trials, row.choices, strict=True):
        again = train(inner.train, replace(training, epochs=one.epochs), device=CPU).vectors
        assert evaluate(again, inner.train, inner.test, k=EXPERIMENT.k).summary() == one.scores


@pytest.mark.parametrize(("limit", "chosen"), [(None, 0), (9.0, 0), (8.0, 2), (5.0, 1), (1.0, 1)])
def test_the_most_accurate_that_is_not_too_popular_is_chosen(limit, chosen):
    scores = [{"ndcg": 0.3, "mmr": 9.0}, {"ndcg": 0.1, "mmr": 2.0}, {"ndcg": 0.2, "mmr": 6.0}]
    trials = [Trial({}, one) for one in scores]
    assert best_trial(trials, mmr_at_most=limit) is trials[chosen]


CHANGED = {
    "config": (replace(ONE_ROW, models=(Row("uniform-1-32", replace(TRAINING, seed=1)),)), DATA),
    "split seed": (replace(ONE_ROW, seed=8), DATA),
    "name": (replace(ONE_ROW, name="other"), DATA),
    "an item that nobody has": (ONE_ROW, interactions(np.pad(random_rows(24, 20, 0.4), ((0, 0), (0, 1))))),
}


@pytest.mark.parametrize(("experiment", "data"), CHANGED.values(), ids=CHANGED)
def test_what_has_changed_is_run_again(records, trainings, experiment, data):
    (before,) = ran(records, ONE_ROW, folds=[0])
    (after,) = ran(records, experiment, data, folds=[0])
    assert len(trainings) >= 3, "a trial of another name is the same trial"
    assert before.key != after.key
    assert ran(records, ONE_ROW, folds=[0]) == [before]
    assert len(list(records)) == 2


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


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_row_does_what_its_name_says(name):
    kinds = {"uniform": Uniform, "popularity": Popularity}
    experiment = Experiment.embedded(name)
    if name != "two-stage":
        assert [row.name for row in experiment.models] == list(paper_rows(name))
        assert (experiment.name, experiment.folds, experiment.k, len(experiment.models)) == (name, 4, 50, 15)
    for row in experiment.models:
        sampler, negatives, batch = row.name.rsplit("-", 2)
        for training in row.choices:
            assert type(training.sampler) is kinds.get(sampler, TwoStage)
            assert training.sampler.negatives == int(negatives)
            assert training.batch_size == int(batch)
            assert (training.dim, training.loss, training.constraint) == (128, Hinge(), "sphere")
            assert training.epochs % training.validate_every == 0, "the last epoch is looked at"
            if name == "two-stage":
                face = TwoStage.as_released if row.name.startswith("as-released") else TwoStage.as_written
                assert training.sampler == face(int(negatives))
        if row.mmr_at_most:
            assert row.mmr_at_most < paper_rows(name)[row.name].scores["mmr"].mean


TOML = """
name = "mine"
folds = 3
seed = 9
k = 20
validation = 0.1
[all]
dim = 16
batch_size = 64
[[rows]]
name = "a"
batch_size = 32
grid = { "sampler.beta" = [0.5, 0.6], "sampler.sharpness" = [0.1, 0.2], epochs = [9] }
mmr_at_most = 7
[[rows]]
name = "b"
preset = "uniform"
loss = { kind = "Softmin", temperature = 0.25 }
sampler = { negatives = 3 }
"""


def test_settings_reach_the_training_and_a_grid_is_all_its_combinations():
    mine = Experiment.from_toml(TOML)
    assert (mine.name, mine.folds, mine.seed, mine.k, mine.validation) == ("mine", 3, 9, 20, 0.1)
    grid, other = mine.models
    samplers = [(training.sampler.beta, training.sampler.sharpness) for training in grid.choices]
    assert samplers == [(0.5, 0.1), (0.5, 0.2), (0.6, 0.1), (0.6, 0.2)]
    assert {(training.dim, training.batch_size, training.epochs) for training in grid.choices} == {(16, 32, 9)}
    assert grid.mmr_at_most == 7
    (training,) = other.choices
    assert training == PAPER_SETTINGS["uniform"].change(
        {"dim": 16, "batch_size": 64, "sampler": Uniform(3), "loss": training.loss}
    )
    assert (type(training.loss).__name__, training.loss.temperature) == ("Softmin", 0.25)


def test_unknown_rows_and_two_of_one_name_are_refused():
    with pytest.raises(ArgumentError, match=r"best.* uniform-1-32, popularity-1-32"):
        EXPERIMENT.only(["uniform-1-32", "best"])
    with pytest.raises(ArgumentError, match="a, a"):
        Experiment((Row("a", Training()), Row("a", Training())))


@pytest.mark.data
def test_the_papers_table_is_the_published_one(shared):
    published = (shared / "paper/table2_results.csv").read_text().splitlines()
    cells = [line.split(",") for line in published[1:]]
    theirs = [(*row[:2], *map(int, row[2:4]), *map(float, row[4:])) for row in cells]
    own = [
        (name, sampler, int(negatives), int(batch), *(n for one in row.scores.values() for n in (one.mean, one.std)))
        for name in OF_THE_PAPER
        for row in paper_rows(name).values()
        for sampler, negatives, batch in [row.model.rsplit("-", 2)]
    ]
    assert sorted(own) == sorted(theirs)
    assert (Path(spherec.lab.__file__).parent / "table2.csv").read_text().splitlines() == published
    assert paper_csv("book-crossing", [line()]).splitlines()[0] == published[0]


@pytest.mark.parametrize(("name", "file"), [("book-crossing", "records.jsonl"), ("two-stage", "two-stage.jsonl")])
def test_every_recorded_result_belongs_to_its_experiment(name, file):
    """Otherwise a change of a default has made the records those of another experiment."""
    records = Path(__file__).parents[2] / "results/book-crossing" / file
    experiment = Experiment.embedded(name)
    assert len(Reproduction(experiment, datasets.book_crossing(), records).results()) == 4 * len(experiment.models)


def line(row="uniform-1-4096", map=1.12, ndcg=3.98, mmr=55.2):
    scores = {"map": MeanStd(map, 0.1), "ndcg": MeanStd(ndcg, 0.2), "mmr": MeanStd(mmr, 3.0)}
    return TableRow(row, 4, scores, {"choosing": 20.0, "training": 40.0}, 20.0)


def test_the_csv_says_all_numbers():
    (alone,) = summarize([made(ndcg=0.125)], PAPER_METRICS)  # the deviation of one fold is not known
    rows = [line(), line("two-stage-5-256", map=1.23456), alone]
    markdown = paper_markdown(rows, paper_rows("book-crossing")).splitlines()
    assert {row.count("|") for row in markdown[:5]} == {10}
    assert markdown[2].startswith("| uniform-1-4096 | 1.12 ± 0.10 ▲ | 1.12 ± 0.07 |")
    text = paper_csv("book-crossing", rows)
    first, second, third = csv.DictReader(text.splitlines())
    assert list(first.values())[:4] == ["book-crossing", "uniform", "1", "4096"]
    assert (second["sampler"], second["negatives"], second["batch"]) == ("two-stage", "5", "256")
    numbers = ["map_mean", "map_std", "ndcg_mean", "ndcg_std", "mmr_mean", "mmr_std"]
    assert list(first)[4:] == numbers
    assert [first[name] for name in numbers] == ["1.120", "0.100", "3.980", "0.200", "55.200", "3.000"]
    assert second["map_mean"] == "1.235"
    assert (third["ndcg_mean"], third["ndcg_std"], str(alone["ndcg"])) == ("12.500", "", "12.50")
    assert text.endswith("\n")
    assert "\r" not in text


@pytest.mark.parametrize(
    ("name", "theirs", "marks"),
    [("ndcg", (4.0, 0.25), {4.0: "▲", 3.75: "=", 3.625: "▼"}), ("mmr", (50.0, 9.0), {50.0: "▲", 54.0: "=", 56.0: "▼"})],
)
def test_marks_say_how_ours_compares(name, theirs, marks):
    assert {ours: mark(find_metric(name), MeanStd(ours, 99.0), MeanStd(*theirs)) for ours in marks} == marks


def test_of_worse_lists_nothing_is_said_about_their_popularity():
    paper = paper_rows("book-crossing")["uniform-1-4096"]
    assert [ours[-1] for ours, _ in compare_with_paper(line(map=1.25, ndcg=3.9, mmr=1.0), paper)] == ["▲", "=", "▲"]
    assert [ours[-1] for ours, _ in compare_with_paper(line(map=1.25, ndcg=0.9, mmr=1.0), paper)][1:] == ["▼", "0"]
