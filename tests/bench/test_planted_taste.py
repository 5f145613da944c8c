"""Data with planted taste, and the comparison of two trees on it; slowly, of this tree with itself."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def planted_taste():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("planted_taste", ROOT / "benchmarks/planted_taste.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["planted_taste"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["planted_taste"]


def test_as_many_pairs_as_asked_for_and_the_same_at_every_run(planted_taste):
    data, again = (planted_taste.plant(200, 300, 8000) for _ in range(2))
    assert 7900 < len(data) <= 8000
    assert data.n_users == 200
    assert 5 <= data.items_per_user.min() < data.items_per_user.max() <= 151
    np.testing.assert_array_equal(data.indices, again.indices)
    assert not np.array_equal(data.indices, planted_taste.plant(200, 300, 8000, seed=1).indices)


def test_users_who_agree_on_some_items_agree_on_others(planted_taste):
    data = planted_taste.plant(200, 300, 8000)
    table = np.zeros((data.n_users, data.n_items))
    table[data.users, data.indices] = 1
    table -= np.outer(table.sum(1), table.sum(0)) / table.sum()  # without activity and popularity
    halves = [(half @ half.T)[np.triu_indices(200, 1)] for half in (table[:, ::2], table[:, 1::2])]
    assert np.corrcoef(*halves)[0, 1] > 0.3  # 0 without taste


@pytest.mark.slow
def test_this_tree_against_itself(planted_taste, monkeypatch, tmp_path, capsys):
    record = tmp_path / "record.json"
    for name, value in {"USERS": 60, "ITEMS": 80, "PAIRS": 1000}.items():
        monkeypatch.setattr(planted_taste, name, value)
    small = {"preset": "fast", "dim": 8}
    fits = {"this": [{**small, "epochs": 4}], "other": [{**small, "epochs": 4}, {**small, "epochs": 1}]}
    monkeypatch.setattr(planted_taste, "FITS", fits)
    options = ["--other", str(ROOT / "src"), "--threads", "1", "--record", str(record)]
    monkeypatch.setattr(sys, "argv", ["planted_taste.py", *options])
    planted_taste.main()
    figures = json.loads(record.read_text())
    assert figures["this"][0]["ndcg"] == figures["other"][0]["ndcg"] > 0
    assert figures["other"][1]["ndcg"] is None
    said = capsys.readouterr().out
    assert said.count("this tree is as good") == said.count("this tree is done") == 1
