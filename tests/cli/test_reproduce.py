"""`spherec reproduce`, on data so small that the paper's rows take a moment."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from spherec import Interactions
from spherec.data import splits
from spherec.lab import Experiment, RecordFile, Row, models, paper_rows
from spherec.lab import runs as runs_module
from tests.sampling.checks import random_rows

ROW = "uniform-1-4096"
WRITTEN = ["records.jsonl", "records.trials.jsonl", "table.csv", "table.md"]


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """The paper's rows with few epochs and dimensions; data sets are cut and folds made as they are."""
    embedded = Experiment.embedded.__func__

    def shorter(row):
        grid = [{**settings, "epochs": 12} if "epochs" in settings else settings for settings in row.grid]
        training = replace(row.config, epochs=12, validate_every=4, dim=4)
        return Row(row.name, training, grid, row.mmr_at_most)

    def cut(cls, name):
        experiment = embedded(cls, name)
        return replace(experiment, models=tuple(map(shorter, experiment.models)))

    monkeypatch.setattr(Experiment, "embedded", classmethod(cut))


@pytest.fixture
def trainings(monkeypatch):
    """The configs that were trained so far."""
    calls, train = [], runs_module.train

    def noted(run, *rest, **options):
        calls.append(run.config)
        return train(run, *rest, **options)

    for module in (runs_module, models):
        monkeypatch.setattr(module, "train", noted)
    return calls


@pytest.fixture
def prepared(tmp_path):
    Interactions.from_matrix(random_rows(20, 30, 0.5)).save(tmp_path / "data.npz")
    return tmp_path / "data.npz"


@pytest.fixture
def reproduce(spherec, prepared, tmp_path):
    """Run `spherec reproduce` on the prepared data, into the folder out."""

    def run(*options, dataset="book-crossing", data=prepared):
        given = () if data is None else ("--data", data)
        return spherec("reproduce", dataset, *given, "-o", tmp_path / "out", "--device", "cpu", *options)

    return run


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def runs(path):
    return Counter((result.model, result.fold) for result in RecordFile(path))


def test_the_table_stands_beside_the_papers(reproduce, tmp_path):
    done = reproduce("--rows", f"popularity-1-256,{ROW}", "--only-fold", 0, "--only-fold", 2)
    assert done.code == 0, done.err
    assert files(tmp_path / "out") == WRITTEN
    assert runs(tmp_path / "out/records.jsonl") == {
        (row, fold): 1 for row in (ROW, "popularity-1-256") for fold in (0, 2)
    }
    for text in (done.out, (tmp_path / "out/table.md").read_text()):
        assert text.index(ROW) < text.index("popularity-1-256"), "in the paper's order"
        for row in (ROW, "popularity-1-256"):
            assert f"{paper_rows('book-crossing')[row].scores['ndcg'].mean:.2f} ± " in text
    assert f"{ROW}, fold 2: done" in done.err
    assert str(tmp_path / "out") in done.err


def test_the_second_time_nothing_is_trained(reproduce, trainings, tmp_path):
    options = ("--rows", ROW, "--only-fold", 0, "--only-fold", 1)
    first = reproduce(*options)
    trained, written = len(trainings), (tmp_path / "out/records.jsonl").read_bytes()
    again = reproduce(*options)
    assert len(trainings) == trained
    assert again.out == first.out
    assert "2 tests are recorded already" in again.err
    assert (tmp_path / "out/records.jsonl").read_bytes() == written
    reproduce("--rows", ROW, *(word for fold in range(3) for word in ("--only-fold", fold)))
    assert len(trainings) == trained + 3, "one to measure its time"


def test_variants_of_two_stage_stand_beside_the_papers_own(reproduce, tmp_path):
    done = reproduce("--rows", "as-written-1-256,as-released-1-256", "--only-fold", 0, dataset="two-stage")
    assert done.code == 0, done.err
    rows = (tmp_path / "out/table.csv").read_text().splitlines()[1:]
    assert [row.split(",")[1:4] for row in rows] == [[face, "1", "256"] for face in ("as-released", "as-written")]
    assert "10.10 ± 0.10" in (tmp_path / "out/table.md").read_text(), "the paper's row"


def test_a_part_of_the_rows_leaves_the_others_in_the_table(reproduce, tmp_path):
    assert reproduce("--rows", f"{ROW},uniform-5-256", "--only-fold", 0, "--only-fold", 1).code == 0
    whole = (tmp_path / "out/table.csv").read_bytes()
    done = reproduce("--rows", ROW, "--only-fold", "0")
    assert done.code == 0, done.err
    assert "uniform-5-256" in done.out
    assert (tmp_path / "out/table.csv").read_bytes() == whole


def test_progress_is_shown_on_a_terminal(reproduce, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    done = reproduce("--rows", ROW, "--only-fold", "0")
    assert done.code == 0
    assert "2/2" in done.err


KEPT_USERS, KEPT_ITEMS = 25, 30


def amazon(path):
    """Users like 26 items or more; one likes too few, and one rates low."""
    rows = [f"A{user:09},B{item:09},5.0,{item}" for user in range(KEPT_USERS) for item in range(KEPT_ITEMS - user % 5)]
    rows += [f"AFEW000000,B{item:09},5.0,1" for item in range(19)]
    rows += [f"ALOW000000,B{item:09},4.0,1" for item in range(30)]
    path.write_text("\n".join(rows) + "\n")


def test_the_published_file_is_cut_as_the_paper_did(reproduce, tmp_path, monkeypatch):
    dataset, name = "amazon-movies", "ratings_Movies_and_TV.csv"
    seen, run = [], splits.k_fold
    monkeypatch.setattr("spherec.data.splits.k_fold", lambda data, *_, **__: seen.append(data) or run(data, *_, **__))
    amazon(tmp_path / name)
    done = reproduce("--only-fold", "0", "--rows", ROW, dataset=dataset, data=tmp_path / name)
    assert done.code == 0, done.err
    data = seen[0]
    assert (data.n_users, data.n_items) == (KEPT_USERS, KEPT_ITEMS)
    assert len(data) == sum(KEPT_ITEMS - user % 5 for user in range(KEPT_USERS))
    theirs = paper_rows(dataset)[ROW]
    assert str(theirs.scores["ndcg"]) in done.out
    (line,) = (tmp_path / "out/records.jsonl").read_text().splitlines()
    assert json.loads(line)["study"] == dataset


BAD = {
    "a fold too many": (("--only-fold", "4"), ["in 0 … 3", "[4]"]),
    "unknown row": (("--rows", f"{ROW},best"), ["has no row best", "two-stage-5-256"]),
    "no file": (("--data", "no-such.csv"), ["no-such.csv"]),
    "no file of a pattern": (("--data", "no-such-*.csv"), ["no-such-*.csv"]),
    "not the published file": (("--data", "{csv}"), ["a.csv"]),
    "output is a file": (("-o", "{csv}"), ["a.csv"]),
}


@pytest.mark.parametrize(("options", "words"), BAD.values(), ids=BAD)
def test_what_cannot_be_is_one_sentence_before_anything_is_trained(reproduce, trainings, tmp_path, options, words):
    (tmp_path / "a.csv").write_text("user,item\nann,a\n")
    row = () if "--rows" in options else ("--rows", ROW)
    done = reproduce(*row, *(option.format(csv=tmp_path / "a.csv") for option in options))
    line = done.refusal()
    for word in words:
        assert word in line
    assert trainings == []
    assert not (tmp_path / "out").exists()
