"""A comparison is fair, keeps what it did, and never does it twice."""

from dataclasses import replace

import polars as pl
import pytest
import torch

import spherec
from spherec.data import splits
from spherec.errors import ArgumentError, DataError, TrainingError
from spherec.evaluation import evaluate
from spherec.lab import Comparison, OurModel, compare, default_models, known_models
from spherec.lab import comparison as study_module
from spherec.lab.baselines import ease as ease_module
from spherec.lab.baselines.ease import Ease
from spherec.lab.comparison import COMPARED_METRICS
from spherec.lab.models import UserBaseline
from spherec.lab.records import UserValues
from spherec.lab.registry import BASELINES, find_models
from spherec.lab.tables import describe_ends, describe_time, summarize
from spherec.training.config import PRESETS
from tests.lab.tiny import CONTEXT, CPU, DATA, comparison, pairs_of, plan
from tests.sampling.checks import interactions, random_rows

pytestmark = pytest.mark.usefixtures("small")
MODELS = ("two-stage+tuned", "ease", "most-popular")


@pytest.fixture
def fits(monkeypatch):
    """What EASE was fit on so far: [(pairs, settings)]."""
    calls, fit = [], Ease.fit

    def noted(self, train, settings, context):
        calls.append((pairs_of(train), dict(settings)))
        return fit(self, train, settings, context)

    monkeypatch.setattr(Ease, "fit", noted)
    return calls


def test_a_record_for_each_model_and_fold(tmp_path):
    done = comparison(tmp_path, *MODELS).run(device=CPU)
    assert sorted((one.model, one.fold) for one in done) == sorted((model, fold) for model in MODELS for fold in (0, 1))
    for one in done:
        assert one.is_ours == (one.model == "two-stage+tuned")
        assert len(one.trials) == (0 if one.model == "most-popular" else 2)  # it has nothing to choose
        assert one.settings in [{}, *(trial.refit for trial in one.trials)]
        assert one.seconds["training"] > 0
        assert one.peak_of == "resident in the process"
        assert one.environment["device"].startswith("CPU")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["records.jsonl", "trials.jsonl", "users.parquet"]
    users = pl.read_parquet(tmp_path / "users.parquet")
    assert users.columns == ["run", "model", "fold", "user", "map", "ndcg", "recall", "mmr"]
    assert sorted(users.select("model", "fold").unique().rows()) == sorted((m, fold) for m in MODELS for fold in (0, 1))


def test_the_result_is_what_doing_it_by_hand_gives(tmp_path):
    (result,) = (one for one in comparison(tmp_path, "ease", trials=10).run(device=CPU) if one.fold == 1)
    fold = splits.k_fold(DATA, 2, seed=0)[1]
    inner = splits.ratio(fold.train, 0.2, seed=0)
    values = Ease.search_space["regularization"]

    def scores(train, test, value):
        return evaluate(Ease().fit(train, {"regularization": value}, CONTEXT), train, test, k=5)

    best = max(values, key=lambda value: scores(inner.train, inner.test, value).ndcg)
    found = scores(inner.train, inner.test, result.settings["regularization"])
    assert found.ndcg == scores(inner.train, inner.test, best).ndcg
    assert result.scores == pytest.approx(scores(fold.train, fold.test, result.settings["regularization"]).summary())


