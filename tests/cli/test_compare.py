"""`spherec compare`, on data so small that it takes a moment."""

import csv
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from spherec import Interactions
from spherec.lab.baselines.ease import Ease
from tests.lab.tiny import tiny_preset
from tests.sampling.checks import random_rows

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    tiny_preset(monkeypatch)
    monkeypatch.setattr(Ease, "tries_all", False)
    monkeypatch.setitem(sys.modules, "spherec.lab.plots", SimpleNamespace(plot_comparison=lambda *_: None))


@pytest.fixture
def prepared(tmp_path):
    Interactions.from_matrix(random_rows(24, 20, 0.4)).save(tmp_path / "tiny.npz")
    return tmp_path / "tiny.npz"


@pytest.fixture
def compare(spherec, prepared, tmp_path):
    def run(*options, data=prepared, models="two-stage,ease,ials,most-popular"):
        folder = ("-o", tmp_path / "out/tiny", "-k", 5, "--folds", 2, "--trials", 2, "--device", "cpu")
        return spherec("compare", data, "--models", models, *folder, *options)

    return run


def test_from_data_to_table(compare, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "spherec.lab.plots")
    done = compare()
    assert done.code == 0
    for model in ("two-stage", "ease", "ials", "most-popular"):
        assert model in done.out
    assert "the best baseline" in done.err
    out = tmp_path / "out"
    rows = list(csv.DictReader((out / "tiny.csv").read_text().splitlines()))
    assert len(rows) == 4
    ndcg = [float(row["ndcg_mean"]) for row in rows]
    assert ndcg == sorted(ndcg, reverse=True)
    assert [row["p_holm_vs_best_baseline"] for row in rows].count("") == 1
    page = (out / "tiny.md").read_text()
    command = next(line for line in page.splitlines() if line.startswith("spherec compare"))
    assert sorted(command.split(" --models ")[1].split()[0].split(",")) == ["ease", "ials", "most-popular", "two-stage"]
    for option in ("--folds 2", "-k 5", "--trials 2"):
        assert f" {option} " in f"{command} "
    assert "Made by 8 runs" in page
    assert (out / "tiny.png").read_bytes()[1:4] == b"PNG"
    assert len((out / "tiny/records.jsonl").read_text().splitlines()) == 8


def models_in(table):
    return {row["model"]: row for row in csv.DictReader(table.read_text().splitlines())}


def test_a_second_call_only_reports(compare, tmp_path):
    first = compare()
    records = (tmp_path / "out/tiny/records.jsonl").read_bytes()
    again = compare()
    assert (tmp_path / "out/tiny/records.jsonl").read_bytes() == records
    assert again.out == first.out
    assert "8 tests are recorded already" in again.err


def test_without_models_named_those_that_cannot_are_left_out(spherec, prepared, tmp_path, monkeypatch):
    monkeypatch.setattr("spherec.cli.compare.default_models", lambda *_, **__: ["ease", "most-popular"])
    monkeypatch.setattr("spherec.lab.baselines.ease.LARGEST", 3)
    options = ("-o", tmp_path / "out", "-k", 5, "--folds", 2, "--trials", 2, "--device", "cpu")
    done = spherec("compare", prepared, *options)
    assert done.code == 0, done.err
    assert list(models_in(tmp_path / "out.csv")) == ["most-popular"]
    assert "ease is left out: ease inverts a matrix" in done.err
    assert spherec("compare", prepared, "--models", "ease", *options).code == 2


def test_a_rough_comparison_says_its_time_and_a_line_for_each_model(spherec, prepared, tmp_path):
    done = spherec(
        "compare", prepared, "--rough", "--models", "ease,two-stage+tuned", "-k", 5, "-o", tmp_path / "out/tiny"
    )
    assert done.code == 0, done.err
    assert "this takes about " in done.err
    assert "model ease, MAP % " in done.err
    rows = [json.loads(line) for line in (tmp_path / "out/tiny/records.jsonl").read_text().splitlines()]
    assert {(row["fold"], len(row["trials"])) for row in rows} == {(0, 3), (1, 3)}


