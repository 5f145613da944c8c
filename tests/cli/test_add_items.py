"""`spherec train --item-features`, `spherec add-items` and `spherec evaluate --cold-items`."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from spherec import load
from spherec.data.output_files import lock_output

GENRES = ["crime", "novel", "poems", "travel"]
SETTINGS = ("--preset", "accurate", "--dim", "16", "--epochs", "30", "--set", "batch_size=64", "--device", "cpu")
SETTINGS += ("--set", "sampler.negatives=30", "--set", "optimizer.learning_rate=0.03")


def write_books(path, numbers):
    rows = [f"{number},{GENRES[number % 4]},{1990 + number % 30}" for number in numbers]
    path.write_text("\n".join(["item_id,genre,year", *rows]) + "\n")
    return path


@pytest.fixture
def folder(tmp_path):
    """Events of readers who have one genre each, and features of 40 books, whose ids are numbers."""
    random = np.random.default_rng(0)
    rows = ["user_id,item_id"]
    for reader in range(48):
        own = random.choice([number for number in range(40) if number % 4 == reader % 4], 6, replace=False)
        rows += [f"{1000 + reader},{number}" for number in own]
    (tmp_path / "events.csv").write_text("\n".join(rows) + "\n")
    write_books(tmp_path / "books.csv", range(40))
    return tmp_path


def test_a_model_learns_from_features_and_takes_new_items(spherec, folder):
    model, new = folder / "m.spherec", write_books(folder / "new.csv", range(36, 48))
    done = spherec("train", folder / "events.csv", "--item-features", folder / "books.csv", "-o", model, *SETTINGS)
    assert done.code == 0, done.err
    assert "features: genre (4), year (1)" in done.err
    assert "features alone" not in done.err
    info = json.loads(spherec("info", model, "--json").out)
    assert (info["item_features"], info["items_with_features"]) == (5, 40)
    assert info["feature_columns"] == {"genre": 4, "year": 1}
    assert "genre (4), year (1)" in spherec("info", model).out
    (folder / "names.csv").write_text("item_id,title\n40,A new murder\n")
    done = spherec("add-items", model, new, "-o", folder / "more.spherec", "--names", folder / "names.csv")
    assert done.code == 0, done.err
    assert "8 new items" in done.out
    assert "4 items of the files are in the model already" in done.err
    lists = json.loads(
        spherec("recommend", folder / "more.spherec", 1000, "--only", "40,41,42,43", "-k", 1, "--json").out
    )
    assert (lists[0]["item"], lists[0]["name"]) in ((40, "A new murder"), ("40", "A new murder"))
    again = spherec("add-items", folder / "more.spherec", new, "-o", folder / "again.spherec")
    assert again.code == 2
    assert "has all 12 items of these files already" in again.err


def test_kinds_and_unknown_content_are_said(spherec, folder):
    model = folder / "m.spherec"
    given = ("train", folder / "events.csv", "--item-features", folder / "books.csv", "-o", model, *SETTINGS)
    done = spherec(*given, "--feature-kind", "year=skip")
    assert "features: genre (4)\n" in done.err
    write_books(folder / "more.csv", range(44))
    done = spherec(*given[:3], folder / "more.csv", *given[4:], "--force")
    assert "4 items are in the features alone, and in the model, too" in done.err
    assert spherec(*given, "--force", "--feature-kind", "year=skip").code == 0
    (folder / "new.csv").write_text("item_id,genre,year\n90,opera,2000\n91,novel,2000\n")
    done = spherec("add-items", model, folder / "new.csv", "-o", folder / "n.spherec")
    assert done.code == 0, done.err
    assert "1 new items" in done.out
    assert "1 new items have no features, and are left out: 90" in done.err.replace(
        "'", ""
    )  # its one column is unknown
    assert "not in training, so ignored or cut: genre: rare or unknown (1)\n" in done.err
    (folder / "new.csv").write_text("item_id,genre,year\n90,opera,2000\n")
    done = spherec("add-items", model, folder / "new.csv", "-o", folder / "x.spherec")
    assert done.code == 2
    assert "no new item of these files has features" in done.err
    for wrong in ("year", "year=colour"):
        done = spherec(*given, "--force", "--feature-kind", wrong)
        assert done.code == 2
        assert (
            f"--feature-kind needs COLUMN=KIND with one of id, number, category, tags, text, skip, got '{wrong}'"
            in (done.err)
        )


def test_what_does_not_fit_is_one_sentence(spherec, folder):
    plain = folder / "plain.spherec"
    spherec("train", folder / "events.csv", "-o", plain, *SETTINGS)
    done = spherec("add-items", plain, folder / "books.csv", "-o", folder / "n.spherec")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "trained without item features; train it again with --item-features" in done.err
    model = folder / "m.spherec"
    spherec("train", folder / "events.csv", "--item-features", folder / "books.csv", "-o", model, *SETTINGS)
    done = spherec("add-items", model, folder / "books.csv", folder / "books.csv", "-o", folder / "n.spherec")
    assert "learned from 1 sources of features, and these files have 2; give, in this order: 1. a table" in done.err
    done = spherec("add-items", model, folder / "books.csv", "-o", model)
    assert "exists already" in done.err
    done = spherec("train", folder / "events.csv", "--item-features", folder / "no.csv", "-o", folder / "x.spherec")
    assert (done.code, "no.csv" in done.err) == (2, True)


WRONG = {
    "name,text\na,b\n": "('name', 'text') is plainly the id of items; item= (--feature-kind NAME=id)",
    "item_id,year\n1,7\n2,old\n3,8\n": "kinds={'year': 'category'}, or --feature-kind year=category",
}


@pytest.mark.parametrize(("content", "words"), WRONG.items(), ids=["id", "number"])
def test_the_remedy_is_one_that_the_command_has(spherec, folder, content, words):
    path = folder / "wrong.dat"
    path.write_text(content)
    kind = ("--feature-kind", "year=number") if "year" in content else ()
    done = spherec("train", folder / "events.csv", "--item-features", path, *kind, "-o", folder / "m.spherec")
    assert done.code == 2
    assert words in done.err


def test_cold_items_are_scored_apart(spherec, folder):
    split = folder / "split"
    assert spherec("data", "split", folder / "events.csv", "--by", "cold-items", "-o", split).code == 0
    parts = ("--train", split / "train.npz", "--test", split / "test.npz", "--cold-items", "-k", "5", "--device", "cpu")
    model = folder / "m.spherec"
    features = ("--item-features", folder / "books.csv")
    assert spherec("train", split / "train.npz", *features, "-o", model, *SETTINGS).code == 0
    recall = json.loads(spherec("evaluate", model, *parts, "--json").out)["cold"]["recall"]
    assert recall > 0.9
    table = spherec("evaluate", model, *parts)
    assert "8 cold items" in table.err
    assert f"{100 * recall:.2f}" in table.out
    swapped = ("--train", split / "test.npz", "--test", split / "train.npz", "--cold-items")
    assert spherec("evaluate", model, *swapped).code == 2


def test_options_go_to_the_tables_that_have_the_column(spherec, folder):
    """A table of genres, one of years with ids in another column, and counts of words by position."""
    (folder / "years.csv").write_text("book,year\n" + "".join(f"{number},{1990 + number}\n" for number in range(40)))
    write_books(folder / "genres.csv", range(40))
    counts = np.hstack((np.tile(np.eye(4), (10, 1)), 2 * np.resize(np.eye(3), (40, 3))))
    sp.save_npz(folder / "words.npz", sp.csr_array(counts))
    files = [folder / name for name in ("genres.csv", "years.csv", "words.npz")]
    given = [word for path in files for word in ("--item-features", path)]
    model = folder / "m.spherec"
    train = ("train", folder / "events.csv", *given, "-o", model, *SETTINGS)
    done = spherec(*train, "--feature-kind", "book=id", "--feature-kind", "genre=skip")
    assert done.code == 0, done.err
    assert "features: year (2), words (7)" in done.err
    done = spherec(*train, "--force", "--feature-kind", "book=id", "--feature-kind", "colour=skip")
    assert done.code == 2
    assert "--feature-kind: there is no column 'colour', only 'item_id', 'genre'" in done.err

    write_books(folder / "genres.csv", [40])
    (folder / "years.csv").write_text("book,year\n40,1999\n")
    sp.save_npz(folder / "words.npz", sp.csr_array(([1], ([40], [2])), shape=(42, 7)))  # known rows may be empty
    add = ("add-items", model, *files, "-o", folder / "more.spherec")
    done = spherec(*add)
    assert done.code == 0, done.err
    assert "1 new items" in done.out
    assert "1 new items have no features, and are left out: '41'" in done.err


def write_features(folder, numbers):
    """A table and a matrix with features of the items up to the last of these numbers; positions are ids."""
    rows = np.eye(4)[[number % 4 for number in range(numbers[-1] + 1)]] * 2.0
    np.save(folder / "features.npy", rows)
    return [write_books(folder / "features.csv", numbers), folder / "features.npy"]


@pytest.mark.parametrize("ids", ["texts", "numbers"])
def test_every_command_takes_tables_and_matrices(spherec, folder, ids):
    """The ids of a CSV are texts, those of a matrix numbers; either way row 3 of a matrix is the item 3."""
    events, model = folder / "events.csv", folder / "m.spherec"
    if ids == "numbers":
        events = folder / "events.parquet"
        users, items = np.nonzero(np.tile(np.eye(4), (12, 10)))
        pl.DataFrame({"user": users, "item": items}).write_parquet(events)
    files = write_features(folder, range(40))
    given = [word for path in files for word in ("--item-features", path)]
    done = spherec("train", events, *given, "-o", model, *SETTINGS[:4], "--epochs", "1", "--device", "cpu")
    assert done.code == 0, done.err
    known = load(model)
    assert known.artifact.features.known.all()
    assert {type(item) for item in known.data.item_ids} == {str if ids == "texts" else int}
    compared = ("--models", "content-knn", "-o", folder / "out", "--only-fold", "0", "--device", "cpu")
    done = spherec("compare", events, *given, *compared)
    assert done.code == 0, done.err
    files = write_features(folder, range(36, 43))
    done = spherec("add-items", model, *files, "-o", folder / "more.spherec")
    assert done.code == 0, done.err
    assert "3 new items" in done.out
    more = load(folder / "more.spherec")
    assert more.data.item_ids[40:] == (["40", "41", "42"] if ids == "texts" else [40, 41, 42])


def test_one_run_at_a_time_adds_to_a_file(spherec, folder):
    model = folder / "m.spherec"
    spherec("train", folder / "events.csv", "--item-features", folder / "books.csv", "-o", model, *SETTINGS)
    new = write_books(folder / "new.csv", range(40, 42))
    with ThreadPoolExecutor(1) as pool, lock_output(model):
        done = pool.submit(spherec, "add-items", model, new, "-o", model, "--force").result()
    assert done.code == 2
    assert "another run is writing" in done.err
    assert load(model).data.n_items == 40
