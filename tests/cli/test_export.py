"""`spherec export`: a file that the next program opens, or one sentence."""

import numpy as np
import polars as pl
import pytest
import torch

from spherec import Interactions
from spherec.artifact import Artifact
from spherec.geometry import DenseVectors
from spherec.training import History, Trained, Training
from tests.export.models import read_copy
from tests.sampling.checks import directions, random_rows

USERS, ITEMS = [f"u{n}" for n in range(20)], [f"i{n}" for n in range(30)]
MATRIX = random_rows(20, 30, 0.3)
DATA = Interactions.from_matrix(MATRIX, user_ids=USERS, item_ids=ITEMS).with_item_names({"i3": "Three"})


def save(path, constraint="sphere", reach=None):
    model = DenseVectors(directions(20, 4, 1), directions(30, 4, 2), constraint, reach, 1.0 if reach is None else 0.6)
    config = Training(dim=4, constraint=constraint, reach=reach is not None, mainstream=model.mainstream)
    trained = Trained(model, config, History(), "all epochs done")
    Artifact.of(trained, DATA).save(path)
    return Artifact.load(path).vectors


@pytest.fixture
def vectors(tmp_path):
    return save(tmp_path / "model.spherec")


@pytest.fixture
def command(spherec, tmp_path, vectors):
    def run(output, *options):
        return spherec("export", tmp_path / "model.spherec", "-o", tmp_path / output, *options)

    return run


def test_items_come_by_the_ending_of_the_file(command, tmp_path, vectors):
    done = command("out.parquet")
    assert done.code == 0
    assert done.out == f"{tmp_path / 'out.parquet'} holds the vectors of 30 items, 4 dimensions\n"
    assert "cosine, dot product or Euclidean distance" in done.err
    frame = pl.read_parquet(tmp_path / "out.parquet")
    assert frame["id"].to_list() == ITEMS
    assert frame["name"].to_list() == [None] * 3 + ["Three"] + [None] * 26
    assert np.array_equal(frame["vector"].to_numpy(), vectors.item_table.numpy())


def test_a_format_by_its_name(command, tmp_path):
    assert "30 items and 20 users" in command("out.bin", "--format", "pgvector", "--what", "both").out
    tables = read_copy((tmp_path / "out.bin").read_bytes())
    assert {name: len(rows) for name, (_, rows) in tables.items()} == {"spherec_items": 30, "spherec_users": 20}


def test_users(command, tmp_path, vectors):
    assert command("out.npz", "--what", "both").code == 0
    with np.load(tmp_path / "out.npz") as arrays:
        assert sorted(arrays) == ["constraint", "item_ids", "item_names", "item_vectors", "user_ids", "user_vectors"]
        assert np.array_equal(arrays["user_vectors"], vectors.user_table.numpy())


def test_where_the_dial_is_is_told(spherec, tmp_path):
    save(tmp_path / "model.spherec", reach=directions(30, 1, 3))

    def told(output, *options):
        return spherec("export", tmp_path / "model.spherec", "-o", tmp_path / output, *options)

    done = told("out.npz", "--what", "both")
    assert "20 users, 6 dimensions" in done.out
    assert "number 5 of a user's vector is mainstream (0.6 by default), the last is 0" in done.err
    done = told("out.usearch", "--what", "users")
    assert ("20 users, 4 dimensions" in done.out, "mainstream" in done.err) == (True, False)


def test_a_part_has_every_mth_item_and_user(command, tmp_path, vectors):
    assert "8 items and 5 users" in command("part.npz", "--part", "1/4", "--what", "both").out
    with np.load(tmp_path / "part.npz") as part:
        assert np.array_equal(part["item_vectors"], vectors.items(torch.arange(1, 30, 4)).numpy())


BAD = {
    "an ending that says nothing": (("out.txt",), ["out.txt", "parquet"]),
    "no folder": (("nowhere/out.npz",), ["nowhere does not exist"]),
    "the model itself": (("model.spherec", "--format", "npz"), ["exists already", "name another file"]),
    "no part": (("out.npz", "--part", "4/4"), ["--part must be J/M with J from 0 to M - 1", "got '4/4'"]),
    "both in an index": (("out.usearch", "--what", "both"), ["items or users, not both"]),
}


@pytest.mark.parametrize(("arguments", "words"), BAD.values(), ids=BAD)
def test_what_cannot_be_exported_is_one_sentence(command, tmp_path, arguments, words):
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    done = command(*arguments)
    line = done.refusal()
    for word in words:
        assert word in line
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
