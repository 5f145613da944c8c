"""Raw files into partitions: the result of reading everything at once, a file and a partition at a time."""

import csv

import numpy as np
import pytest

from spherec.data.cuts import Cut
from spherec.data.partitions import PartitionedInteractions
from spherec.data.readers import partitioning
from spherec.data.readers.formats import read_interactions
from spherec.data.readers.options import Columns, Reading
from spherec.data.readers.partitioning import prepare_partitions
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
        (RATED, {"cut": Cut(min_per_user=6, min_per_item=6, iterate=True)}),
    ],
)
def test_partitions_hold_what_reading_at_once_gives(files, tmp_path, partitions, reading, options):
    ignored = {"on_unread": lambda _: None, "on_uncut": lambda *_: None}
    at_once = read_interactions(files, reading, on_merged=lambda _: None, **ignored, **options)
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
    work = partitioning._Preparation(tmp_path, 2)
    work.add(events[0])
    with pytest.raises(DataError, match="user ids are numbers in some files and texts in others"):
        work.add(events[1])
    timed = partitioning.replace(events[0], times=np.zeros(2))
    with pytest.raises(DataError, match="only some of the files have values or times"):
        work.add(timed)


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
