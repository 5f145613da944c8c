"""The protocol of the CML family, against plain loops, the papers' own split, and on a tiny folder."""

import gzip
import importlib.util
import math
from collections import defaultdict
from statistics import mean

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spherec.cli import main
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError
from spherec.evaluation.metrics import mean_of
from spherec.geometry import DenseVectors
from spherec.lab import ScoredRanker
from spherec.lab.family import (
    FAMILY_METRICS,
    FamilyComparison,
    find_family_models,
    published_rows,
    rank_test_items,
    split_family,
)
from spherec.lab.models import ComparedModel
from spherec.lab.registry import BASELINES
from spherec.ranking import Ranking
from tests.lab.tiny import CPU, pairs_of, tiny_preset

# --- Metrics ---------------------------------------------------------------------------------------------------------


def figures_of(scores, marks):
    """The figures by plain loops; marks are 1 for training items, 2 for test items."""
    values = defaultdict(list)
    for row, own in zip(scores, marks, strict=True):
        held_out = {item for item, mark in enumerate(own) if mark == 2}
        ranking = sorted((item for item, mark in enumerate(own) if mark != 1), key=lambda item: (-row[item], item))
        for k in (3, 5):
            if len(held_out) >= k:
                hits = [rank for rank, item in enumerate(ranking[:k], start=1) if item in held_out]
                ideal = sum(1 / math.log2(rank + 1) for rank in range(1, k + 1))
                values[f"p@{k}"].append(len(hits) / k)
                values[f"r@{k}"].append(len(hits) / len(held_out))
                values[f"ndcg@{k}"].append(sum(1 / math.log2(rank + 1) for rank in hits) / ideal)
        if len(held_out) >= 3:
            hits = [rank for rank, item in enumerate(ranking, start=1) if item in held_out]
            values["map"].append(sum(found / rank for found, rank in enumerate(hits, start=1)) / len(held_out))
            values["mrr"].append(1 / hits[0])
    return {metric.name: mean(values[metric.name]) if values[metric.name] else math.nan for metric in FAMILY_METRICS}


def measured(model, marks):
    train, test = (Interactions.from_matrix(np.array(marks) == mark) for mark in (1, 2))
    ranks = rank_test_items(model, train, test)
    return {metric.name: mean_of(metric(ranks)) for metric in FAMILY_METRICS}


def tables(cells, columns):
    rows = st.lists(cells, min_size=columns, max_size=columns)
    return st.lists(rows, min_size=4, max_size=4)


SCORES_AND_MARKS = st.integers(1, 12).flatmap(
    lambda n: st.tuples(tables(st.integers(-3, 3), n), tables(st.sampled_from([0, 1, 2, 2]), n))
)


@given(SCORES_AND_MARKS)
def test_figures_are_those_of_plain_loops(drawn):
    scores, marks = drawn
    model = ScoredRanker(lambda users: torch.tensor(scores, dtype=torch.float32)[users], len(scores[0]))
    assert measured(model, marks) == pytest.approx(figures_of(scores, marks), nan_ok=True)


@given(
    st.sampled_from(["sphere", "ball"]),
    tables(st.integers(-2, 2), 2),
    tables(st.integers(-2, 2), 3),
    tables(st.sampled_from([0, 1, 2, 2]), 8),
    st.sampled_from([0.0, 0.5, 1.0]),
)
def test_vectors_are_ranked_by_distance_and_reach(constraint, users, items, marks, share):
    table = [[*row[:2]] for row in items * 2]  # eight items, each there twice, so that there are ties
    reach = [row[2] for row in items * 2]
    scores = [[sum(a * b for a, b in zip(user, item, strict=True)) for item in table] for user in users]
    if constraint == "ball":
        scores = [[one - sum(a * a for a in item) / 2 for one, item in zip(row, table, strict=True)] for row in scores]
    scores = [[one + share * far for one, far in zip(row, reach, strict=True)] for row in scores]
    vectors = DenseVectors(
        torch.tensor(users, dtype=torch.float32),
        torch.tensor(table, dtype=torch.float32),
        constraint,
        torch.tensor(reach, dtype=torch.float32)[:, None],
        share,
    )
    assert measured(vectors, marks) == pytest.approx(figures_of(scores, marks), nan_ok=True)


