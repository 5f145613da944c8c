"""Models, metrics, samplers and losses of one's own, written as someone new to spherec would write them."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

import spherec
from spherec import lab
from spherec.errors import ArgumentError, DataError
from spherec.lab import Goal, OurModel, ScoredRanker
from spherec.losses import Loss
from spherec.optim import Adam
from spherec.ranking import Ranking
from spherec.sampling import Sampling
from spherec.training import Training
from tests.lab.tiny import DATA

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

    def check(self, train):
        if train.n_items > 1000:
            raise DataError("too many items")

    def fit(self, train, settings, context):
        import torch

        matrix = torch.as_tensor(train.matrix.toarray(), device=context.device)
        together = (matrix.T @ matrix) ** settings["power"] / self.shrinkage
        return ScoredRanker(lambda users: matrix[torch.as_tensor(users)] @ together, train.n_items)


@dataclass(frozen=True)
class FirstItems(Sampling):
    """Negatives out of the first items."""

    negatives: int = 2
    most: int = 5

    def build(self, train, device, *, initial_items=None):
        from spherec.sampling import Uniform

        return Uniform(self.negatives).build(train, device, initial_items=initial_items)


@dataclass(frozen=True)
class Squares(Loss):
    """The square of the hinge."""

    gap: float = 1.0

    def __call__(self, triplets):
        return (self.gap + triplets.positive - triplets.nearest()).clamp(min=0) ** 2


def first_place(lists):
    """1 where the first item of a list is a hit."""
    return lists.hits[:, 0].astype(float)


def test_a_baseline_of_ones_own_is_compared(tmp_path):
    table = lab.compare(DATA, ["ease", Alphabetical()], folder=tmp_path, **QUICK)
    assert {row.model for row in table} == {"ease", "alphabetical"}
    (row,) = (row for row in table if row.model == "alphabetical")
    assert not row.is_ours
    assert row.folds == 2
    assert row["ndcg"].mean >= 0
    assert {path.name for path in tmp_path.iterdir()} <= {"records.jsonl", "trials.jsonl", "users.parquet"}


def test_a_baseline_with_settings_is_searched(tmp_path):
    lab.compare(DATA, [Neighbours()], folder=tmp_path, **QUICK)
    results = list(lab.RecordFile(tmp_path / "records.jsonl"))
    for result in results:
        assert [trial.settings["power"] for trial in result.trials] == [1.0, 0.5]
        assert result.settings in [trial.settings for trial in result.trials]
        assert result.identity["base"] == {"kind": "Neighbours", "name": "neighbours", "shrinkage": 1.0}


def test_what_is_recorded_of_a_baseline_is_not_run_again_unless_it_changes(tmp_path, monkeypatch):
    fits = itertools.count()
    fit = Neighbours.fit
    monkeypatch.setattr(Neighbours, "fit", lambda *args: (next(fits), fit(*args))[1])
    first = lab.compare(DATA, [Neighbours()], folder=tmp_path, **QUICK)
    assert next(fits) == 6
    assert lab.compare(DATA, [Neighbours()], folder=tmp_path, **QUICK) == first
    assert next(fits) == 7
    lab.compare(DATA, [Neighbours(shrinkage=2.0)], folder=tmp_path, **QUICK)
    assert next(fits) == 14
    monkeypatch.setattr(Neighbours, "version", 2, raising=False)
    lab.compare(DATA, [Neighbours()], folder=tmp_path, **QUICK)
    assert next(fits) == 21


def test_a_baseline_may_refuse_data_before_long_work(tmp_path, monkeypatch):
    def refuse(self, train):
        raise DataError("not these")

    monkeypatch.setattr(Neighbours, "check", refuse)
    with pytest.raises(DataError, match="not these"):
        lab.compare(DATA, [Neighbours(), "ease"], folder=tmp_path / "out", **QUICK)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("model", [3, object(), Alphabetical])
def test_what_is_no_model_is_refused(tmp_path, model):
    with pytest.raises((ArgumentError, TypeError)):
        lab.compare(DATA, [model], folder=tmp_path, **QUICK)


def test_two_models_of_the_same_name_are_refused(tmp_path):
    with pytest.raises(ArgumentError, match="alphabetical, alphabetical"):
        lab.compare(DATA, [Alphabetical(), Alphabetical()], folder=tmp_path, **QUICK)


def test_a_metric_of_ones_own_is_a_column_with_a_test(tmp_path):
    metrics = ["ndcg", first_place]
    table = lab.compare(DATA, ["ease", "most-popular"], folder=tmp_path, metrics=metrics, **QUICK)
    assert [list(row.scores) for row in table] == [["ndcg", "first_place"]] * 2
    assert 0 <= table[0]["first_place"].mean <= 1, "not in percent"
    assert set(table[1].p_values) == {"ndcg", "first_place"}


@pytest.mark.parametrize("as_model", [False, True])
def test_a_sampler_and_a_loss_of_ones_own_are_compared(tmp_path, as_model):
    parts = {"sampler": FirstItems(), "loss": Squares(), **SMALL}
    config = spherec.CML(**parts) if as_model else Training(**parts)
    table = lab.compare(DATA, [config, "most-popular"], folder=tmp_path, **QUICK)
    assert {row.model for row in table} == {"squares-firstitems", "most-popular"}


@pytest.mark.parametrize("as_model", [False, True])
def test_a_sampler_and_a_loss_of_ones_own_are_tuned(as_model):
    pytest.importorskip("optuna")
    parts = {"sampler": FirstItems(), "loss": Squares(), **SMALL}
    config = spherec.CML(**parts) if as_model else Training(**parts)
    tuned = lab.tune(DATA, config, ["loss.gap=0.5..2.0", "sampler.most=3..9:3"], trials=3, device="cpu")
    assert set(tuned.best.settings) == {"loss.gap", "sampler.most"}
    assert isinstance(tuned.config.loss, Squares)
    assert tuned.config.loss.gap == tuned.best.settings["loss.gap"]


def test_a_metric_of_ones_own_is_a_goal():
    pytest.importorskip("optuna")
    goal = Goal(metric=first_place, k=5, validation=0.2)
    tuned = lab.tune(DATA, Training(**SMALL), ["loss.margin=0.5..2.0"], goal=goal, trials=3, device="cpu")
    assert goal.name == "first place@5"
    assert tuned.best.scores["first_place"] == max(trial.scores["first_place"] for trial in tuned.trials)
    assert 0 <= tuned.best.scores["first_place"] <= 1


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
        mine = OurModel("mine", Training(loss=Squares(), sampler=FirstItems(), **SMALL), search={})
        lab.compare(DATA, [mine], folder=tmp_path / "loss", **QUICK)
        return len((tmp_path / "loss/records.jsonl").read_text().splitlines())

    assert (table(1), table(2), table(1)) == (1, 2, 1)
    assert (records_of_loss(), records_of_loss()) == (2, 2)
    monkeypatch.setattr(Squares, "version", "later", raising=False)
    assert records_of_loss() == 4


@pytest.mark.parametrize(
    ("baseline", "words"),
    [
        (lambda train: 3, "fit of Made must return an object with top.*, got a int"),
        (lambda train: ScoredRanker(lambda users: [1.0], train.n_items), r"array of shape .* got a list"),
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


def test_scores_may_be_an_array():
    values = np.arange(20).reshape(4, 5) % 7  # integers, and still the same afterwards
    ranking = ScoredRanker(lambda users: values, 5).top(np.arange(4), 2, without=None)
    assert ranking.items.tolist() == np.argsort(-values, axis=1, kind="stable")[:, :2].tolist()


def test_scores_may_be_ranked_among_some_items_alone():
    values = np.arange(20).reshape(4, 5) % 7
    only = np.array([0, 2, 3])
    ranking = ScoredRanker(lambda users: values, 5).top(np.arange(4), 4, only=only)
    assert ranking.items[:, :3].tolist() == only[np.argsort(-values[:, only], axis=1, kind="stable")].tolist()
    assert (ranking.items[:, 3] == -1).all()
