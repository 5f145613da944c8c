"""Raw files into partitions: the result of reading everything at once, a file and a partition at a time."""

import csv
import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse

from spherec.data.cuts import Cut
from spherec.data.read import parquet
from spherec.data.read.formats import read_interactions
from spherec.data.read.options import Columns, Reading
from spherec.distributed import preparation as partitioning
from spherec.distributed.partitions import PartitionedInteractions
from spherec.distributed.preparation import prepare_partitions
from spherec.errors import DataError

RATED = Reading(columns=Columns("user", "item", "value", "time"))


@pytest.fixture
def files(tmp_path):
    """Three files of events, with repeated pairs in one file and across files."""
    random = np.random.default_rng(0)
    for number in range(3):
        with open(tmp_path / f"{number}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["user", "item", "value", "time"])
            for _ in range(200):
                user, item = int(40 * random.random() ** 2), int(30 * random.random() ** 2)
                writer.writerow([f"u{user}", f"i{item}", random.integers(1, 6), random.integers(1000)])
    return tmp_path / "*.csv"


@pytest.mark.parametrize("partitions", [1, 4, 100])
@pytest.mark.parametrize(
    ("reading", "options"),
    [
        (Reading(), {}),
        (Reading(), {"cut": Cut(min_value=2)}),
        (RATED, {"duplicates": "sum", "cut": Cut(min_value=4)}),
        (RATED, {"cut": Cut(min_value=3, min_per_user=4, min_per_item=3)}),
        (RATED, {"weigh": True, "cut": Cut(min_value=3)}),
        (RATED, {"cut": Cut(min_per_user=6, min_per_item=6, iterate=True)}),
    ],
)
def test_partitions_hold_what_reading_at_once_gives(files, tmp_path, partitions, reading, options):
    at_once = _read_quietly(files, reading, **options)
    made = prepare_partitions(files, reading, tmp_path / "p", partitions, **options)
    assert isinstance(made, PartitionedInteractions)
    assert made.n_partitions == partitions
    whole = made.read()
    assert whole == at_once
    assert whole.steps == at_once.steps
    assert {path.suffix for path in (tmp_path / "p").iterdir()} == {".npz"}


def test_names_come_by_the_text_of_ids(files, tmp_path):
    whole = prepare_partitions(files, Reading(), tmp_path / "p", 2, names={"i3": "Three"}).read()
    assert whole.item_names[whole.item_ids.index_of(["i3"])[0]] == "Three"
    assert sum(map(bool, whole.item_names)) == 1


def test_remarks_are_those_of_reading_at_once(files, tmp_path):
    unread, uncut = [], []
    prepare_partitions(
        files, Reading(), tmp_path / "p", 2, on_unread=unread.append, on_uncut=lambda *_: uncut.append(_)
    )
    assert (unread, uncut) == (["value"], [])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"duplicates": "error"}, "repeat a .user, item. pair"),
        ({"cut": Cut(min_per_user=100)}, "nothing is left after 'users with >= 100 items'"),
        ({"cut": Cut(min_value=1000)}, "no value column was named, so events were counted"),
        ({"weigh": True}, "has no values to weigh pairs by"),
    ],
)
def test_a_failure_leaves_nothing_behind(files, tmp_path, options, said):
    before = sorted(tmp_path.iterdir())
    with pytest.raises(DataError, match=said):
        prepare_partitions(files, Reading(), tmp_path / "p", 2, **options)
    assert sorted(tmp_path.iterdir()) == before


def test_repeats_of_all_partitions_are_counted_before_they_are_refused(files, tmp_path):
    counts = []
    for partitions in (1, 7):
        with pytest.raises(DataError, match=r"\d+ of 600 events repeat a .user, item. pair; merge them") as raised:
            prepare_partitions(files, Reading(), tmp_path / "p", partitions, duplicates="error")
        counts.append(str(raised.value))
    assert counts[0] == counts[1]


def test_files_whose_ids_are_of_other_types_or_whose_columns_differ_are_refused(tmp_path):
    events = [partitioning.Events(*(np.arange(2, dtype=np.int32),) * 2, ids, np.arange(2)) for ids in (
        np.arange(2), np.array(["a", "b"], object))]  # fmt: skip
    work = partitioning._Preparation(tmp_path, 2, 2)
    work.add(0, events[0])
    with pytest.raises(DataError, match="user ids must be all numbers or all texts"):
        work.add(1, events[1])
    timed = partitioning.replace(events[0], times=np.zeros(2))
    with pytest.raises(DataError, match="only some of the files have values or times"):
        work.add(0, timed)


def test_one_file_and_one_partition_are_in_memory_at_a_time(files, tmp_path, monkeypatch):
    largest = [0]
    whole = partitioning._Preparation._change

    def change(self, name, how):
        for _, events in self._raw.read_all(len(self._items)):
            largest[0] = max(largest[0], len(events))
        whole(self, name, how)

    monkeypatch.setattr(partitioning._Preparation, "_change", change)
    prepare_partitions(files, Reading(), tmp_path / "p", 10)
    assert 0 < largest[0] < 200