class Lister:
    """Lists the first items by index, at most 4 of them."""

    def top(self, users, k, *, without):
        items = np.full((len(users), k), -1)
        for row, user in enumerate(users):
            own = without.indices[without.indptr[user] : without.indptr[user + 1]]
            listed = np.setdiff1d(np.arange(k), own)[:4]
            items[row, : len(listed)] = listed
        return Ranking(items, np.zeros(items.shape, dtype=np.float32))


@given(st.integers(1, 12).flatmap(lambda n: tables(st.sampled_from([0, 1, 2, 2]), n)))
def test_what_a_list_does_not_name_comes_behind_it(marks):
    scores = [[-item for item in range(len(row))] for row in marks]
    assert measured(Lister(), marks) == pytest.approx(figures_of(scores, marks), nan_ok=True)


def test_scores_that_are_no_numbers_are_refused():
    model = ScoredRanker(lambda users: torch.full((len(users), 4), torch.nan), 4)
    with pytest.raises(DataError, match="NaN"):
        measured(model, [[1, 2, 2, 2]])


# --- The split -------------------------------------------------------------------------------------------------------


def write(path, users):
    text = "".join(f"{' '.join(map(str, (len(items), *items)))}\n" for items in users)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def legacy_split(users):
    """The papers' split as they wrote it: the global generator, user after user."""
    state, parts, user = np.random.get_state(), ([], [], []), 0  # noqa: NPY002
    np.random.seed(1234)  # noqa: NPY002
    for row in users:
        if len(row) < 5:
            continue
        items = sorted(set(row))
        if len(items) >= 5:
            np.random.shuffle(items)  # noqa: NPY002
            first, second = int(len(items) * 3 / 5), int(len(items) * 1 / 5)
            for part, some in zip(parts, (items[:first], items[first:][:second], items[first + second :]), strict=True):
                part.extend((user, item) for item in some)
        user += 1
    np.random.set_state(state)  # noqa: NPY002
    return [set(part) for part in parts]


@pytest.fixture
def users():
    generator = np.random.default_rng(5)
    drawn = [generator.choice(40, size, replace=False).tolist() for size in generator.integers(1, 30, 60)]
    return [*drawn, [3, 3, 3, 3, 3], [0, 1, 2, 2, 2, 3, 4], [41, 7, 8, 9, 11], [90]]


@pytest.mark.parametrize("ending", ["dat", "dat.gz"])
def test_the_split_is_that_of_the_papers(tmp_path, users, ending):
    parts = split_family(write(tmp_path / f"a.users.{ending}", users))
    assert [pairs_of(part) for part in parts] == legacy_split(users)
    assert {(part.n_users, part.n_items) for part in parts} == {(sum(len(row) >= 5 for row in users), 42)}


