"""Values of single users in Parquet, by polars or pyarrow."""

import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from spherec.errors import DataError, MissingPackageError
from spherec.lab.user_values import UserValues
from tests.lab.tiny import record

USERS = np.array([0, 2, 5])
NDCG = np.array([0.25, 0.5, 1.0])
FIRST, SECOND = (replace(record(fold=fold), run=f"run{fold}", model="ease") for fold in (0, 1))


@pytest.fixture(params=["polars", "pyarrow"])
def package(request, monkeypatch):
    """Only this package is installed."""
    for absent in {"polars", "pyarrow"} - {request.param}:
        monkeypatch.setitem(sys.modules, absent, None)
        monkeypatch.setitem(sys.modules, f"{absent}.parquet", None)
    return request.param


def test_values_come_back_as_they_were(tmp_path, package):
    values = UserValues(tmp_path)
    values.save(FIRST, USERS, {"ndcg": NDCG})
    values.save(SECOND, USERS[1:], {"ndcg": NDCG[1:] / 2})
    for kept in (values, UserValues(tmp_path)):
        assert kept.load(FIRST)["user"].tolist() == [0, 2, 5]
        assert kept.load(FIRST)["ndcg"].tolist() == NDCG.tolist()
        assert kept.load(SECOND)["ndcg"].tolist() == [0.25, 0.5]
    assert values.load(replace(FIRST, run="another")) is None


def test_what_one_package_writes_the_other_reads(tmp_path, monkeypatch):
    UserValues(tmp_path).save(FIRST, USERS, {"ndcg": NDCG})
    monkeypatch.setitem(sys.modules, "polars", None)
    assert UserValues(tmp_path).load(FIRST)["ndcg"].dtype == np.float32
    UserValues(tmp_path).save(SECOND, USERS, {"ndcg": NDCG})
    monkeypatch.undo()
    table = pl.read_parquet(tmp_path / "users.parquet")
    assert table.columns == ["run", "model", "fold", "user", "ndcg"]
    assert table.filter(pl.col("run") == "run1").get_column("ndcg").to_list() == NDCG.tolist()


def test_a_metric_that_only_some_have_is_nan_for_the_others(tmp_path):
    values = UserValues(tmp_path)
    values.save(FIRST, USERS, {"ndcg": NDCG})
    values.save(SECOND, USERS, {"ndcg": NDCG, "mine": NDCG})
    assert np.isnan(values.load(FIRST)["mine"]).all()


def test_a_result_that_is_saved_again_has_its_new_values(tmp_path):
    values = UserValues(tmp_path)
    values.save(FIRST, USERS, {"ndcg": NDCG})
    values.save(FIRST, USERS, {"ndcg": NDCG / 4})
    assert values.load(FIRST)["ndcg"].tolist() == (NDCG / 4).tolist()


def test_a_damaged_file_is_one_sentence(tmp_path, package):
    UserValues(tmp_path).save(FIRST, USERS, {"ndcg": NDCG})
    path = tmp_path / "users.parquet"
    whole = path.read_bytes()
    for content in (b"", b"PAR1", whole[: len(whole) // 2], whole[:-4], bytes(len(whole))):
        path.write_bytes(content)
        for use in (lambda: UserValues(tmp_path).load(FIRST), lambda: UserValues(tmp_path).save(SECOND, USERS, {})):
            with pytest.raises(DataError, match=r"users\.parquet is damaged.*; remove it"):
                use()


def test_files_of_other_machines_are_read_too(tmp_path):
    UserValues(tmp_path).save(FIRST, USERS, {"ndcg": NDCG})
    (tmp_path / "users.parquet").rename(tmp_path / "users-2.parquet")
    UserValues(tmp_path).save(SECOND, USERS, {"ndcg": NDCG})
    assert all(UserValues(tmp_path).load(result) is not None for result in (FIRST, SECOND))


def test_without_either_package_it_is_one_sentence(tmp_path, monkeypatch):
    for absent in ("polars", "pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(MissingPackageError, match="needs polars or pyarrow; install one with: pip install polars"):
        UserValues(tmp_path).save(FIRST, USERS, {"ndcg": NDCG})
    assert UserValues(tmp_path).load(FIRST) is None
