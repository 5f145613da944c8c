"""Records on disk: whole lines are kept, half ones passed over, others refused."""

import json
import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from spherec.errors import DataError
from spherec.lab import RecordFile, Result, Trial, store
from spherec.lab.paper import PAPER_METRICS
from spherec.lab.store import SCHEMA, TrialRecord
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


# --- Older lines and renamed things -----------------------------------------------------------------------------------

CONFIG = {"dim": 4, "loss": {"kind": "Hinge", "margin": 1.0}, "optimizer": {"kind": "Adam", "schedule": "cosine"}}
OF_COMPARISON = {
    "model": "accurate",
    "is_ours": True,
    "fold": 1,
    "identity": {"base": {**CONFIG, "judged": "at the end"}, "data": "d", "k": 5},
    "settings": {"epochs": 7, "dim": 8},
    "trials": [
        {"settings": {"dim": 8}, "refit": {"dim": 8, "epochs": 7}, "scores": {"ndcg": 0.2}, "failed": ""},
        {"settings": {"dim": 4}, "refit": {}, "scores": {}, "failed": "no"},
    ],
    "scores": {"ndcg": 0.1, "mmr": None},
    "fit_seconds": 2.0,
    "peak_mb": 1.5,
    "peak_of": "resident in the process",
    "choosing_seconds": 3.0,
    "environment": {"commit": "abc"},
}
OF_PAPER = {
    "experiment": "book-crossing",
    "row": "uniform-1-256",
    "fold": 2,
    "identity": {"choices": [CONFIG, {**CONFIG, "loss": {"kind": "Hinge", "margin": 2.0}}], "k": 50},
    "epochs": 9,
    "training": {**CONFIG, "loss": {"kind": "Hinge", "margin": 2.0}},
    "tried": [
        {"training": CONFIG, "epochs": 5, "scores": {"ndcg": 0.1}},
        {"training": {**CONFIG, "loss": {"kind": "Hinge", "margin": 2.0}}, "epochs": 9, "scores": {"ndcg": 0.2}},
    ],
    "scores": {"ndcg": 0.3},
    "curve": [{"epoch": 1, "metric": 0.1}],
    "seconds": {"choosing": 1.0, "training": 2.0, "testing": 3.0},
    "environment": {"commit": "abc"},
    "digest": "00",
}


def read(path, *lines, kind=Result):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return list(RecordFile(path, kind))


def test_lines_have_the_schema_they_were_written_with(two):
    assert {json.loads(line)["schema"] for line in two.path.read_text().splitlines()} == {SCHEMA}


def test_comparisons_of_the_first_schema_are_read(records):
    (result,) = read(records.path, OF_COMPARISON)
    assert (result.study, result.model, result.fold) == ("compare", "accurate", 1)
    assert result.identity == {"base": CONFIG, "data": "d", "k": 5}, "how a schedule is judged is no setting any more"
    assert result.trials == [Trial({"dim": 8}, {"ndcg": 0.2}, 7), Trial({"dim": 4}, failed="no")]
    assert result.trials[0].refit == {"dim": 8, "epochs": 7}
    assert result.seconds == {"choosing": 3.0, "training": 2.0}
    assert math.isnan(result.scores["mmr"])
    records.path.unlink()
    records.add(result)
    assert [one.key for one in records] == [result.key]


def test_a_schedule_that_was_not_judged_at_its_end_is_another_run(records):
    early = {**OF_COMPARISON, "identity": {**OF_COMPARISON["identity"], "base": CONFIG}}
    first, second = read(records.path, OF_COMPARISON, early)
    assert first.key != second.key


def test_rows_of_the_first_schema_are_read(records):
    (result,) = read(records.path, OF_PAPER)
    assert (result.study, result.model, result.fold) == ("book-crossing", "uniform-1-256", 2)
    assert result.identity == OF_PAPER["identity"]
    assert result.settings == {"loss.margin": 2.0, "epochs": 9}
    assert result.trials == [Trial({}, {"ndcg": 0.1}, 5), Trial({"loss.margin": 2.0}, {"ndcg": 0.2}, 9)]
    assert (result.curve, result.seconds, result.digest) == (OF_PAPER["curve"], OF_PAPER["seconds"], "00")


def test_trials_of_the_first_schema_are_read(records):
    trial = {name: OF_COMPARISON[name] for name in ("model", "fold", "identity", "environment")}
    trial |= {**OF_COMPARISON["trials"][0], "seconds": 4.0}
    (read_back,) = read(records.path, trial, kind=TrialRecord)
    assert read_back.trial == Trial({"dim": 8}, {"ndcg": 0.2}, 7, 4.0)
    assert read_back.identity["base"] == CONFIG


def test_renamed_classes_and_settings_are_found_again(records, monkeypatch):
    monkeypatch.setitem(store.RENAMED_CLASSES, "Hinge", "Triplet")
    monkeypatch.setitem(store.RENAMED_SETTINGS, "loss.margin", "loss.gap")
    monkeypatch.setitem(store.RENAMED_SETTINGS, "dim", "dimensions")
    row, comparison = read(records.path, OF_PAPER, OF_COMPARISON)
    assert row.identity["choices"][1]["loss"] == {"kind": "Triplet", "gap": 2.0}
    assert row.settings == {"loss.gap": 2.0, "epochs": 9}
    assert row.trials[1].settings == {"loss.gap": 2.0}
    assert comparison.identity["base"]["dimensions"] == 4
    assert comparison.settings == {"epochs": 7, "dimensions": 8}


def test_a_trial_takes_no_more_room_than_it_needs(records):
    records.add(replace(record(), trials=[Trial({"dim": 4}, {"ndcg": 0.1}, 3)]))
    written = json.loads(records.path.read_text())
    assert written["trials"] == [{"settings": {"dim": 4}, "scores": {"ndcg": 0.1}, "epochs": 3}]