def test_real_files_are_split_as_published(shared):
    folder = shared / "data/cml-family"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    spec = importlib.util.spec_from_file_location("split", folder / "split.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = folder / "steam-200k.users.dat.gz"
    parts = split_family(path)
    assert [len(part) for part in parts] == [67_653, 21_728, 25_758]
    state = np.random.get_state()  # noqa: NPY002
    assert [pairs_of(part) for part in parts] == list(map(set, module.split(path)))
    np.random.set_state(state)  # noqa: NPY002


BAD = {
    "a wrong count": "3 1 2\n",
    "an empty line": "\n",
    "a word": "2 1 b\n",
    "below 0": "5 1 2 3 4 -1\n",
    "not text": b"\xff\xfe",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
@pytest.mark.parametrize("ending", ["dat", "dat.gz"])
def test_other_files_are_refused_by_name(tmp_path, text, ending):
    path = tmp_path / f"a.users.{ending}"
    path.write_bytes(text.encode() if isinstance(text, str) else text)  # as .gz it is damaged, too
    with pytest.raises(DataError, match=r"a\.users"):
        split_family(path)


def test_users_must_have_five_items(tmp_path):
    with pytest.raises(ArgumentError, match="5 items"):
        split_family(write(tmp_path / "a.users.dat", [[1, 2, 3, 4], [1, 1, 1, 1, 1]]))


# --- Models and the command ------------------------------------------------------------------------------------------


class Recorder(ComparedModel):
    """Remembers what it was fit on; with x = 1 it ranks by the pairs in `good`, else against them."""

    name, search_space = "recorder", {"x": (0, 1)}

    def __init__(self, good):
        self.good, self.seen = torch.as_tensor(good.matrix.toarray(), dtype=torch.float32), []

    def fit(self, train, settings, context):
        self.seen.append(pairs_of(train))
        return ScoredRanker(lambda users: self.good[users] * (1 if settings["x"] else -1), train.n_items)


def test_settings_are_chosen_on_validation_and_nothing_is_fit_on_more(tmp_path, users, monkeypatch):
    path = write(tmp_path / "a.users.dat", users)
    train, validation, test = split_family(path)
    model = Recorder(validation)
    monkeypatch.setitem(BASELINES, "recorder", model)
    (result,) = FamilyComparison(["recorder"], path, tmp_path / "out").run(device=CPU)
    assert result.settings == {"x": 1}
    assert model.seen == [pairs_of(train)] * 3
    scores = (model.good.numpy(), train.matrix.toarray() + 2 * test.matrix.toarray())
    assert result.scores == pytest.approx(figures_of(*scores)), "validation items stay candidates"


def test_presets_come_as_they_are_or_with_other_dimensions(monkeypatch):
    tiny_preset(monkeypatch)
    models = find_family_models(["two-stage", "two-stage-7", "ease", "two-stage"])
    assert [model.name for model in models] == ["two-stage", "two-stage-7", "ease"]
    assert [model.config.dim for model in models[:2]] == [4, 7]
    assert not any(len(values) > 1 for model in models[:2] for values in model.search_space.values())
    with pytest.raises(ArgumentError, match="two-stag"):
        find_family_models(["two-stag"])


def test_published_figures_are_whole():
    rows = published_rows()
    assert {name: len(some) for name, some in rows.items()} == {"steam-200k": 10, "ml-1m": 10, "citeulike-t": 7}
    best = next(row for row in rows["steam-200k"] if row.model == "DPCML2")
    assert [best["ndcg@3"].mean, best["map"].mean] == [31.22, 24.10]


@pytest.fixture
def reproduce(capsys, monkeypatch, tmp_path):
    """Run `spherec reproduce cml-family` on the folder `sets`; return its exit code and what it printed."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*options):
        given = (
            "reproduce",
            "cml-family",
            "--data",
            str(tmp_path / "sets"),
            "-o",
            str(tmp_path / "out"),
            "--device",
            "cpu",
        )
        with pytest.raises(SystemExit) as ended:
            main([*given, *options])
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


def test_the_command_writes_our_rows_below_the_published(reproduce, tmp_path, users, monkeypatch):
    tiny_preset(monkeypatch)
    (tmp_path / "sets").mkdir()
    write(tmp_path / "sets/steam-200k.users.dat.gz", users)
    write(tmp_path / "sets/mine.users.dat", users[:40])
    code, out, err = reproduce("--rows", "two-stage,ease")
    assert code == 0, err
    page = (tmp_path / "out/cml-family.md").read_text()
    for text in (out, page):
        assert text.index("mine") < text.index("steam-200k") < text.index("DPCML2") < text.rindex("two-stage ")
        assert text.count("of 8") == 2, "nothing is published of mine"
    assert (tmp_path / "out/records.jsonl").read_text().count("\n") == 4
    code, again, err = reproduce("--rows", "ease")
    assert (code, again) == (0, out), "of what is recorded, nothing is lost or run again"
    assert "done" not in err


@pytest.mark.parametrize(("options", "word"), [((), "steam-200k.users.dat"), (("--rows", "eas"), "'eas'")])
def test_what_cannot_be_is_one_sentence(reproduce, tmp_path, users, options, word):
    (tmp_path / "sets").mkdir()
    if options:
        write(tmp_path / "sets/mine.users.dat", users)
    code, out, err = reproduce(*options)
    assert (code, out) == (2, "")
    assert word in err
