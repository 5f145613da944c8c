"""`spherec data`, as a newcomer and as a script would call it."""

import json

import pytest

from spherec import Interactions, datasets, splits
from tests.cli.conftest import COLUMNS


def pairs(data):
    return {(data.user_ids[user], data.item_ids[item]) for user, item in zip(data.users, data.indices, strict=True)}


def test_prepare_writes_what_passes_the_cut(spherec, ratings, tmp_path):
    output = tmp_path / "out.npz"
    done = spherec("data", "prepare", ratings, *COLUMNS, "--min-value", 4, "--min-per-user", 2, "-o", output)
    assert done.code == 0
    assert pairs(Interactions.load(output)) == {("ann", x) for x in "abc"} | {("bob", x) for x in "ab"}
    for step in ("read", "merge repeated pairs (last kept)", "value >= 4", "users with >= 2 items"):
        assert step in done.out


def test_prepare_divides_users_among_files(spherec, ratings, tmp_path):
    (tmp_path / "names.csv").write_text("id,name\na,Anna Karenina\nz,Zorba\n")
    given = ("data", "prepare", ratings, *COLUMNS, "--names", tmp_path / "names.csv")
    assert "1 of 3 items have a name in" in spherec(*given, "--partitions", "2", "-o", tmp_path / "p").err
    assert spherec(*given, "-o", tmp_path / "d.npz").code == 0
    names = {path.stem for path in (tmp_path / "p").iterdir()}
    assert names == {"partitions", "ids", "pairs-0", "pairs-1"}
    stats = [spherec("data", "stats", tmp_path / name, "--json").out for name in ("p", "d.npz")]
    assert stats[0] == stats[1]
    again = spherec(*given, "--partitions", "2", "-o", tmp_path / "p")
    assert "exists already" in again.err


def test_prepare_says_all_of_it_in_json(spherec, ratings, tmp_path):
    done = spherec("data", "prepare", ratings, *COLUMNS, "--min-value", 4, "-o", tmp_path / "out.npz", "--json")
    told = json.loads(done.out)
    assert (told["users"], told["items"], told["pairs"]) == (2, 3, 5)
    assert [step["pairs"] for step in told["steps"]] == [7, 6, 5]
    assert told["output"] == str(tmp_path / "out.npz")


def test_values_that_nobody_asked_for_are_told_once(spherec, ratings, tmp_path):
    for command in (("stats",), ("prepare", "-o", tmp_path / "all.npz"), ("split", "-o", tmp_path / "parts")):
        told = spherec("data", command[0], ratings, *COLUMNS[:4], *command[1:]).err.splitlines()
        assert len([line for line in told if "'stars'" in line]) == 1
        assert len([line for line in told if "repeat" in line]) == (command[0] != "prepare")
    for options in (COLUMNS, (*COLUMNS, "--min-value", 4)):
        assert "'stars'" not in spherec("data", "stats", ratings, *options, "--json").err


def test_prepared_files_can_be_cut_again(spherec, ratings, tmp_path):
    whole, core = tmp_path / "whole.npz", tmp_path / "core.npz"
    spherec("data", "prepare", ratings, *COLUMNS, "-o", whole)
    done = spherec("data", "prepare", whole, "--min-per-user", 2, "--min-per-item", 2, "--iterate", "-o", core)
    assert done.code == 0
    assert pairs(Interactions.load(core)) == {(user, item) for user in ("ann", "bob") for item in "ab"}


def test_stats_of_the_embedded_set_are_the_papers(spherec):
    told = json.loads(spherec("data", "stats", "book-crossing", "--json").out)
    assert (told["users"], told["items"], told["pairs"]) == (3593, 127339, 240020)
    shown = spherec("data", "stats", "book-crossing").out
    assert all(text in shown for text in ("127,339", "0.052 %", "items per user"))


def test_head_shows_raw_events_in_their_order(spherec, ratings):
    done = spherec("data", "prepare", ratings, *COLUMNS, "--head", 2, "--json")
    first, second = json.loads(done.out)
    assert first == {"user": "ann", "item": "a", "value": 2.0, "time": 1704067200.0}
    assert second["item"] == "b"
    assert "ann" in spherec("data", "prepare", ratings, *COLUMNS, "--head", 9).out
    assert spherec("data", "prepare", ratings, *COLUMNS, "--head", 9, "--min-per-user", 2).code == 2


@pytest.mark.parametrize(
    ("options", "tested"),
    [
        (("--by", "ratio", "--test-share", 0.5), None),
        (("--by", "leave-one-out"), 2),
        (("--by", "leave-last-out"), 2),
        (("--by", "time", "--at", "2024-01-06"), 2),
        (("--by", "time", "--test-share", 0.2), 2),
    ],
)
def test_split_writes_two_files(spherec, ratings, tmp_path, options, tested):
    folder = tmp_path / "parts"
    done = spherec("data", "split", ratings, *COLUMNS, "-o", folder, *options)
    assert done.code == 0, done.err
    train, test = (Interactions.load(folder / f"{role}.npz") for role in ("train", "test"))
    assert pairs(train) | pairs(test) == {("ann", x) for x in "abc"} | {("bob", x) for x in "ab"} | {("cem", "a")}
    assert not pairs(train) & pairs(test)
    assert tested is None or len(test) == tested