def _write_rows(path, *, extra=()):
    """Write 300 rows with repeated pairs, as the suffix says; `extra` rows are put in the middle."""
    random = np.random.default_rng(1)
    rows = [(int(random.integers(12)), int(random.integers(20)), int(random.integers(1, 6)), n) for n in range(300)]
    frame = pl.DataFrame(rows, schema=["user", "item", "value", "time"], orient="row")
    match path.name.split(".", 1)[1]:
        case "parquet":
            frame.write_parquet(path, row_group_size=50)
        case "jsonl":
            frame.write_ndjson(path)
        case "csv" | "csv.gz":
            lines = frame.write_csv().splitlines(keepends=True)
            text = "".join([*lines[:200], *extra, *lines[200:]]).encode()
            path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.jsonl", "x.parquet"])
@pytest.mark.parametrize("reading", [Reading(), RATED])
def test_a_file_is_read_in_pieces_with_the_result_of_reading_it_at_once(
    tmp_path, monkeypatch, blocks_of, name, reading
):
    path = _write_rows(tmp_path / name)
    at_once = _read_quietly(path, reading)
    pieces = []
    add = partitioning._Preparation.add
    monkeypatch.setattr(partitioning._Preparation, "add", lambda *given: (pieces.append(len(given[2])), add(*given)))
    monkeypatch.setattr(parquet, "_ROWS", 70)
    with blocks_of(500):
        whole = prepare_partitions(path, reading, tmp_path / "p", 3).read()
    assert whole == at_once
    assert whole.steps == at_once.steps
    assert max(pieces) <= 70
    assert sum(pieces) == 300


@pytest.mark.parametrize(
    ("reading", "extra"),
    [
        (Reading(missing="drop"), ["NA,3,4,5\n", "7,NA,4,5\n", ",3,4,5\n"]),  # NA is no id among numbers
        (Reading(missing="drop"), ["NA,3,4,5\n", "Nora,3,4,5\n"]),  # but one among names
        (Reading(), ["1,2,3,yesterday\n"]),  # not all cells of a column that was recognised are times
    ],
)
def test_the_end_of_a_file_may_change_what_its_beginning_meant(tmp_path, blocks_of, reading, extra):
    path = _write_rows(tmp_path / "x.csv", extra=extra)
    notes = [[], []]
    at_once = _read_quietly(path, replace(reading, report=notes[0].append))
    with blocks_of(500):
        whole = prepare_partitions(path, replace(reading, report=notes[1].append), tmp_path / "p", 3).read()
    assert whole == at_once
    assert (whole.steps, notes[1]) == (at_once.steps, notes[0])


def test_rows_without_ids_are_counted_to_the_end_of_the_file_before_they_are_refused(tmp_path, blocks_of):
    path = _write_rows(tmp_path / "x.csv", extra=["NA,3,4,5\n"] * 9)
    with blocks_of(100), pytest.raises(DataError, match="column 'user' is NA in 9 rows, and a number in all others"):
        prepare_partitions(path, Reading(), tmp_path / "p", 3)


def test_wrong_weights_are_refused_as_in_one_file(tmp_path):
    for extra, said in (["1,2,-100,5\n"], "'1' has item '2' several times, once with -100"), (["z,2,0,5\n"], "got 0"):
        path = _write_rows(tmp_path / "x.csv", extra=extra)
        with pytest.raises(DataError, match=said):
            _read_quietly(path, RATED, weigh=True)
        with pytest.raises(DataError, match=said):
            prepare_partitions(path, RATED, tmp_path / "p", 2, weigh=True)


def test_a_matrix_keeps_the_items_that_nobody_has(tmp_path):
    scipy.sparse.save_npz(tmp_path / "x.npz", scipy.sparse.csr_array([[0, 2, 0, 1], [0, 1, 0, 0]]))
    whole = prepare_partitions(tmp_path / "x.npz", Reading(), tmp_path / "p", 2).read()
    assert whole == _read_quietly(tmp_path / "x.npz", Reading())
    assert whole.n_items == 4


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
def test_a_full_disk_is_named(tmp_path):
    work = partitioning._Preparation(tmp_path, 1, 1)
    work._raw._files = [Path("/dev/full")]
    many = np.arange(10_000, dtype=np.int32)
    with pytest.raises(OSError, match="No space left on device"):
        work.add(0, partitioning.Events(many, many, many, many))


def _read_quietly(path, reading, **options):
    quiet = {"on_unread": lambda _: None, "on_uncut": lambda *_: None, "on_merged": lambda _: None}
    return read_interactions(path, reading, **quiet, **options)
