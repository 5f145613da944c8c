"""Records on disk: whole lines are kept, half ones skipped, others refused; values of users; the environment."""

import json
import math
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from spherec import __version__
from spherec.errors import DataError
from spherec.lab import RecordFile, Trial
from spherec.lab.records import UserValues, environment_of
from tests.lab.tiny import record

USERS = np.array([0, 2, 5])
NDCG = np.array([0.25, 0.5, 1.0])
FIRST, SECOND = (replace(record(fold=fold), run=f"run{fold}", model="ease") for fold in (0, 1))


@pytest.fixture
def two(records):
    """A file with two records."""
    records.add(record(fold=0))
    records.add(record(fold=1, mmr=8.25))
    return records


def test_records_come_back_as_they_were(two, tmp_path):
    assert list(RecordFile(two.path)) == [record(fold=0), record(fold=1, mmr=8.25)]
    assert [json.loads(line)["fold"] for line in two.path.read_text().splitlines()] == [0, 1]
    assert list(RecordFile(tmp_path / "none.jsonl")) == []


def test_a_score_that_is_no_number_is_null_in_the_file_and_nan_again_when_read(records):
    """The MMR of lists that are all empty, on the test fold or of a config that was tried."""
    nan = float("nan")
    records.add(replace(record(mmr=nan), trials=[Trial({"epochs": None}, {"ndcg": 0.1, "mmr": nan})]))
    (line,) = records.path.read_text().splitlines()
    assert "NaN" not in line
    written = json.loads(line)
    assert written["scores"]["mmr"] is written["trials"][0]["scores"]["mmr"] is None
    (read,) = records
    assert math.isnan(read.scores["mmr"])
    assert math.isnan(read.trials[0].scores["mmr"])
    assert read.trials[0].settings == {"epochs": None}, "what was None stays so"
    assert read.curve == record().curve


@pytest.mark.parametrize("junk", [b'{"curve": [{"ep', b"\xff\xfe{}\n", b"[" * 100_000 + b"\n", b"9" * 5000 + b"\n"])
def test_a_line_that_a_kill_left_half_or_that_is_not_json_is_skipped(two, junk):
    with two.path.open("ab") as file:
        file.write(junk)
    assert [one.fold for one in two] == [0, 1]
    two.add(record(fold=2))
    assert [one.fold for one in two] == [0, 1, 2]


@pytest.mark.parametrize("line", ['{"row": "a"}', '{"schema": 2, "model": "a"}', "[1, 2]", "7", "null", '"text"'])
def test_json_that_is_no_record_is_refused_with_its_line(two, line):
    with two.path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match=r"records\.jsonl, line 3"):
        list(two)


def test_lines_written_at_once_do_not_mix(records):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda fold: records.add(record(fold=fold)), range(20)))
    assert sorted(one.fold for one in records) == list(range(20))


def test_values_of_users_come_back_as_they_were(tmp_path):
    values = UserValues(tmp_path)
    values.save(FIRST, USERS, {"ndcg": NDCG})
    values.save(SECOND, USERS[1:], {"ndcg": NDCG[1:] / 2, "mine": NDCG[1:]})
    for kept in (values, UserValues(tmp_path)):
        assert kept.load(FIRST)["user"].tolist() == [0, 2, 5]
        assert kept.load(FIRST)["ndcg"].dtype == np.float32
        assert kept.load(FIRST)["ndcg"].tolist() == NDCG.tolist()
        assert kept.load(SECOND)["ndcg"].tolist() == [0.25, 0.5]
        assert np.isnan(kept.load(FIRST)["mine"]).all(), "a metric that only others have"
    assert values.load(replace(FIRST, run="another")) is None
    values.save(FIRST, USERS, {"ndcg": NDCG / 4})
    assert values.load(FIRST)["ndcg"].tolist() == (NDCG / 4).tolist()
    table = pl.read_parquet(tmp_path / "users.parquet")
    assert table.columns == ["run", "model", "fold", "user", "ndcg", "mine"]


def test_a_damaged_file_of_values_is_named(tmp_path):
    UserValues(tmp_path).save(FIRST, USERS, {"ndcg": NDCG})
    path = tmp_path / "users.parquet"
    whole = path.read_bytes()
    for content in (b"", b"PAR1", whole[: len(whole) // 2], whole[:-4], bytes(len(whole))):
        path.write_bytes(content)
        for use in (lambda: UserValues(tmp_path).load(FIRST), lambda: UserValues(tmp_path).save(SECOND, USERS, {})):
            with pytest.raises(DataError, match=r"users\.parquet"):
                use()


def test_files_of_other_machines_are_read_too(tmp_path):
    UserValues(tmp_path).save(FIRST, USERS, {"ndcg": NDCG})
    (tmp_path / "users.parquet").rename(tmp_path / "users-2.parquet")
    UserValues(tmp_path).save(SECOND, USERS, {"ndcg": NDCG})
    assert all(UserValues(tmp_path).load(result) is not None for result in (FIRST, SECOND))


@pytest.mark.parametrize(
    ("answer", "given", "commit"),
    [("0123456789ab-dirty\n", None, "0123456789ab-dirty"), ("0123", "fedc", "fedc"), (None, None, "unknown")],
)
def test_the_environment_says_versions_device_and_commit(monkeypatch, answer, given, commit):
    def output(command, **_):
        if answer is None:
            raise FileNotFoundError("git")
        return answer

    monkeypatch.setattr(subprocess, "check_output", output)
    monkeypatch.setenv("SPHEREC_COMMIT", given or "")
    found = environment_of(torch.device("cpu"))
    assert found.keys() == {"spherec", "commit", "device", "python", "torch", "numpy"}
    assert (found["commit"], found["spherec"], found["device"][:5]) == (commit, __version__, "CPU, ")
