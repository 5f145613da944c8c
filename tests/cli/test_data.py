"""`spherec data`, as a newcomer and as a script would call it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from spherec import Interactions, datasets, splits
from spherec.cli._source import NamesTable, Source
from spherec.distributed.partitions import PartitionedInteractions
from spherec.errors import DataError
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
    given = ("data", "prepare", ratings, *COLUMNS)
    assert spherec(*given, "--partitions", "2", "-o", tmp_path / "p").code == 0
    assert spherec(*given, "-o", tmp_path / "d.npz").code == 0
    assert {path.name for path in (tmp_path / "p").iterdir()} == {"index.npz", "ids.npz", "pairs-0.npz", "pairs-1.npz"}
    stats = [spherec("data", "stats", tmp_path / name, "--json").out for name in ("p", "d.npz")]
    assert stats[0] == stats[1]
    again = spherec(*given, "--partitions", "2", "-o", tmp_path / "p")
    assert "exists already" in again.err
    refused = spherec(*given, "--partitions", "2", "--compress", "-o", tmp_path / "q")
    assert refused.code == 2
    assert "leave out --compress" in refused.err


def test_prepare_says_how_many_items_of_partitions_have_a_name(spherec, ratings, tmp_path):
    (tmp_path / "names.csv").write_text("id,name\na,Anna Karenina\nz,Zorba\n")
    given = ("data", "prepare", ratings, *COLUMNS, "--names", tmp_path / "names.csv")
    said = [
        spherec(*given, *how).err for how in (["-o", tmp_path / "d.npz"], ["--partitions", 2, "-o", tmp_path / "p"])
    ]
    for text in said:
        assert "1 of 3 items have a name in" in text


def test_partitions_keep_weights(spherec, ratings, tmp_path):
    given = ("data", "prepare", ratings, *COLUMNS, "--weigh")
    assert spherec(*given, "--partitions", 2, "-o", tmp_path / "p").code == 0
    assert spherec(*given, "-o", tmp_path / "d.npz").code == 0
    data = Interactions.load(tmp_path / "d.npz")
    assert data.weights is not None
    assert PartitionedInteractions.open(tmp_path / "p").read() == data
    source = Source(data=[str(tmp_path / "p")])
    for weigh, is_weighed in ((None, True), (True, True), (False, False)):
        assert replace(source, weigh=weigh).open_partitions(NamesTable()).is_weighed == is_weighed
    assert spherec(*given[:-1], "--partitions", 2, "-o", tmp_path / "q").code == 0
    with pytest.raises(DataError, match="was prepared without weights"):
        replace(source, data=[str(tmp_path / "q")], weigh=True).open_partitions(NamesTable())


def test_prepare_says_all_of_it_in_json(spherec, ratings, tmp_path):
    done = spherec("data", "prepare", ratings, *COLUMNS, "--min-value", 4, "-o", tmp_path / "out.npz", "--json")
    told = json.loads(done.out)
    assert (told["users"], told["items"], told["pairs"]) == (2, 3, 5)
    assert [step["pairs"] for step in told["steps"]] == [7, 6, 5]
    assert told["output"] == str(tmp_path / "out.npz")


UNREAD = "column 'stars' is not read, and every row counts as a positive"


def test_values_that_nobody_asked_for_are_told_beside_the_result(spherec, ratings, tmp_path):
    columns = COLUMNS[:4]
    for command in (("stats", "--json"), ("prepare", "-o", tmp_path / "all.npz", "--json")):
        done = spherec("data", command[0], ratings, *columns, *command[1:])
        (line,) = done.err.splitlines()
        assert line.startswith(f"{ratings}: {UNREAD}; ")
        assert line.endswith(" with e.g. --value-column stars --min-value 4, or weigh pairs by them with --weigh")
        assert json.loads(done.out)["pairs"] == 6
    for options in (COLUMNS, (*columns, "--min-value", 1), (*COLUMNS, "--min-value", 4)):
        assert spherec("data", "stats", ratings, *options, "--json").err == ""
    assert spherec("data", "stats", tmp_path / "all.npz", "--json").err == ""
    (tmp_path / "ratings.dat").write_text("1::2::5::9\n1::3::1::9\n2::3::4::9\n")
    (_, line) = spherec("data", "stats", tmp_path / "ratings.dat", "--json").err.splitlines()
    assert line.endswith(" with e.g. --min-value 4, or weigh pairs by them with --weigh")


def test_repeated_pairs_are_told_where_no_table_of_steps_is_shown(spherec, ratings, tmp_path):
    quick = ("--device", "cpu", "--set", "sampler.kind=Uniform", "--set", "epochs=1", "--set", "dim=2")
    commands = {
        "train": ("train", ratings, "-o", tmp_path / "m.spherec", "--validation", 0, *quick),
        "tune": ("tune", ratings, "-o", tmp_path / "m.toml", "--validation", 0.5, "--trials", 1, *quick),
        "compare": ("compare", ratings, "--models", "most-popular", "--folds", 2, "-o", tmp_path / "compared"),
        "split": ("data", "split", ratings, "-o", tmp_path / "parts"),
    }
    for name, command in commands.items():
        done = spherec(*command, *COLUMNS)
        assert done.code == 0, done.err
        assert done.err.count(f"{ratings}: 1 repeated pair merged; choose how with --duplicates\n") == 1, name
    chosen = spherec("data", "split", ratings, "-o", tmp_path / "chosen", *COLUMNS, "--duplicates", "sum")
    shown = spherec("data", "stats", ratings, *COLUMNS)
    movielens = tmp_path / "u.data"
    movielens.write_text("1\t2\t5\t0\n1\t2\t4\t1\n1\t3\t4\t1\n")
    known = spherec("data", "split", movielens, "--format", "movielens", "--folds", 2, "-o", tmp_path / "known")
    for done in (chosen, shown, known):
        assert done.code == 0, done.err
        assert "merged; choose how" not in done.err


def test_evaluate_chooses_how_repeated_pairs_are_merged(spherec, tmp_path):
    train, test, lists = (tmp_path / f"{name}.csv" for name in ("train", "test", "lists"))
    train.write_text("user,item\na,x\na,x\nb,y\n")
    test.write_text("user,item\na,y\n")
    lists.write_text("user,item,rank\na,y,1\n")
    done = spherec("evaluate", lists, "--train", train, "--test", test)
    assert done.code == 0, done.err
    assert f"{train}: 1 repeated pair merged; choose how with --duplicates" in done.err
    assert "repeat" in spherec("evaluate", lists, "--train", train, "--test", test, "--duplicates", "error").err


def test_the_advice_can_be_pasted(spherec, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("user,item,User Rating\nann,a,5\nbob,b,1\n")
    assert "--value-column 'User Rating' --min-value 4" in spherec("data", "stats", path).err


def test_prepare_adds_names(spherec, ratings, tmp_path):
    names = tmp_path / "names.tsv"
    names.write_text('sku\ttitle\na\tThe "A"\nc\tSea\n')
    output = tmp_path / "out.npz"
    done = spherec(
        *("data", "prepare", ratings, *COLUMNS, "-o", output),
        *("--names", names, "--names-id-column", "sku", "--names-column", "title"),
    )
    assert "2 of 3 items have a name" in done.err
    assert Interactions.load(output).item_names == ('The "A"', None, "Sea")


def test_prepared_files_can_be_cut_again(spherec, ratings, tmp_path):
    whole, core = tmp_path / "whole.npz", tmp_path / "core.npz"
    spherec("data", "prepare", ratings, *COLUMNS, "-o", whole)
    done = spherec("data", "prepare", whole, "--min-per-user", 2, "--min-per-item", 2, "--iterate", "-o", core)
    assert done.code == 0
    assert pairs(Interactions.load(core)) == {(user, item) for user in ("ann", "bob") for item in "ab"}


def test_stats_of_the_embedded_set_stand_beside_the_paper(spherec):
    done = spherec("data", "stats", "book-crossing")
    assert "paper, Table 1" in done.out
    assert done.out.count("127,339") >= 2
    assert "94,226  ████" in done.out  # items with a single reader
    told = json.loads(spherec("data", "stats", "book-crossing", "--json").out)
    assert (told["users"], told["items"], told["pairs"]) == (3593, 127339, 240020)
    assert told["paper"] == {"users": 3593, "items": 127339, "pairs": 240020, "density_percent": 0.052}


def test_a_cut_of_the_embedded_set_is_no_longer_the_papers(spherec):
    told = json.loads(spherec("data", "stats", "book-crossing", "--min-per-item", 2, "--json").out)
    assert "paper" not in told


def test_preset_options_can_be_overridden(spherec, tmp_path):
    plays = tmp_path / "train_triplets.txt"
    plays.write_text("".join(f"u{user}\ts{song}\t{5 if song else 1}\n" for user in range(2) for song in range(3)))
    told = json.loads(
        spherec(
            *("data", "stats", plays, "--paper-cut", "echonest", "--json"), *("--min-per-user", 2, "--min-per-item", 2)
        ).out
    )
    assert (told["users"], told["items"], told["pairs"]) == (2, 2, 4)
    assert told["paper"]["users"] == 31521


def test_head_shows_raw_events_in_their_order(spherec, ratings):
    done = spherec("data", "head", ratings, *COLUMNS, "-n", 2, "--json")
    first, second = json.loads(done.out)
    assert first == {"user": "ann", "item": "a", "value": 2.0, "time": 1704067200.0}
    assert second["item"] == "b"
    assert "ann" in spherec("data", "head", ratings, *COLUMNS).out


def test_head_of_prepared_data_shows_names(spherec):
    (record,) = json.loads(spherec("data", "head", "book-crossing", "-n", 1, "--json").out)
    assert set(record) == {"user", "item", "name"}


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
    done = spherec("data", "split", ratings, *COLUMNS, "-o", folder, *options, "--json")
    assert done.code == 0, done.err
    train, test = (Interactions.load(folder / f"{role}.npz") for role in ("train", "test"))
    assert pairs(train) | pairs(test) == {("ann", x) for x in "abc"} | {("bob", x) for x in "ab"} | {("cem", "a")}
    assert not pairs(train) & pairs(test)
    assert tested is None or len(test) == tested
    assert [row["pairs"] for row in json.loads(done.out)] == [len(train), len(test)]


def test_split_by_cold_items_writes_cold_and_warm_apart(spherec, tmp_path):
    folder = tmp_path / "parts"
    options = ("--by", "cold-items", "--cold-share", 0.1, "--test-share", 0.3, "--seed", 2)
    done = spherec("data", "split", "book-crossing", "-o", folder, *options, "--json")
    assert done.code == 0, done.err
    fold = splits.cold_items(datasets.book_crossing(), 0.1, test=0.3, seed=2)
    for role in ("train", "test", "cold", "warm"):
        assert Interactions.load(folder / f"{role}.npz") == getattr(fold, role)
    names = [Path(row["path"]).name for row in json.loads(done.out)]
    assert names == ["train.npz", "test.npz", "cold.npz", "warm.npz"]
    refused = spherec("data", "split", "book-crossing", "-o", tmp_path / "x", "--by", "ratio", "--cold-share", 0.1)
    assert refused.code == 2
    assert "--by ratio does not use --cold-share" in refused.err


def test_split_into_folds(spherec, tmp_path):
    folder = tmp_path / "folds"
    assert spherec("data", "split", "book-crossing", "-o", folder, "--folds", 3, "--seed", 5).code == 0
    parts = [Interactions.load(folder / f"fold-{index}" / "test.npz") for index in range(3)]
    assert sum(map(len, parts)) == 240_020
    assert parts[0].item_names == datasets.book_crossing().item_names


def test_split_as_given_shares_indices(spherec, tmp_path):
    for name, text in (("train.txt", "0 1 2\n1 2\n"), ("test.txt", "0 5\n2 1\n")):
        (tmp_path / name).write_text(text)
    folder = tmp_path / "parts"
    done = spherec(
        *("data", "split", tmp_path / "train.txt", "--format", "adjacency", "--by", "given"),
        *("--test", tmp_path / "test.txt", "-o", folder),
    )
    assert done.code == 0, done.err
    train, test = (Interactions.load(folder / f"{role}.npz") for role in ("train", "test"))
    assert train.user_ids == test.user_ids
    assert list(train.item_ids) == ["1", "2", "5"]


ODD = ["hello [live]", "[red]rose[/red]", "c[/b]", ":smile:"]


def test_ids_names_and_paths_that_look_like_markup_are_shown_as_they_are(spherec, tmp_path):
    path, names = tmp_path / "a{b}[live].csv", tmp_path / "names.csv"
    path.write_text("user,item\n" + "".join(f"u,{one}\n" for one in ODD))
    names.write_text("id,name\n" + "".join(f"{one},name of {one}\n" for one in ODD))
    prepared, parts = tmp_path / "x[b].npz", tmp_path / "parts[live]"
    assert spherec("data", "prepare", path, "--names", names, "-o", prepared).code == 0
    for shown in (spherec("data", "head", path).out, spherec("data", "head", prepared).out):
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


def test_parts_of_a_split_say_what_they_are(spherec, tmp_path):
    folder = tmp_path / "folds"
    spherec("data", "split", "book-crossing", "-o", folder, "--seed", 3)
    steps = json.loads(spherec("data", "stats", folder / "fold-2" / "test.npz", "--json").out)["steps"]
    assert steps[-1]["name"] == "test part of split: fold 2 of 4, seed 3"
    assert steps[-1]["pairs"] == 60_005


def test_names_of_book_crossing_need_no_columns(spherec, tmp_path):
    ratings, books = tmp_path / "ratings.csv", tmp_path / "books.csv"
    ratings.write_text('"User-ID";"ISBN";"Book-Rating"\n"1";"x";"5"\n')
    books.write_text('"ISBN";"Book-Title";"Book-Author"\n"x";"T";"A"\n')
    spherec("data", "prepare", ratings, "--format", "book-crossing", "--names", books, "-o", tmp_path / "b.npz")
    assert Interactions.load(tmp_path / "b.npz").item_names == ("T — A",)


def test_a_table_of_names_has_options_of_its_own(spherec, tmp_path):
    (tmp_path / "u.data").write_text("1\t7\t5\t881250949\n2\t8\t4\t881250949\n")
    (tmp_path / "names").write_bytes("7~é\n8~b\n".encode("latin-1"))
    named = ("--names", tmp_path / "names", "--names-header", "id,name", "--names-separator", "~")
    done = spherec(
        "data", "prepare", tmp_path / "u.data", "-o", tmp_path / "a.npz", *named, "--names-encoding", "latin-1"
    )
    assert done.code == 0, done.err
    assert Interactions.load(tmp_path / "a.npz").item_names == ("é", "b")
    done = spherec("data", "prepare", tmp_path / "u.data", "-o", tmp_path / "b.npz", "--names-header", "id,name")
    assert done.code == 2
    assert "--names-header need --names" in done.err


def test_items_that_nobody_has_come_from_a_file(spherec, tmp_path):
    (tmp_path / "train.txt").write_text("0 5 6 7\n1 8\n")
    (tmp_path / "items").write_text("5\n6\n7\n8\n9\n")
    words = ("data", "prepare", tmp_path / "train.txt", "--items-file", tmp_path / "items", "-o", tmp_path / "a.npz")
    assert spherec(*words).code == 0
    assert list(Interactions.load(tmp_path / "a.npz").item_ids) == ["5", "6", "7", "8", "9"]


def test_a_given_split_is_read_and_cut_alike(spherec, tmp_path):
    (tmp_path / "train.csv").write_text("who,what,stars,title\nann,a,5,A\nann,b,4,B\nbob,a,5,A\nbob,c,1,C\n")
    (tmp_path / "test.csv").write_text("who,what,stars,title\nann,c,5,C\nann,a,2,A\nbob,b,5,B\nann,d,5,D\n")
    options = ("--user-column", "who", "--item-column", "what", "--value-column", "stars", "--name-column", "title")
    split = ("data", "split", tmp_path / "train.csv", "--by", "given", "--test", tmp_path / "test.csv", *options)
    assert spherec(*split, "--min-value", 4, "-o", tmp_path / "by-value").code == 0
    train, test = (Interactions.load(tmp_path / "by-value" / f"{role}.npz") for role in ("train", "test"))
    assert pairs(train) == {("ann", "a"), ("ann", "b"), ("bob", "a")}
    assert pairs(test) == {("ann", "c"), ("bob", "b"), ("ann", "d")}
    assert train.item_names == test.item_names == ("A", "B", "C", None), "d has no name in DATA"
    assert spherec(*split, "--min-value", 4, "--min-per-user", 2, "-o", tmp_path / "by-count").code == 2
    assert spherec(*split, "--min-per-user", 2, "--min-per-item", 2, "-o", tmp_path / "by-count").code == 2


def test_least_numbers_of_a_given_split_leave_its_users_and_items_in_the_test_part(spherec, tmp_path):
    (tmp_path / "train.csv").write_text("user,item\nann,a\nann,b\nbob,a\ncy,a\ncy,b\n")
    (tmp_path / "test.csv").write_text("user,item\nann,c\nbob,b\ncy,c\ndi,a\n")
    split = ("data", "split", tmp_path / "train.csv", "--by", "given", "--test", tmp_path / "test.csv")
    done = spherec(*split, "--min-per-user", 1, "-o", tmp_path / "x", "--json")
    assert done.code == 0, done.err
    assert "1 of 4 test pairs have a user and an item that the cut left in the train part" in done.err
    test = Interactions.load(tmp_path / "x/test.npz")
    assert pairs(test) == {("bob", "b")}
    assert list(test.user_ids) == ["ann", "bob", "cy"]
    assert list(test.item_ids) == ["a", "b"]


def test_several_files_need_no_quotes(spherec, tmp_path):
    paths = [tmp_path / f"part-{number}.csv" for number in (1, 2)]
    for number, path in enumerate(paths):
        path.write_text(f"uid,iid,title\nu{number},a,A\nu{number},b{number},B\nu{number},,\n")
    done = spherec("data", "prepare", *paths, "-o", tmp_path / "x.npz", "--missing", "drop", "--name-column", "title")
    assert done.code == 0, done.err
    assert f"2 files are read as one: {paths[0]}, {paths[1]}" in done.err
    assert f"{paths[1]}: read without 1 rows that have no user or item" in done.err
    data = Interactions.load(tmp_path / "x.npz")
    assert (data.n_users, data.n_items, len(data), data.item_names) == (2, 3, 4, ("A", "B", "B"))
    step = "read as a table from 2 files (2 in part-1.csv, 2 in part-2.csv), without 2 rows that have no user or item"
    assert data.steps[0].name == step
    for words in (("stats",), ("head",), ("split", "-o", tmp_path / "s", "--folds", 2)):
        assert spherec("data", *words, *paths, "--missing", "drop").code == 0
    done = spherec("data", "stats", paths[0], paths[0])
    assert "is given twice" in done.err


def test_split_takes_names(spherec, tmp_path):
    (tmp_path / "a.csv").write_text("user,item\nann,a\nann,b\nbob,a\nbob,b\n")
    (tmp_path / "names.csv").write_text("id,name\na,Alpha\n")
    done = spherec(
        "data", "split", tmp_path / "a.csv", "--by", "ratio", "--names", tmp_path / "names.csv", "-o", tmp_path / "s"
    )
    assert "1 of 2 items have a name" in done.err
    assert Interactions.load(tmp_path / "s/test.npz").item_names == ("Alpha", None)
