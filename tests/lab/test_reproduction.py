"""An experiment: what its rows are, each run once, recorded when done, and set against the paper's table."""

import csv
import math
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import pytest

import spherec.lab
from spherec import datasets
from spherec.data import splits
from spherec.errors import ArgumentError
from spherec.evaluation import evaluate
from spherec.evaluation.metrics import find_metric
from spherec.lab import Experiment, RecordFile, Reproduction, Row, Trial, best_trial, paper_rows
from spherec.lab import runs as runs_module
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
from spherec.optim import Adam
from spherec.sampling import Popularity, TwoStage, Uniform
from spherec.training import Training
from tests.lab.tiny import CPU, DATA, EXPERIMENT, ONE_ROW, ROWS, TRAINING, fold, ran
from tests.lab.tiny import record as made
from tests.sampling.checks import interactions, random_rows
from tests.training.runs import at_step, train, watch

OF_THE_PAPER = [name for name in EXPERIMENTS if name != "two-stage"]
RUNS = [(row.name, index) for index in range(EXPERIMENT.folds) for row in ROWS]
TIMES_TRAINED = 2  # a run: to choose the epochs, and for good


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The records of the whole experiment, and their file."""
    records = RecordFile(tmp_path_factory.mktemp("done") / "records.jsonl")
    return ran(records), records


def results(records):
    return [(record.model, record.fold, record.settings["epochs"], record.scores, record.digest) for record in records]


def test_there_is_one_record_for_each_row_and_fold(done):
    assert sorted((record.model, record.fold) for record in done[0]) == sorted(RUNS)
    assert {record.study for record in done[0]} == {"tiny"}
    assert all(record.environment["device"].startswith("CPU") and record.seconds for record in done[0])
    assert sorted(record.key for record in done[1]) == sorted(record.key for record in done[0])
    assert len(done[1].path.read_text().splitlines()) == len(RUNS)


def test_the_final_model_learns_from_the_whole_training_folds_for_the_chosen_epochs(done):
    for record in done[0]:
        training = {row.name: row.training for row in ROWS}[record.model]
        part = fold(record.fold)
        direct = train(part.train, replace(training, epochs=record.settings["epochs"]), device=CPU).vectors
        assert digest_of(direct) == record.digest
        assert evaluate(direct, part.train, part.test, k=EXPERIMENT.k).summary() == record.scores


@pytest.mark.parametrize(("metrics", "best"), [((0.1, 0.4, 0.2, 0.3), 2), ((0.4, 0.4, 0.1, 0.4), 1), ((0, 0, 0, 0), 1)])
def test_the_validation_alone_decides_how_long_to_train(records, trainings, monkeypatch, metrics, best):
    told = iter(metrics)
    monkeypatch.setattr(runs_module, "Validation", lambda *_, **__: lambda vectors: next(told))
    (record,) = ran(records, ONE_ROW, folds=[0])
    assert record.settings["epochs"] == best
    assert [epoch["metric"] for epoch in record.curve] == list(metrics)
    assert [config.epochs for _, config in trainings] == [TRAINING.epochs, best]


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


def test_what_is_recorded_is_not_run_again(done, trainings):
    before = done[1].path.read_bytes()
    assert ran(RecordFile(done[1].path)) == done[0]
    assert trainings == []
    assert done[1].path.read_bytes() == before


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
    assert len(trainings) >= 2 * TIMES_TRAINED - 1, "a trial of another name is the same trial"
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


@pytest.mark.parametrize("name", OF_THE_PAPER)
def test_the_rows_are_those_of_the_papers_table(name):
    experiment = Experiment.embedded(name)
    assert [row.name for row in experiment.rows] == list(paper_rows(name))
    assert (experiment.name, experiment.folds, experiment.k) == (name, 4, 50)
    assert len(experiment.rows) == 15


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_row_does_what_its_name_says(name):
    kinds = {"uniform": Uniform, "popularity": Popularity}
    for row in Experiment.embedded(name).rows:
        sampler, negatives, batch = row.name.rsplit("-", 2)
        for training in row.choices:
            assert type(training.sampler) is kinds.get(sampler, TwoStage)
            assert training.sampler.negatives == int(negatives)
            assert training.batch_size == int(batch)
            assert (training.dim, training.loss, training.constraint) == (128, Hinge(), "sphere")
            assert training.epochs % training.validate_every == 0, "the last epoch is looked at"


def test_lists_are_to_be_less_popular_than_the_papers():
    rows = [row for row in Experiment.embedded("book-crossing").rows if row.mmr_at_most]
    assert len(rows) == 6
    for row in rows:
        assert row.mmr_at_most < paper_rows("book-crossing")[row.name].scores["mmr"].mean


def test_the_two_stage_rows_are_what_the_code_did_and_what_the_text_says():
    for row in Experiment.embedded("two-stage").rows:
        face = TwoStage.as_released if row.name.startswith("as-released") else TwoStage.as_written
        assert row.training.sampler == face(row.training.sampler.negatives)


TOML = """
name = "mine"
folds = 3
seed = 9
k = 20
validation = 0.1

