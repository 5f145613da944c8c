"""Files of earlier versions are read, and give the lists that they gave then."""

import json
from pathlib import Path

import pytest

import spherec

FOLDER = Path(__file__).parent / "fixtures"  # made by fixtures/make.py with the code at cd2ac73
LISTS = json.loads((FOLDER / "lists.json").read_text(encoding="utf-8"))


def check(results, name):
    assert len(results) == len(LISTS[name])
    for record, recorded in zip(results.as_dicts(), LISTS[name], strict=True):
        assert record | {"score": None} == recorded | {"score": None}
        assert record["score"] == pytest.approx(recorded["score"], abs=1e-6)  # processors round differently


def test_a_model_file():
    model = spherec.load(FOLDER / "model.spherec", device="cpu")
    check(model.recommend(list(model.data.user_ids), 5), "recommend")
    check(model.recommend_for(["i1", "i2", "i3"], 5), "recommend_for")
    check(model.similar_items("i3", 5), "similar_items")
    assert model.config.dim == 4
    assert len(model.history.epochs) == 3


def test_a_model_file_is_written_as_it_was(tmp_path):
    spherec.load(FOLDER / "model.spherec", device="cpu").save(tmp_path / "again.spherec")
    assert (tmp_path / "again.spherec").read_bytes() == (FOLDER / "model.spherec").read_bytes()


def test_a_data_file(tmp_path):
    data = spherec.Interactions.load(FOLDER / "data.npz")
    assert data == spherec.load(FOLDER / "model.spherec", device="cpu").data
    data.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (FOLDER / "data.npz").read_bytes()
