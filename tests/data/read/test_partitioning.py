"""Raw files into partitions: the result of reading everything at once, a file and a partition at a time."""

import csv
import gzip
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from spherec.data.cuts import Cut
from spherec.data.read import parquet, read_interactions
from spherec.data.read.formats import Reading
from spherec.distributed import preparation
from spherec.distributed.preparation import prepare_partitions
from spherec.errors import DataError, UnreadValuesWarning

RATED = Reading(user="user", item="item", value="value", time="time")
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::spherec.errors.{kind}Warning")
    for kind in ("UnreadValues", "UncutValues", "DuplicatePairs")
]


@pytest.fixture
def files(tmp_path):
    """Three files of events, with repeated pairs in one file and across files."""
    random = np.random.default_rng(0)
    for number in range(3):
        with open(tmp_path / f"{number}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["user", "item", "value", "time", "zero"])
            for _ in range(200):
                user, item = int(40 * random.random() ** 2), int(30 * random.random() ** 2)
                writer.writerow([f"u{user}", f"i{item}", random.integers(1, 6), random.integers(1000), 0])
    return tmp_path / "*.csv"


@pytest.mark.parametrize("partitions", [1, 4, 100])
@pytest.mark.parametrize(
    "reading",
    [
        Reading(),
        Reading(cut=Cut(min_value=2)),
        replace(RATED, duplicates="sum", cut=Cut(min_value=4)),
        replace(RATED, cut=Cut(min_value=3, min_per_user=4, min_per_item=3)),
        replace(RATED, weigh=True, cut=Cut(min_value=3)),
        replace(RATED, cut=Cut(min_per_user=6, min_per_item=6, iterate=True)),
    ],
    ids=str,
)
def test_partitions_hold_what_reading_at_once_gives(files, tmp_path, partitions, reading):
    at_once = read_interactions(files, reading)
    made = prepare_partitions(files, reading, tmp_path / "p", partitions)
    assert made.n_partitions == partitions
    whole = made.read()
    assert whole == at_once
    assert whole.steps == at_once.steps


def test_names_come_by_the_text_of_ids_and_values_that_are_not_read_are_told(files, tmp_path):
    with pytest.warns(UnreadValuesWarning, match="value"):
        made = prepare_partitions(files, Reading(), tmp_path / "p", 2, names={"i3": "Three"}).read()
    names = dict(zip(made.item_ids, made.item_names, strict=True))
    assert {item: name for item, name in names.items() if name} == {"i3": "Three"}
    for row in files.parent.glob("*.csv"):
        row.write_text(row.read_text().replace("zero", "title"))
    inside = prepare_partitions(files, Reading(name="title"), tmp_path / "q", 2).read()
    assert set(inside.item_names) == {"0"}


@pytest.mark.parametrize(
    ("reading", "said"),
    [
        (Reading(cut=Cut(min_per_user=100)), "nothing is left after 'users with >= 100 items'"),
        (Reading(cut=Cut(min_value=1000)), "no value column was named, so events were counted"),
        (Reading(weigh=True), "no values to weigh pairs by"),
        (Reading(value="zero", weigh=True), "got 0"),
    ],
    ids=str,
)
def test_a_failure_is_that_of_reading_at_once_and_leaves_nothing_behind(files, tmp_path, reading, said):
    before = sorted(tmp_path.iterdir())
    messages = []
    for partitions in (1, 7):
        with pytest.raises(DataError, match=said) as raised:
            prepare_partitions(files, reading, tmp_path / "p", partitions)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]
    assert sorted(tmp_path.iterdir()) == before
    with pytest.raises(DataError, match=said):
        read_interactions(files, reading)


def test_one_partition_is_in_memory_at_a_time(files, tmp_path, monkeypatch):
    sizes = []
    merge = preparation.Events.merge
    monkeypatch.setattr(preparation.Events, "merge", lambda self, rule: (sizes.append(len(self)), merge(self, rule))[1])
    prepare_partitions(files, Reading(), tmp_path / "p", 10)
    assert 0 < max(sizes) < 200
    assert sum(sizes) == 600


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
    at_once = read_interactions(path, reading)
    monkeypatch.setattr(parquet, "_ROWS", 70)
    with blocks_of(500):
        whole = prepare_partitions(path, reading, tmp_path / "p", 3).read()
    assert whole == at_once
    assert whole.steps == at_once.steps


@pytest.mark.parametrize(
    ("reading", "extra"),
    [
        (Reading(missing="drop"), ["NA,3,4,5\n", "7,NA,4,5\n", ",3,4,5\n"]),
        (Reading(), ["1,2,3,yesterday\n"]),  # not all cells of a column that was recognised are times
    ],
)
def test_the_end_of_a_file_may_change_what_its_beginning_meant(tmp_path, blocks_of, reading, extra):
    path = _write_rows(tmp_path / "x.csv", extra=extra)
    path.write_text(path.read_text().replace("user,item", "userId,itemId", 1))
    notes = [[], []]
    at_once = read_interactions(path, replace(reading, report=notes[0].append))
    with blocks_of(500):
        whole = prepare_partitions(path, replace(reading, report=notes[1].append), tmp_path / "p", 3).read()
    assert whole == at_once
    assert (whole.steps, notes[1]) == (at_once.steps, notes[0])