def test_trials_survive_what_ends_a_run(tmp_path, monkeypatch, fits):
    def broken(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(study_module.Comparison, "_test", broken)
        with pytest.raises(KeyboardInterrupt):
            comparison(tmp_path, "ease").run(device=CPU)
    assert len(fits) == 4
    comparison(tmp_path, "ease").run(device=CPU)
    assert len(fits) == 4 + 2  # only the last fits


def test_more_trials_use_those_that_were_done(tmp_path, fits):
    comparison(tmp_path, "ease", trials=2).run(device=CPU)
    comparison(tmp_path, "ease", trials=3).run(device=CPU)
    assert len(fits) == 2 * (2 + 1) + 2 * (1 + 1)


@pytest.mark.parametrize("change", [{"k": 4}, {"seed": 1}, {"validation": 0.3}, {"folds": 3}])
def test_another_study_is_another_result(tmp_path, change):
    comparison(tmp_path, "most-popular").run(device=CPU)
    assert comparison(tmp_path, "most-popular", **change).results() == []


def test_a_given_test_part(tmp_path):
    fold = splits.k_fold(DATA, 3)[0]
    given = comparison(tmp_path, "ease", data=fold.train, test=fold.test)
    (result,) = given.run(device=CPU)
    assert result.fold == 0
    expected = evaluate(Ease().fit(fold.train, result.settings, CONTEXT), fold.train, fold.test, k=5)
    assert result.scores == pytest.approx(expected.summary())
    assert comparison(tmp_path, "ease").results() == []  # folds are something else


def test_several_at_once_give_the_same(tmp_path):
    one = comparison(tmp_path / "one", "two-stage+tuned", trials=3, workers=1).run(device=CPU)
    several = comparison(tmp_path / "several", "two-stage+tuned", trials=3, workers=3).run(device=CPU)
    assert [(a.settings, a.scores) for a in one] == [(b.settings, b.scores) for b in several]


def test_a_preset_is_taken_as_it_comes_unless_it_is_tuned(tmp_path):
    plain, tuned = find_models(["fast", "fast+tuned"])
    assert plain.search_space == {}
    assert not plain.has_choices
    assert len(tuned.draw(10, seed=0, fold=0)) == 10
    share = {name: values[0] for name, values in tuned.search_space.items()} | {"temperature_share": 0.5}
    expected = 0.5 * plain.config.resolve(DATA).loss.temperature
    assert tuned.configure(share, DATA, 0).loss.temperature == pytest.approx(expected)


def test_the_time_is_measured_before_the_start(tmp_path):
    """With a baseline of one's own the sentence says that nothing is known of it; cheap models run first."""

    class Own(type(BASELINES["most-popular"])):
        name = "own"

    own = UserBaseline(Own())
    known = ("ials", "quick", "two-stage+tuned", "two-stage", "ease", "bpr", "knn", "most-popular")
    prepared = Comparison(replace(plan(*known), models=(*find_models(known), own)), DATA, tmp_path)
    expected = prepared.estimate(device=CPU)
    assert set(expected) == {*known, "own"}
    assert expected.pop("own") is None
    assert all(seconds > 0 for seconds in expected.values())
    assert describe_time({"a": 30.4}) == "about 30 s"
    assert (
        describe_time({"a": 300.0, "b": 8000.0, "own": None})
        == "about 2.3 h (a 5 min, b 2.2 h, own cannot be measured)"
    )
    order = []
    prepared.estimates |= {name: 90.0 - 10 * place for place, name in enumerate(known)}
    prepared.run(device=CPU, after=order.append)
    assert order == [*reversed(known), "own"]
    assert prepared.estimate(device=CPU) == {}


def test_of_a_large_matrix_some_rows_are_timed(monkeypatch):
    fold = splits.k_fold(DATA, 2)[0]
    for large in (100, 7):
        monkeypatch.setattr(ease_module, "_TIMED", large)
        for data in (fold, splits.k_fold(interactions(random_rows(20, 24, 0.4)), 2)[0]):
            cost = Ease().measure(data, {"regularization": 10.0}, CONTEXT)
            assert cost.user >= 0
            assert cost.start > -1e-2


def test_settings_that_cannot_be_fit_are_not_chosen(tmp_path, monkeypatch):
    fit = Ease.fit

    def fails(self, train, settings, context):
        if settings["regularization"] == 500:
            raise TrainingError("no")
        return fit(self, train, settings, context)

    monkeypatch.setattr(Ease, "fit", fails)
    for one in comparison(tmp_path, "ease").run(device=CPU):
        assert one.settings["regularization"] != 500
        assert [trial.failed for trial in one.trials] == ["no", ""]
    one = comparison(tmp_path, "ease", "most-popular", trials=1)
    assert {result.model for result in one.run(device=CPU)} == {"most-popular"}  # the others go on
    assert one.failed == {"ease": "ease learned nothing with any of its settings: no"}


def test_the_space_of_ours_begins_with_the_preset():
    for name, preset in PRESETS.items():
        ours = OurModel.preset(name, tuned=True)
        default = {path: values[0] for path, values in ours.search_space.items()}
        assert ours.configure(default, DATA, CONTEXT.seed) == replace(preset.training, seed=CONTEXT.seed)
        for path, values in ours.search_space.items():
            assert len(set(values)) == len(values)
            for value in values:
                ours.configure({path: value}, DATA, CONTEXT.seed)  # all are values that the setting takes


def test_the_page_says_what_lies_at_the_end_of_its_grid(tmp_path):
    done = comparison(tmp_path, "ease", trials=10)
    results = done.run(device=CPU)
    page = done.page("x", "spherec compare x", summarize(results, COMPARED_METRICS))
    ends = [one for one in results if one.settings["regularization"] in (10.0, 5000.0)]
    assert ("At the end of the grid" in page) == bool(ends)
    at_end = [replace(one, settings={"regularization": 10.0}) for one in results]
    assert "better: ease regularization 10 (2 folds)" in describe_ends(at_end)
    assert describe_ends([replace(one, settings={"regularization": 50.0}) for one in results]) == ""


def test_what_cannot_be_fit_is_said_before_long_work(tmp_path, monkeypatch, fits):
    monkeypatch.setattr(ease_module, "LARGEST", 3)
    with pytest.raises(DataError, match="at most 3 rows; these are 24 users and 20 items"):
        comparison(tmp_path / "out", "most-popular", "ease").run(device=CPU)
    assert not (tmp_path / "out").exists()


def test_one_call_does_it_all_and_a_page_says_how_it_was_made(tmp_path):
    options = {"folds": 2, "k": 5, "trials": 2, "validation": 0.2, "device": "cpu"}
    table = compare(DATA, ["ease", "most-popular", "two-stage"], folder=tmp_path, **options)
    done = comparison(tmp_path, "ease")
    assert table == summarize(done.results(), COMPARED_METRICS, UserValues(tmp_path))
    assert {line.model for line in table} == {"ease", "most-popular", "two-stage"}
    page = done.page("x", "spherec compare x", table)
    for said in ("24 users", "spherec compare x", "| **two-stage** |", "regularization 500", "commit ", "against "):
        assert said in page


@pytest.mark.gpu
def test_on_a_gpu_as_on_a_cpu(tmp_path):
    models = ("two-stage", "ease", "most-popular")
    there = comparison(tmp_path / "gpu", *models, trials=4).run(device=torch.device("cuda"))
    here = {(one.model, one.fold): one for one in comparison(tmp_path / "cpu", *models, trials=4).run(device=CPU)}
    for one in there:
        assert one.peak_of == "allocated on the GPU"
        if one.model != "two-stage":  # the GPU draws other negatives
            other = here[one.model, one.fold]
            assert one.settings == other.settings
            assert one.scores == pytest.approx(other.scores, rel=1e-4)


def test_names():
    assert [one.name for one in find_models(known_models())] == known_models()
    assert set(BASELINES) <= set(default_models()) <= set(known_models())
    assert set(default_models(rough=True)) < set(default_models())
    assert all(one.is_ours == (one.name.removesuffix("+tuned") in PRESETS) for one in find_models(known_models()))
    assert len(find_models(["ease", "ease"])) == len(find_models("ease")) == 1
    with pytest.raises(ArgumentError, match=r"'eas' .*'ease'.*, ials, "):
        find_models(["eas"])


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        *(("ease", {name: value}) for name, value in {"folds": 1, "k": 0, "trials": 0, "seed": -1}.items()),
        ("ease", {"validation": 1.0}),
        ("ease", {"workers": 0}),
        ([], {"models": ()}),
    ],
)
def test_a_plan_is_checked(tmp_path, model, wrong):
    (name,) = wrong
    with pytest.raises(ArgumentError, match=name):
        compare(DATA, model, folder=tmp_path, device="cpu", **(wrong if model else {}))


