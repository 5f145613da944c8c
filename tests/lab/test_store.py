"""Records on disk: whole lines are kept, half ones passed over, others refused."""

import json
import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from spherec.errors import DataError
from spherec.lab import RecordFile, Result, Trial
from spherec.lab.paper import PAPER_METRICS
from spherec.lab.store import SCHEMA
from spherec.lab.table import summarize
from tests.lab.tiny import record


@pytest.fixture
def two(records):
    """A file with two records."""
    records.add(record(fold=0))
    records.add(record(fold=1, mmr=8.25))
    return records


def test_records_come_back_as_they_were(two):
    assert list(RecordFile(two.path, Result)) == [record(fold=0), record(fold=1, mmr=8.25)]


def test_a_record_is_a_line_of_json(two):
    assert [json.loads(line)["fold"] for line in two.path.read_text().splitlines()] == [0, 1]


def strictly(line):
    """As readers in other languages take it."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(line, parse_constant=refuse)


def test_a_score_that_is_no_number_is_null_in_the_file_and_nan_again_when_read(records):
    """The MMR of lists that are all empty, on the test fold or of a config that was tried."""
    nan = float("nan")
    records.add(replace(record(mmr=nan), trials=[Trial({"epochs": None}, {"ndcg": 0.1, "mmr": nan})]))
    (line,) = records.path.read_text().splitlines()
    written = strictly(line)
    assert written["scores"]["mmr"] is written["trials"][0]["scores"]["mmr"] is None
    (read,) = records
    assert math.isnan(read.scores["mmr"])
    assert math.isnan(read.trials[0].scores["mmr"])
    assert read.trials[0].settings == {"epochs": None}, "what was None stays so"
    assert read.curve == record().curve
    assert "nan" in str(summarize(records, PAPER_METRICS)[0]["mmr"])


def test_nan_in_files_from_before_is_read(records):
    records.add(record(mmr=-1.5))
    records.path.write_text(records.path.read_text().replace("-1.5", "NaN"))
    (read,) = records
    assert math.isnan(read.scores["mmr"])


def test_a_file_that_is_not_there_holds_nothing(records):
    assert list(records) == []


@pytest.mark.parametrize("left", [1, 10, 200])
def test_a_line_that_a_kill_left_half_is_passed_over(two, left):
    line = two.path.read_bytes().splitlines(keepends=True)[1]
    with two.path.open("ab") as file:
        file.write(line[:left])
    assert [one.fold for one in two] == [0, 1]
    two.add(record(fold=2))
    assert [one.fold for one in two] == [0, 1, 2]


@pytest.mark.parametrize("line", [b"\xff\xfe{}", b"[" * 100_000, b"9" * 5000, b"\0" * 9])
def test_a_line_that_is_no_json_is_passed_over(two, line):
    with two.path.open("ab") as file:
        file.write(line + b"\n")
    two.add(record(fold=2))
    assert [one.fold for one in two] == [0, 1, 2]


def test_a_pipe_is_no_file_of_records(two):
    two.path.unlink()
    os.mkfifo(two.path)
    with pytest.raises(DataError, match="is a pipe or a device"):
        list(two)


def test_a_whole_line_without_its_end_counts_and_stays_whole(two):
    two.path.write_bytes(two.path.read_bytes().rstrip(b"\n"))
    two.add(record(fold=2))
    assert [one.fold for one in two] == [0, 1, 2]


@pytest.mark.parametrize(
    "line",
    [
        '{"row": "a"}',
        '{"colour": "red"}',
        '{"schema": 2, "model": "a"}',
        '{"schema": 99}',
        "[1, 2]",
        "7",
        "null",
        '"text"',
    ],
)
def test_json_that_is_no_record_is_refused_with_its_line(two, line):
    with two.path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match=r"records\.jsonl, line 3 is not a record .*; remove the line"):
        list(two)


def test_lines_written_at_once_do_not_mix(records):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda fold: records.add(record(fold=fold)), range(20)))
    assert sorted(one.fold for one in records) == list(range(20))


def test_the_key_is_what_decides_the_result_and_no_more():
    assert record().key == record(epochs=9, choosing=5.0, mmr=1.0).key
    assert len({record().key, record(fold=1).key, record(row="b").key}) == 3


def test_lines_have_the_schema_they_were_written_with(two):
    assert {json.loads(line)["schema"] for line in two.path.read_text().splitlines()} == {SCHEMA}


def test_a_trial_takes_no_more_room_than_it_needs(records):
    records.add(replace(record(), trials=[Trial({"dim": 4}, {"ndcg": 0.1}, 3)]))
    written = json.loads(records.path.read_text())
    assert written["trials"] == [{"settings": {"dim": 4}, "scores": {"ndcg": 0.1}, "epochs": 3}]
