"""What an experiment is made of, and what ships with the package."""

from dataclasses import astuple
from pathlib import Path

import pytest

import spherec.lab
from spherec import datasets
from spherec.data.cuts import Cut
from spherec.datasets import PAPER_DATASETS as DATASETS
from spherec.errors import ArgumentError
from spherec.lab import Experiment, Row, paper_rows
from spherec.lab.experiment import PAPER_SETTINGS
from spherec.lab.reproduction import recorded_results
from spherec.losses import Hinge
from spherec.sampling import Popularity, TwoStage, Uniform
from spherec.training import Training
from tests.lab.tiny import EXPERIMENT

OF_THE_PAPER = ["book-crossing", "amazon-movies", "echonest"]
BETA = {"book-crossing": 0.8, "amazon-movies": 1.0, "echonest": 1.0}  # of the paper


@pytest.mark.parametrize("name", OF_THE_PAPER)
def test_the_rows_are_those_of_the_papers_table(name):
    experiment = Experiment.embedded(name)
    assert [row.name for row in experiment.rows] == list(paper_rows(name))
    assert (experiment.name, experiment.folds, experiment.k) == (name, 4, 50)
    assert len(experiment.rows) == 15


@pytest.mark.parametrize("name", [*OF_THE_PAPER, "two-stage"])
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


@pytest.mark.parametrize("name", OF_THE_PAPER)
def test_popularity_is_sampled_with_the_papers_beta_or_one_beside_it(name):
    rows = [row for row in Experiment.embedded(name).rows if row.name.startswith("popularity")]
    assert [row.training.sampler.beta for row in rows] == [BETA[name]] * 3
    assert all(BETA[name] in [training.sampler.beta for training in row.choices] for row in rows)


def test_lists_are_to_be_less_popular_than_the_papers():
    rows = [row for row in Experiment.embedded("book-crossing").rows if row.mmr_at_most]
    assert len(rows) == 6
    for row in rows:
        assert row.mmr_at_most < paper_rows("book-crossing")[row.name].scores["mmr"].mean


def test_the_two_stage_rows_are_what_the_code_did_and_what_the_text_says():
    for row in Experiment.embedded("two-stage").rows:
        face = TwoStage.as_released if row.name.startswith("as-released") else TwoStage.as_written
        assert row.training.sampler == face(row.training.sampler.negatives)


def test_every_data_set_of_the_paper_has_an_experiment():
    assert sorted(OF_THE_PAPER) == sorted(DATASETS)
    assert all(dataset.cut != Cut() for dataset in DATASETS.values())


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


def test_settings_of_a_row_are_laid_over_those_of_all():
    (row,) = Experiment.from_toml(
        'name = "x"\n[all]\nsampler = { beta = 0.3, candidates = 9 }\n[[rows]]\nname = "a"\nsampler = { beta = 0.4 }'
    ).rows
    assert (row.training.sampler.beta, row.training.sampler.candidates) == (0.4, 9)


def test_a_grid_is_all_its_combinations():
    mine, other = Experiment.from_toml(GRID).rows
    assert (other.training.dim, other.training.batch_size, other.choices) == (16, 64, (other.training,))
    samplers = [(training.sampler.beta, training.sampler.sharpness) for training in mine.choices]
    assert samplers == [(0.5, 0.1), (0.5, 0.2), (0.6, 0.1), (0.6, 0.2)]
    assert {(training.dim, training.batch_size, training.epochs) for training in mine.choices} == {(16, 32, 9)}
    assert mine.mmr_at_most == 7


ROW = '[[rows]]\nname = "a"\n'
BAD = {
    "not TOML": ("name = = 3", ["TOML"]),
    "no rows": ('name = "x"', ["[[rows]]", "name"]),
    "unknown key": ('name = "x"\nfold = 3\n' + ROW, ["fold", "seed"]),
    "two rows of one name": ('name = "x"\n' + ROW + ROW, ["a, a"]),
    "row without a name": ('name = "x"\n[[rows]]\ndim = 3', ["None"]),
    "unknown preset": ('name = "x"\n' + ROW + 'preset = "best"', ["two-stage", "'best'"]),
    "unknown setting of a part": ('name = "x"\n' + ROW + "sampler = { bet = 1 }", ["sampler.bet"]),
    "unknown setting of a grid": ('name = "x"\n' + ROW + "grid = { dims = [3] }", ["dims"]),
    "all that is no table": ('name = "x"\nall = 3\n' + ROW, ["TOML"]),
    "grid with one value": ('name = "x"\n' + ROW + "grid = { dim = 3 }", ["TOML"]),
    "setting out of range": ('name = "x"\n' + ROW + "epochs = 0", ["epochs", "0"]),
}


@pytest.mark.parametrize(("text", "words"), BAD.values(), ids=BAD)
def test_what_cannot_be_run_is_refused(text, words):
    with pytest.raises(ArgumentError) as refused:
        Experiment.from_toml(text)
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize("names", [["popularity-1-32"], ["popularity-1-32", "uniform-1-32"], ["uniform-1-32"] * 2])
def test_only_keeps_the_order_and_everything_else(names):
    only = EXPERIMENT.only(names)
    assert [row for row in EXPERIMENT.rows if row.name in names] == list(only.rows)
    assert (only.name, only.folds, only.seed, only.k, only.validation) == ("tiny", 3, 7, 5, 0.2)


def test_an_unknown_row_is_named_beside_the_known_ones():
    with pytest.raises(ArgumentError, match="tiny has no row best; it has uniform-1-32, popularity-1-32"):
        EXPERIMENT.only(["uniform-1-32", "best"])


@pytest.mark.data
def test_the_papers_table_is_the_published_one(shared):
    published = (shared / "paper/table2_results.csv").read_text().splitlines()
    cells = [line.split(",") for line in published[1:]]
    theirs = [(*row[:2], *map(int, row[2:4]), *map(float, row[4:])) for row in cells]
    own = [
        (*facts, *(number for spread in scores.values() for number in spread))
        for name in OF_THE_PAPER
        for *facts, scores in map(astuple, paper_rows(name).values())
    ]
    assert sorted(own) == sorted(theirs)
    assert (Path(spherec.lab.__file__).parent / "table2.csv").read_text().splitlines() == published


def test_a_data_set_outside_the_paper_has_no_rows():
    assert paper_rows("gowalla") == {}


@pytest.mark.parametrize("name", ["book-crossing", "two-stage"])
def test_every_recorded_result_belongs_to_its_experiment(name):
    """Otherwise a change of a default has made the records those of another experiment."""
    file = {"book-crossing": "records.jsonl", "two-stage": "two-stage.jsonl"}[name]
    records = Path(__file__).parents[2] / "results/book-crossing" / file
    experiment = Experiment.embedded(name)
    assert len(recorded_results(experiment, datasets.book_crossing(), records)) == 4 * len(experiment.rows)
