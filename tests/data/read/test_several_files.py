"""Several files as one: folders, patterns, lists, and splits that come as files."""

import numpy as np
import polars as pl
import pytest

import spherec
from spherec.data.read import read_events
from spherec.data.read.formats import Reading, list_files
from spherec.distributed.preparation import prepare_partitions
from spherec.errors import ArgumentError, DataError


@pytest.fixture
def parts(tmp_path):
    """Two parts of one table, a marker of another program, a hidden file and a folder."""
    folder = tmp_path / "plays"
    (folder / "old").mkdir(parents=True)
    (folder / "part-10.csv").write_text("user,item\nu3,a\nu1,c\n")
    (folder / "part-2.csv").write_text("user,item\nu1,a\nu2,b\n")
    (folder / "_SUCCESS").touch()
    (folder / ".part-2.csv.crc").write_text("x")
    return folder


def whole():
    return spherec.Interactions.from_pairs(["u1", "u2", "u3", "u1"], ["a", "b", "a", "c"])


def test_a_folder_a_pattern_and_a_list_are_read_as_one(parts):
    for paths in (
        parts,
        str(parts),
        f"{parts}/part-*.csv",
        f"{parts}/part-[0-9]*.csv",
        [parts / "part-2.csv", str(parts / "part-10.csv")],
        (path for path in (parts / "part-2.csv", parts / "part-10.csv")),
        [f"{parts}/part-?.csv", f"{parts}/part-??.csv"],
    ):
        assert spherec.read(paths) == whole()


def test_files_come_by_name_with_numbers_in_their_order(parts):
    paths = [parts / "part-2.csv", parts / "part-10.csv"]
    assert list_files(parts) == list_files(f"{parts}/*.csv") == paths
    assert list_files(paths[::-1]) == paths[::-1]


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ([], "at least one file"),
        (5, "a path must be text or a Path"),
        (None, "a path must be text"),
        (b"x.csv", "a path must be text"),
        ([5], "a path must be text or a Path.*, got 5"),
        (["part-2.csv", "./part-2.csv"], "each once"),
        ("nothing-*.csv", "no file is in"),
        ("old", "no file is in"),
        ("a\0b", "a path must"),
        ("", "empty"),
    ],
)
def test_paths_that_name_no_files_are_refused(parts, monkeypatch, paths, message):
    monkeypatch.chdir(parts)
    with pytest.raises((ArgumentError, DataError), match=message):
        spherec.read(paths)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ("2.jsonl", "as Parquet"),
        ("2.npz", r"2\.npz is prepared"),
        ("text.parquet", "numbers in some files and texts in others"),
    ],
)
def test_files_of_different_kinds_are_refused(tmp_path, second, said):
    pl.DataFrame({"user": [1], "item": [2]}).write_parquet(tmp_path / "1.parquet")
    path = tmp_path / second
    match path.suffix:
        case ".jsonl":
            path.write_text('{"user": 1, "item": 2}\n')
        case ".npz":
            whole().save(path)
        case _:
            pl.DataFrame({"user": ["1"], "item": ["2"]}).write_parquet(path)
    with pytest.raises(DataError, match=said):
        spherec.read(tmp_path)


def test_values_and_times_are_read_from_all_files_and_merged(tmp_path):
    (tmp_path / "1.csv").write_text("user,item,stars,at\nu,i,1,10\nu,j,5,11\n")
    (tmp_path / "2.csv").write_text("user,item,stars,at\nu,i,5,12\n")
    data = spherec.read(tmp_path, value="stars", time="at", duplicates="last", cut=spherec.Cut(min_value=4))
    assert list(data.item_ids) == ["i", "j"]
    np.testing.assert_array_equal(data.times, [12, 11])


def test_milliseconds_here_and_dates_there_are_refused(tmp_path):
    (tmp_path / "1.csv").write_text("user,item,at\nu,i,1577836800000\n")
    (tmp_path / "2.csv").write_text("user,item,at\nv,j,2021-01-01\n")
    said = r"times from 1609459200 to 1577836800000 are in two units.*bring them to one.*placeholder"
    with pytest.raises(DataError, match=said):
        spherec.read(tmp_path, time="at")
    with pytest.raises(DataError, match=said):  # although users of one partition have one unit
        prepare_partitions(tmp_path, Reading(time="at"), tmp_path / "p", 2)


