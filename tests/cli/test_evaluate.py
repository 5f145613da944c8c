"""`spherec evaluate`: our models and the lists of others, by the same numbers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from spherec import Interactions, splits
from spherec.artifact import Artifact
from spherec.evaluation import METRICS as BUILT_IN
from spherec.evaluation import evaluate
from spherec.geometry import DenseVectors
from spherec.ranking import ExactRanker
from spherec.training import History, Trained, Training
from tests.oracles import pairs_of
from tests.sampling.checks import directions, random_rows

USERS, ITEMS = [f"u{n}" for n in range(20)], [f"i{n}" for n in range(30)]
DATA = Interactions.from_matrix(random_rows(20, 30, 0.3), user_ids=USERS, item_ids=ITEMS)
FOLD = splits.ratio(DATA, 0.3, seed=1)
MODEL = DenseVectors(directions(20, 4, 1), directions(30, 4, 2))
METRICS = ["map", "ndcg", "recall", "precision", "hit_rate", "mrr", "mmr", "popularity", "coverage", "gini"]
METRICS += ["novelty", "ild"]
COUNTS = ["k", "users", "users_without_test_items"]


def write_pairs(path, data, names=("user", "item")):
    rows = sorted(pairs_of(data))[::-1]
    path.write_text("\n".join([",".join(names), *(",".join(pair) for pair in rows)]) + "\n")
    return path


def write_lists(path, k, names=("user", "item", "rank"), data=FOLD.train):
    ranking = ExactRanker(MODEL).top(np.arange(20), k, without=data).items
    rows = [
        f"{USERS[user]},{ITEMS[item]},{rank}" for user, row in enumerate(ranking) for rank, item in enumerate(row, 1)
    ]
    path.write_text("\n".join([",".join(names), *rows[::-1]]) + "\n")
    return path


@pytest.fixture
def files(tmp_path):
    """model.spherec, train.npz and test.npz."""
    FOLD.train.save(tmp_path / "train.npz")
    FOLD.test.save(tmp_path / "test.npz")
    trained = Trained(MODEL, Training(dim=4), History(), "all epochs done")
    Artifact.of(trained, FOLD.train).save(tmp_path / "model.spherec")
    return tmp_path


@pytest.fixture
def command(spherec, files):
    """Run `spherec evaluate` on these files, others where they are named."""

    def run(model="model.spherec", train="train.npz", test="test.npz", *options):
        return spherec("evaluate", files / model, "--train", files / train, "--test", files / test, *options)

    return run


def expected(k=50, model=MODEL):
    scores = evaluate(model, FOLD.train, FOLD.test, k=k)
    return scores.summary() | {
        "k": k,
        "users": len(scores.per_user.users),
        "users_without_test_items": scores.users_without,
    }


@pytest.mark.parametrize("k", [5, 50])
def test_a_script_gets_all_numbers(command, k):
    given = ("-k", k) if k != 50 else ()
    told = json.loads(command("model.spherec", "train.npz", "test.npz", *given, "--json").out)
    assert set(told) == {*METRICS, *COUNTS}
    assert told == pytest.approx(expected(k), abs=1e-6)


def test_a_reader_gets_a_table(command):
    done = command("model.spherec", "train.npz", "test.npz", "-k", 5)
    assert done.code == 0
    for label in ("MAP@5", "NDCG@5", "Recall@5", "Precision@5", "HitRate@5", "MRR@5", "MMR@5", "Gini", "catalogue"):
        assert label in done.out
    numbers = expected(5)
    for metric in BUILT_IN:
        value = numbers[metric.name]
        assert (f"{100 * value:.2f} %" if metric.percent else f"{value:.4f}") in done.out, "the unit of tables"
    assert "model.spherec" in done.out


def test_users_with_nothing_held_out_are_mentioned(command, files):
    few = FOLD.test.filter(FOLD.test.users < 3)
    few.save(files / "few.npz")
    done = command("model.spherec", "train.npz", "few.npz")
    assert f"{20 - len(set(few.users))} users have nothing held out" in done.err


@pytest.mark.parametrize(
    ("model", "train"),
    [("model.spherec", "train.csv"), ("model.spherec", "train.npz"), ("lists.csv", "train.csv")],
    ids=["two tables", "a prepared file and a table", "lists of another program"],
)
def test_tables_are_read_by_their_columns(command, files, model, train):
    names = ("who", "what", "place")
    write_lists(files / "lists.csv", 5, names)
    write_pairs(files / "train.csv", FOLD.train, names[:2])
    write_pairs(files / "test.csv", FOLD.test, names[:2])
    columns = ("--user-column", "who", "--item-column", "what", "--rank-column", "place")
    told = json.loads(command(model, train, "test.csv", "-k", 3, "--json", *columns).out)
    assert told == pytest.approx(expected(3), abs=1e-6)


BAD = {
    "a dial that does nothing": (
        ("model.spherec", "train.npz", "test.npz", "--mainstream", 0.5),
        ["mainstream has no effect", "this model has no reach"],
    ),
    "no model": (("no.npz", "train.npz", "test.npz"), ["no.npz"]),
    "no train": (("model.spherec", "no.npz", "test.npz"), ["no.npz"]),
    "no test": (("model.spherec", "train.npz", "no.csv"), ["no.csv"]),
    "train for model": (("train.npz", "train.npz", "test.npz"), ["not 'spherec-model'", "right file"]),
    "wrong column of a table": (("model.spherec", "pairs.csv", "test.npz"), ["'user'", "'who'"]),
    "wrong column of lists": (
        ("lists.csv", "train.npz", "test.npz", "--rank-column", "place"),
        ["'place'", "'rank'"],
    ),
    "lists without ranks": (("pairs.csv", "train.npz", "test.npz", "--user-column", "who"), ["'rank'"]),
    "train and test the same": (("model.spherec", "train.npz", "train.npz"), ["in both train and test"]),
    "no length": (("model.spherec", "train.npz", "test.npz", "-k", 0), ["k must be a whole number >= 1, got 0"]),
    "a folder": ((".", "train.npz", "test.npz"), ["folder"]),
}


@pytest.mark.parametrize(("arguments", "words"), BAD.values(), ids=BAD)
def test_what_cannot_be_evaluated_is_one_sentence(command, files, arguments, words):
    write_lists(files / "lists.csv", 5)
    write_pairs(files / "pairs.csv", FOLD.train, ("who", "item"))
    before = sorted(files.iterdir())
    done = command(*arguments)
    line = done.refusal()
    for word in words:
        assert word in line
    assert sorted(files.iterdir()) == before


@pytest.mark.parametrize("missing", ["--train", "--test"])
def test_both_parts_must_be_named(spherec, files, missing):
    other = {"--train": "--test", "--test": "--train"}[missing]
    done = spherec("evaluate", files / "model.spherec", other, files / "train.npz")
    assert (done.code, done.out) == (2, "")
    assert missing in done.err


@pytest.mark.slow
def test_processes_of_torchrun_evaluate_together_and_one_prints(command, files):
    words = ["evaluate", "model.spherec", "--train", "train.npz", "--test", "test.npz", "--json", "--device", "cpu"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3", "--standalone", "-m", "spherec"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*torchrun, *words], cwd=files, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(command("model.spherec", "train.npz", "test.npz", "--json").out)