def test_split_by_cold_items_writes_cold_and_warm_apart(spherec, tmp_path):
    folder = tmp_path / "parts"
    options = ("--by", "cold-items", "--cold-share", 0.1, "--test-share", 0.3, "--seed", 2)
    done = spherec("data", "split", "book-crossing", "-o", folder, *options)
    assert done.code == 0, done.err
    fold = splits.cold_items(datasets.book_crossing(), 0.1, test=0.3, seed=2)
    for role in ("train", "test", "cold", "warm"):
        assert Interactions.load(folder / f"{role}.npz") == getattr(fold, role)


def test_split_into_folds(spherec, tmp_path):
    folder = tmp_path / "folds"
    assert spherec("data", "split", "book-crossing", "-o", folder, "--folds", 3, "--seed", 5).code == 0
    parts = [Interactions.load(folder / f"fold-{index}" / "test.npz") for index in range(3)]
    assert sum(map(len, parts)) == 240_020
    assert parts[0].item_names == datasets.book_crossing().item_names


ODD = ["hello [live]", "[red]rose[/red]", "c[/b]", ":smile:"]


def test_ids_names_and_paths_that_look_like_markup_are_shown_as_they_are(spherec, tmp_path):
    path, names = tmp_path / "a{b}[live].csv", tmp_path / "names.csv"
    path.write_text("user,item\n" + "".join(f"u,{one}\n" for one in ODD))
    names.write_text("id,name\n" + "".join(f"{one},name of {one}\n" for one in ODD))
    prepared, parts = tmp_path / "x[b].npz", tmp_path / "parts[live]"
    assert spherec("data", "prepare", path, "--names", names, "-o", prepared).code == 0
    for shown in (spherec("data", "prepare", one, "--head", 9).out for one in (path, prepared)):
        for one in ODD:
            assert one in shown
    assert f"{parts}/train.npz" in spherec("data", "split", prepared, "--by", "ratio", "-o", parts).out


def test_progress_is_shown_on_a_terminal(spherec, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    path = tmp_path / "a{b}[live].csv"
    path.write_text("user,item\nu,i\n")
    done = spherec("data", "stats", path, "--json")
    assert done.code == 0
    assert "reading a{b}[live].csv" in done.err
    assert json.loads(done.out)["pairs"] == 1


def test_a_table_of_names_has_options_of_its_own(spherec, tmp_path):
    (tmp_path / "u.data").write_text("1\t7\t5\t881250949\n2\t8\t4\t881250949\n")
    (tmp_path / "names").write_bytes("sku,name\n7,é\n8,b\n".encode("latin-1"))
    named = ("--names", tmp_path / "names", "--names-id-column", "sku", "--encoding", "latin-1")
    done = spherec("data", "prepare", tmp_path / "u.data", "-o", tmp_path / "a.npz", *named)
    assert done.code == 0, done.err
    assert Interactions.load(tmp_path / "a.npz").item_names == ("é", "b")


def test_a_given_split_is_read_and_cut_alike(spherec, tmp_path):
    (tmp_path / "train.csv").write_text("who,what,stars\nann,a,5\nann,b,4\nbob,a,5\nbob,c,1\n")
    (tmp_path / "test.csv").write_text("who,what,stars\nann,c,5\nann,a,2\nbob,b,5\nann,d,5\n")
    split = ("data", "split", tmp_path / "train.csv", "--by", "given", "--test", tmp_path / "test.csv", *COLUMNS[:6])
    assert spherec(*split, "--min-value", 4, "-o", tmp_path / "parts").code == 0
    train, test = (Interactions.load(tmp_path / "parts" / f"{role}.npz") for role in ("train", "test"))
    assert pairs(train) == {("ann", "a"), ("ann", "b"), ("bob", "a")}
    assert pairs(test) == {("ann", "c"), ("bob", "b"), ("ann", "d")}


def test_several_files_need_no_quotes(spherec, tmp_path):
    paths = [tmp_path / f"part-{number}.csv" for number in (1, 2)]
    for number, path in enumerate(paths):
        path.write_text(f"uid,iid,title\nu{number},a,A\nu{number},b{number},B\nu{number},,\n")
    done = spherec("data", "prepare", *paths, "-o", tmp_path / "x.npz", "--missing", "drop", "--name-column", "title")
    assert done.code == 0, done.err
    assert f"{paths[1]}: read without 1 rows that have no user or item" in done.err
    data = Interactions.load(tmp_path / "x.npz")
    assert (data.n_users, data.n_items, len(data), data.item_names) == (2, 3, 4, ("A", "B", "B"))
    step = "read as a table from 2 files, without 2 rows that have no user or item"
    assert data.steps[0].name == step
    done = spherec("data", "stats", paths[0], paths[0])
    assert "each once" in done.err