def test_models_with_nothing_to_choose_need_no_validation_part(tmp_path):
    pairs = spherec.Interactions.from_pairs(["a", "a", "b", "b"], ["x", "y", "x", "z"])
    done = comparison(tmp_path / "one", "most-popular", data=pairs).run(device=CPU)
    assert [one.fold for one in done] == [0, 1]
    with pytest.raises(DataError, match="holds nothing out"):
        comparison(tmp_path / "two", "most-popular", "ease", data=pairs).run(device=CPU)
    given = spherec.Interactions.from_pairs(["a", "b"], ["z", "y"])
    rest = spherec.Interactions.from_pairs(["a", "b", "c"], ["y", "z", "x"])
    with pytest.raises(DataError, match="holds nothing out"):
        comparison(tmp_path / "two", "ease", data=rest, test=given).run(device=CPU)
    assert not (tmp_path / "two").exists()


@pytest.mark.parametrize("error", [MemoryError, torch.OutOfMemoryError])
def test_a_model_that_does_not_fit_into_memory_leaves_the_others(tmp_path, monkeypatch, error):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(Ease, "fit", fails)
    compared = comparison(tmp_path, "ease", "most-popular")
    assert {one.model for one in compared.run(device=CPU)} == {"most-popular"}
    assert "not enough memory" in compared.failed["ease"]


def test_what_is_no_data_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match=r"data must be Interactions, got list"):
        compare([(1, 2)], ["ease"], folder=tmp_path)