@pytest.mark.parametrize(
    ("unsigned", "signed", "dtype"),
    [
        ([2**60, 5], [2**60 + 1, -5], np.int64),
        ([2**64 - 1, 5], [2**60 + 1, 2**60], np.uint64),
        ([2**64 - 1, 5], [-1, 5], None),
    ],
)
def test_signed_here_and_unsigned_there_stay_exact(tmp_path, unsigned, signed, dtype):
    for name, users, kind in (("1", unsigned, pl.UInt64), ("2", signed, pl.Int64)):
        frame = pl.DataFrame({"user": pl.Series(users, dtype=kind), "item": [f"{name}a", f"{name}b"]})
        frame.clear().write_parquet(tmp_path / f"{name}-empty.parquet")  # is skipped
        frame.write_parquet(tmp_path / f"{name}.parquet")
    for read in (spherec.read, lambda path: prepare_partitions(path, Reading(), tmp_path / "p", 2).read()):
        if dtype is None:
            with pytest.raises(DataError, match=r"user ids go from below 0 to above.*str\(…\)"):
                read(f"{tmp_path}/*.parquet")
            continue
        data = read(f"{tmp_path}/*.parquet")
        assert (list(data.user_ids), data.user_ids.array.dtype) == (sorted({*unsigned, *signed}), dtype)
        assert data.n_pairs == 4


def test_what_each_file_left_out_is_summed_and_told(tmp_path):
    for number, rows in enumerate(("0 1 2\n1\n", "10 3 11\n2 20\n3\n4\n")):
        (tmp_path / f"{number}.txt").write_text(rows)
    notes = []
    events = read_events(tmp_path, Reading(format="adjacency", report=notes.append))
    told = "read from 2 files, without 3 lines that have no items"
    assert [step.name for step in events.steps] == [told]
    assert notes == [
        f"{tmp_path}/0.txt: read without 1 lines that have no items",
        f"{tmp_path}/1.txt: read without 2 lines that have no items",
    ]
    assert list(events.user_ids) == ["0", "2", "10"], "in the order of numbers"
    assert list(events.item_ids) == ["1", "2", "3", "11", "20"]


def test_least_numbers_of_a_split_in_files_are_refused(tmp_path):
    (tmp_path / "train.csv").write_text("user,item\na,x\na,y\n")
    (tmp_path / "test.csv").write_text("user,item\na,z\n")
    with pytest.raises(ArgumentError, match="min_per_user=1"):
        spherec.splits.given(tmp_path / "train.csv", tmp_path / "test.csv", cut=spherec.Cut(min_per_user=1))


def test_names_in_the_files_need_no_item_column(tmp_path):
    (tmp_path / "1.csv").write_text("userId,movieId,title\nu,1,One\nu,2,Two\n")
    (tmp_path / "2.csv").write_text("userId,movieId,title\nv,3,Three\nv,1,\n")
    assert spherec.read(tmp_path, name="title").item_names == ("One", "Two", "Three")
    (tmp_path / "3.csv").touch()
    assert spherec.read(tmp_path, name="title").item_names == ("One", "Two", "Three")
    with pytest.raises(DataError, match=r"there is no column 'titel'.*did you mean 'title'"):
        spherec.read(tmp_path, name="titel")
    whole().save(tmp_path / "x.npz")
    with pytest.raises(ArgumentError, match=r"is prepared .*leave out name='title'"):
        spherec.read(tmp_path / "x.npz", name="title")
    (tmp_path / "list").write_text("0 5 6 7\n1 8\n")
    with pytest.raises(DataError, match=r"has no column .title."):
        spherec.read(tmp_path / "list", name="title")


def test_files_without_events_among_others_are_skipped_and_named(parts, tmp_path):
    expected = spherec.read(parts)
    (parts / "part-0.csv").touch()
    (parts / "part-3.csv").write_text("user,item\n")
    notes = []
    events = read_events(parts, Reading(report=notes.append))
    assert spherec.Interactions.from_events(events.merge()) == expected
    assert notes == [f"{parts / name}: skipped, because it has no events" for name in ("part-0.csv", "part-3.csv")]
    assert events.steps[0].name == "read from 4 files"
    made = prepare_partitions(parts, Reading(), tmp_path / "p", 2).read()
    assert made == expected
    assert made.steps == events.steps
    for path in parts.glob("*.csv"):
        path.write_text("user,item\n")
    with pytest.raises(DataError, match=r"part-10\.csv has no rows"):
        spherec.read(parts)
    for path in parts.glob("*.csv"):
        path.write_text("")
    with pytest.raises(DataError, match=r"part-10\.csv is empty"):
        spherec.read(parts)