def test_in_a_terminal_the_table_grows(compare, monkeypatch):
    monkeypatch.setattr("spherec.cli.compare.SafeConsole.is_terminal", True)
    done = compare(models="most-popular,ease")
    assert done.err.count("so far: lists of 5") == 2  # above the bar


def test_folds_one_by_one(compare, tmp_path):
    assert "One split" in compare("--only-fold", 1, models="ease").err
    compare("--only-fold", 0, models="most-popular")
    folds = [json.loads(line)["fold"] for line in (tmp_path / "out/tiny/records.jsonl").read_text().splitlines()]
    assert folds == [1, 0]


def test_a_test_part_of_its_own(spherec, prepared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spherec("data", "split", prepared, "--by", "ratio", "-o", "split")
    options = ("--models", "ease,most-popular", "-k", 5, "--trials", 2)
    done = spherec("compare", "split/train.npz", "--test", "split/test.npz", *options)
    assert done.code == 0, done.err
    assert "One split" in done.err
    assert models_in(tmp_path / "results/compare/train.csv")["ease"]["ndcg_std"] == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--models", "eese"), "there is no model called 'eese' (did you mean 'ease'?)"),
        (("--models", ","), "needs models"),
        (("--folds", 1), "folds must be a whole number"),
        (("--only-fold", "2"), "in 0 … 1, got [2]"),
        (("--trials", 0), "trials must be a whole number >= 1, got 0"),
        (("--validation", 2), "share between 0 and 1, got 2.0"),
    ],
)
def test_bad_options_are_one_sentence(compare, options, said):
    done = compare(*options)
    assert done.code == 2
    assert said in done.err
    assert len(done.err.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["tiny", "tiny.md"])
def test_an_output_that_is_something_else(compare, tmp_path, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("")
    done = compare()
    assert done.code == 2
    assert "of something else; name another folder with -o" in done.err


def test_ctrl_c_keeps_what_was_done(compare, monkeypatch, tmp_path):
    fit, fits = Ease.fit, []

    def interrupted(self, train, settings, how):
        fits.append(settings)
        if len(fits) == 3:
            raise KeyboardInterrupt
        return fit(self, train, settings, how)

    monkeypatch.setattr(Ease, "fit", interrupted)
    done = compare(models="most-popular,ease")
    assert done.code == 130
    assert "finished work is saved; rerun the same command to continue" in done.err
    assert len((tmp_path / "out/tiny/records.jsonl").read_text().splitlines()) == 2
    assert compare(models="most-popular,ease").code == 0
    assert len(fits) == 3 + 1 + 3 + 2  # two were measured, the first trial was kept; three more, and two tests


def test_no_plot_without_matplotlib(compare, monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "spherec.lab.plots", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = compare(models="most-popular")
    assert done.code == 0
    assert "pip install matplotlib" in done.err
    assert not (tmp_path / "out/tiny.png").exists()


def test_features_are_read_and_models_that_lack_them_refused(compare, tmp_path):
    rows = [f"{number},{('crime', 'novel', 'poems', 'travel')[number % 4]}" for number in range(20)]
    (tmp_path / "books.csv").write_text("\n".join(["item,genre", *rows]) + "\n")
    given = ("--item-features", tmp_path / "books.csv", "--feature-kind", "genre=category")
    done = compare(*given, models="content-knn")
    assert done.code == 0, done.err
    assert "content-knn" in (tmp_path / "out/tiny.csv").read_text()
    assert (
        f"--item-features {tmp_path / 'books.csv'} --feature-kind genre=category"
        in (tmp_path / "out/tiny.md").read_text()
    )
    done = compare(models="content-knn")
    assert done.code == 2
    assert "content-knn needs item features; give some with --item-features" in done.err