[[rows]]
name = "a"

[[rows]]
name = "b"
preset = "uniform"
dim = 16
loss = { kind = "Softmin", temperature = 0.25 }
sampler = { negatives = 3 }
optimizer = { learning_rate = 0.01 }
"""


def test_settings_reach_the_training():
    mine = Experiment.from_toml(TOML)
    assert (mine.name, mine.folds, mine.seed, mine.k, mine.validation) == ("mine", 3, 9, 20, 0.1)
    plain, changed = mine.rows
    assert plain == Row("a", Training())
    training = changed.training
    assert (training.dim, training.batch_size) == (16, PAPER_SETTINGS["uniform"].batch_size)
    assert training.sampler == Uniform(3)
    assert (type(training.loss).__name__, training.loss.temperature) == ("Softmin", 0.25)
    assert training.optimizer.learning_rate == 0.01


GRID = """
name = "mine"
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
"""


def test_a_grid_is_all_its_combinations():
    mine, other = Experiment.from_toml(GRID).rows
    assert (other.training.dim, other.training.batch_size, other.choices) == (16, 64, (other.training,))
    samplers = [(training.sampler.beta, training.sampler.sharpness) for training in mine.choices]
    assert samplers == [(0.5, 0.1), (0.5, 0.2), (0.6, 0.1), (0.6, 0.2)]
    assert {(training.dim, training.batch_size, training.epochs) for training in mine.choices} == {(16, 32, 9)}
    assert mine.mmr_at_most == 7


ROW = '[[rows]]\nname = "a"\n'
BAD = {
    "not TOML": ("name = = 3", "TOML"),
    "no rows": ('name = "x"', "rows"),
    "unknown key": ('name = "x"\nfold = 3\n' + ROW, "fold"),
    "two rows of one name": ('name = "x"\n' + ROW + ROW, "a, a"),
    "row without a name": ('name = "x"\n[[rows]]\ndim = 3', "None"),
    "unknown preset": ('name = "x"\n' + ROW + 'preset = "best"', "'best'"),
    "unknown setting of a part": ('name = "x"\n' + ROW + "sampler = { bet = 1 }", "bet"),
    "unknown setting of a grid": ('name = "x"\n' + ROW + "grid = { dims = [3] }", "dims"),
    "all that is no table": ('name = "x"\nall = 3\n' + ROW, "TOML"),
    "setting out of range": ('name = "x"\n' + ROW + "epochs = 0", "epochs"),
}


@pytest.mark.parametrize(("text", "word"), BAD.values(), ids=BAD)
def test_what_cannot_be_run_is_refused(text, word):
    with pytest.raises(ArgumentError) as refused:
        Experiment.from_toml(text)
    assert word in str(refused.value)


def test_an_unknown_row_is_named_beside_the_known_ones():
    with pytest.raises(ArgumentError, match="tiny has no row best; it has uniform-1-32, popularity-1-32"):
        EXPERIMENT.only(["uniform-1-32", "best"])


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


@pytest.mark.parametrize("name", ["book-crossing", "two-stage"])
def test_every_recorded_result_belongs_to_its_experiment(name):
    """Otherwise a change of a default has made the records those of another experiment."""
    file = {"book-crossing": "records.jsonl", "two-stage": "two-stage.jsonl"}[name]
    records = Path(__file__).parents[2] / "results/book-crossing" / file
    experiment = Experiment.embedded(name)
    assert len(Reproduction(experiment, datasets.book_crossing(), records).results()) == 4 * len(experiment.rows)


NDCG = (0.04, 0.05, 0.0525)


def line(row="uniform-1-4096", map=1.12, ndcg=3.98, mmr=55.2):
    scores = {"map": MeanStd(map, 0.1), "ndcg": MeanStd(ndcg, 0.2), "mmr": MeanStd(mmr, 3.0)}
    return TableRow(row, 4, scores, {"choosing": 20.0, "training": 40.0}, 20.0)


def lines(records):
    return summarize(records, PAPER_METRICS)


def test_means_and_deviations_are_those_over_folds():
    (one,) = lines([made(fold=fold, ndcg=ndcg, mmr=10.0 * fold) for fold, ndcg in enumerate(NDCG)])
    assert one.folds == 3
    assert one["ndcg"].mean == pytest.approx(100 * mean(NDCG))
    assert one["ndcg"].std == pytest.approx(100 * stdev(NDCG))
    assert (one["map"].mean, one["map"].std) == pytest.approx((1.0, 0.0))
    assert (one["mmr"].mean, one["mmr"].std) == pytest.approx((10.0, 10.0)), "not in percent"


def test_epochs_and_seconds_are_means_without_the_test():
    (one,) = lines([made(fold=0, epochs=2, choosing=1.0, training=2.0), made(fold=1, epochs=5, choosing=4.0)])
    assert (one.epochs, sum(one.seconds.values())) == (3.5, 4.5)


def test_the_deviation_of_one_fold_is_not_known():
    (one,) = lines([made(ndcg=0.125)])
    assert (one.folds, one["ndcg"].mean, str(one["ndcg"])) == (1, 12.5, "12.50")
    assert math.isnan(one["ndcg"].std)
    assert paper_csv("book-crossing", [one]).splitlines()[1].split(",")[6:8] == ["12.500", ""]


@pytest.mark.data
def test_the_csv_has_the_columns_of_the_papers(shared):
    head = (shared / "paper/table2_results.csv").read_text().splitlines()[0]
    assert paper_csv("book-crossing", [line()]).splitlines()[0] == head


def test_the_csv_says_all_numbers():
    text = paper_csv("book-crossing", [line(), line("two-stage-5-256", map=1.23456)])
    first, second = csv.DictReader(text.splitlines())
    assert list(first.values())[:4] == ["book-crossing", "uniform", "1", "4096"]
    assert (second["sampler"], second["negatives"], second["batch"]) == ("two-stage", "5", "256")
    numbers = ["map_mean", "map_std", "ndcg_mean", "ndcg_std", "mmr_mean", "mmr_std"]
    assert list(first)[4:] == numbers
    assert [first[name] for name in numbers] == ["1.120", "0.100", "3.980", "0.200", "55.200", "3.000"]
    assert second["map_mean"] == "1.235"
    assert text.endswith("\n")
    assert "\r" not in text


@pytest.mark.parametrize(
    ("name", "ours", "theirs", "expected"),
    [
        ("ndcg", 4.5, (4.0, 0.25), "▲"),
        ("ndcg", 4.0, (4.0, 0.25), "▲"),
        ("ndcg", 3.875, (4.0, 0.25), "="),
        ("ndcg", 3.75, (4.0, 0.25), "="),
        ("ndcg", 3.625, (4.0, 0.25), "▼"),
        ("map", 1.5, (1.0, 0.5), "▲"),
        ("map", 0.5, (1.0, 0.5), "="),
        ("map", 0.25, (1.0, 0.5), "▼"),
        ("mmr", 40.0, (50.0, 0.5), "▲"),
        ("mmr", 50.0, (50.0, 0.5), "▲"),
        ("mmr", 54.0, (50.0, 0.5), "="),
        ("mmr", 56.0, (50.0, 0.5), "▼"),
        ("mmr", 56.0, (50.0, 9.0), "▼"),
    ],
)
def test_marks_say_how_ours_compares(name, ours, theirs, expected):
    assert mark(find_metric(name), MeanStd(ours, 99.0), MeanStd(*theirs)) == expected


def test_of_worse_lists_nothing_is_said_about_their_popularity():
    paper = paper_rows("book-crossing")["uniform-1-4096"]
    assert [ours[-1] for ours, _ in compare_with_paper(line(map=1.25, ndcg=3.9, mmr=1.0), paper)] == ["▲", "=", "▲"]
    assert [ours[-1] for ours, _ in compare_with_paper(line(map=1.25, ndcg=0.9, mmr=1.0), paper)][1:] == ["▼", "0"]


def test_the_table_stands_beside_the_papers():
    text = paper_markdown([line(map=1.25, ndcg=3.9, mmr=70.0)], paper_rows("book-crossing"))
    head, rule, row, blank, legend = text.splitlines()
    assert blank == ""
    assert legend.startswith("▲ better")
    assert head.count("|") == rule.count("|") == row.count("|") == 10
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == [
        *("uniform-1-4096", "1.25 ± 0.10 ▲", "1.12 ± 0.07", "3.90 ± 0.20 =", "3.98 ± 0.11"),
        *("70.00 ± 3.00 ▼", "55.20 ± 0.40", "20", "60"),
    ]
