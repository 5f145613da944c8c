"""Models, metrics, samplers and losses of one's own, written as someone new to spherec would write them."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

import spherec
from spherec import lab
from spherec.errors import ArgumentError
from spherec.lab import Goal, OurModel, ScoredRanker
from spherec.optim import Adam
from spherec.ranking import Ranking
from spherec.training import Training
from tests.lab.tiny import DATA
from tests.training.test_own import Squared, Steep

QUICK = {"folds": 2, "k": 5, "trials": 2, "validation": 0.2, "device": "cpu"}
SMALL = {"dim": 4, "epochs": 2, "batch_size": 32, "validate_every": 1, "optimizer": Adam(0.05)}


class Alphabetical:
    """Everybody gets the first items."""

    name = "alphabetical"

    def fit(self, train, settings, context):
        self.train = train
        return self

    def top(self, users, k, *, without=None):
        items = np.full((len(users), k), -1)
        for row, user in enumerate(users):
            unseen = np.setdiff1d(np.arange(self.train.n_items), self.train.items_of(user))[:k]
            items[row, : len(unseen)] = unseen
        return Ranking(items, np.where(items >= 0, 0.0, -np.inf).astype(np.float32))


@dataclass(frozen=True)
class Neighbours:
    """Items by how often they come together with those of a user, to a power."""

    name: str = "neighbours"
    shrinkage: float = 1.0
    search_space = {"power": (1.0, 0.5)}  # noqa: RUF012

    def fit(self, train, settings, context):
        matrix = train.matrix.toarray().astype(np.float32)
        together = (matrix.T @ matrix) ** settings["power"] / self.shrinkage
        return ScoredRanker(lambda users: matrix[users] @ together, train.n_items)


PARTS = {"sampler": Steep(), "loss": Squared(), **SMALL}
as_config_and_model = pytest.mark.parametrize("kind", [Training, spherec.CML])


def first_place(lists):
    """1 where the first item of a list is a hit."""
    return lists.hits[:, 0].astype(float)


def test_a_baseline_is_searched_recorded_and_run_again_when_it_changes(tmp_path, monkeypatch):
    fits = itertools.count()
    fit = Neighbours.fit
    monkeypatch.setattr(Neighbours, "fit", lambda *args: (next(fits), fit(*args))[1])
    first = lab.compare(DATA, [Neighbours(), Alphabetical()], folder=tmp_path, **QUICK)
    assert {row.model: (row.is_ours, row.folds) for row in first} == {
        "neighbours": (False, 2),
        "alphabetical": (False, 2),
    }
    for result in lab.RecordFile(tmp_path / "records.jsonl"):
        if result.model == "neighbours":
            assert [trial.settings["power"] for trial in result.trials] == [1.0, 0.5]
            assert result.identity["base"] == {"kind": "Neighbours", "name": "neighbours", "shrinkage": 1.0}
    assert next(fits) == 6
    assert lab.compare(DATA, [Neighbours(), Alphabetical()], folder=tmp_path, **QUICK) == first
    assert next(fits) == 7
    lab.compare(DATA, [Neighbours(shrinkage=2.0)], folder=tmp_path, **QUICK)
    assert next(fits) == 14
    monkeypatch.setattr(Neighbours, "version", 2, raising=False)
    lab.compare(DATA, [Neighbours()], folder=tmp_path, **QUICK)
    assert next(fits) == 21


@pytest.mark.parametrize("model", [3, object(), Alphabetical])
def test_what_is_no_model_is_refused(tmp_path, model):
    with pytest.raises((ArgumentError, TypeError)):
        lab.compare(DATA, [model], folder=tmp_path, **QUICK)


def test_a_metric_of_ones_own_is_a_column_with_a_test_and_a_goal(tmp_path):
    metrics = ["ndcg", first_place]
    table = lab.compare(DATA, ["ease", "most-popular"], folder=tmp_path, metrics=metrics, **QUICK)
    assert [list(row.scores) for row in table] == [["ndcg", "first_place"]] * 2
    assert 0 <= table[0]["first_place"].mean <= 1, "not in percent"
    assert set(table[1].p_values) == {"ndcg", "first_place"}
    goal = Goal(metric=first_place, k=5, validation=0.2)
    tuned = lab.tune(DATA, Training(**SMALL), ["loss.margin=0.5..2.0"], goal=goal, trials=3, device="cpu")
    assert goal.name == "first place@5"
    assert tuned.best.scores["first_place"] == max(trial.scores["first_place"] for trial in tuned.trials)


@as_config_and_model
def test_a_sampler_and_a_loss_of_ones_own_are_compared_and_tuned(tmp_path, kind):
    table = lab.compare(DATA, [kind(**PARTS), "most-popular"], folder=tmp_path, **QUICK)
    assert {row.model for row in table} == {"squared-steep", "most-popular"}
    tuned = lab.tune(DATA, kind(**PARTS), ["loss.margin=0.5..2.0", "sampler.decay=0.5..0.9"], trials=3, device="cpu")
    assert set(tuned.best.settings) == {"loss.margin", "sampler.decay"}
    assert isinstance(tuned.config.loss, Squared)
    assert tuned.config.loss.margin == tuned.best.settings["loss.margin"]


def test_a_metric_and_a_loss_of_another_version_are_run_again(tmp_path, monkeypatch):
    class Mine:
        name = label = "mine"
        percent = False

        def __init__(self, version):
            self.version = version

        def __call__(self, lists):
            return np.full(len(lists.users), self.version)

    def table(version):
        (row,) = lab.compare(DATA, ["most-popular"], folder=tmp_path, metrics=["ndcg", Mine(version)], **QUICK)
        return row["mine"].mean

    def records_of_loss():
        lab.compare(DATA, [OurModel("mine", Training(**PARTS), search={})], folder=tmp_path / "loss", **QUICK)
        return len((tmp_path / "loss/records.jsonl").read_text().splitlines())

    assert (table(1), table(2), table(1)) == (1, 2, 1)
    assert (records_of_loss(), records_of_loss()) == (2, 2)
    monkeypatch.setattr(Squared, "version", "later", raising=False)
    assert records_of_loss() == 4


@pytest.mark.parametrize(
    ("baseline", "words"),
    [
        (lambda train: 3, r"fit of Made .*got a int"),
        (lambda train: ScoredRanker(lambda users: [1.0], train.n_items), r"got a list"),
        (lambda train: ScoredRanker(lambda users: np.ones(3), train.n_items), r"got one of shape \(3,\)"),
    ],
)
def test_a_baseline_that_returns_no_lists_is_named(tmp_path, baseline, words):
    class Made:
        name = "made"

        def fit(self, train, settings, context):
            return baseline(train)

    with pytest.raises(ArgumentError, match=words):
        lab.compare(DATA, [Made()], folder=tmp_path, **QUICK)


@pytest.mark.parametrize("only", [None, np.array([0, 2, 3])])
def test_scores_may_be_an_array_and_items_chosen(only):
    values = np.arange(20).reshape(4, 5) % 7  # integers, and still the same afterwards
    listed = np.arange(5) if only is None else only
    ranking = ScoredRanker(lambda users: values, 5).top(np.arange(4), 5, only=only)
    assert ranking.items[:, : len(listed)].tolist() == listed[np.argsort(-values[:, listed], kind="stable")].tolist()
    assert (ranking.items[:, len(listed) :] == -1).all()
