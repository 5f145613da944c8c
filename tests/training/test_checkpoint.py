"""The file of a checkpoint: whose it is, whether it is whole, and that a new one replaces it whole or not at all."""

import json
from dataclasses import replace

import numpy as np
import pytest

from spherec.errors import DataError
from spherec.losses import Hinge, Softmin
from spherec.optim import Adam
from spherec.sampling import Hard, Uniform
from tests.sampling.checks import interactions, random_rows
from tests.training.runs import DATA, facts, falling, matrix, same, start, trained

EMPTY = np.zeros((1, 30))
OTHERS = {
    "seed": ({"seed": 1}, ["seed is 0, here it is 1"]),
    "dim": ({"dim": 9}, ["dim is 8, here it is 9"]),
    "constraint": ({"constraint": "ball"}, ["constraint is sphere, here it is ball"]),
    "loss": ({"loss": Hinge(margin=0.5)}, ["its loss is", "'margin': 1.0", "'margin': 0.5"]),
    "kind of loss": ({"loss": Softmin()}, ["its loss is", "Hinge", "Softmin"]),
    "negatives": ({"sampler": Uniform(3)}, ["its sampler is", "'negatives': 2", "'negatives': 3"]),
    "kind of sampler": ({"sampler": Hard(2)}, ["its sampler is", "Uniform", "Hard"]),
    "learning rate": ({"optimizer": Adam(2e-2)}, ["its optimizer is", "0.01", "0.02"]),
    "covariance": ({"covariance": 0.5}, ["covariance is 0.0, here it is 0.5"]),
    "spread out": ({"spread_out": 0.5}, ["spread_out is 0.0, here it is 0.5"]),
    "batch size": ({"batch_size": 17}, ["batch_size is 16, here it is 17"]),
    "validation": ({"validate_every": 2}, ["validate_every is 1, here it is 2"]),
    "initial vectors": ({"initial": start()}, ["its initial is None", "checksum"]),
    "a pair less": ({"data": DATA.filter(np.arange(len(DATA)) > 0)}, ["its data is", "20 users, 30 items"]),
    "as many other pairs": (
        {"data": interactions(random_rows(20, 30, 0.2)[::-1])},
        ["its data is", f"{len(DATA)} pairs", "checksum"],
    ),
    "a user more": ({"data": interactions(np.vstack((random_rows(20, 30, 0.2), EMPTY)))}, ["its data is", "21 users"]),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.checkpoint"


@pytest.mark.parametrize(("other", "words"), OTHERS.values(), ids=OTHERS)
def test_the_checkpoint_of_another_run_is_refused(other, words, path):
    trained(epochs=1, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(DataError) as refused:
        trained(**other, checkpoint=path, resume=True)
    for word in (str(path), "another run", "start anew", *words):
        assert word in str(refused.value)
    assert path.read_bytes() == before


def test_other_initial_vectors_are_another_run(path):
    trained(epochs=1, checkpoint=path, initial=start())
    moved = replace(start(), item_table=-start().item_table)
    with pytest.raises(DataError, match="its initial is checksum"):
        trained(checkpoint=path, resume=True, initial=moved)
    assert len(trained(checkpoint=path, resume=True, initial=start()).history.epochs) == 3


@pytest.mark.parametrize("content", [b"", b"PK", b"text" * 99], ids=["empty", "two bytes", "text"])
def test_what_is_no_checkpoint_is_refused(content, path):
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"damaged or not made by spherec.*start anew"):
        trained(checkpoint=path, resume=True)


def test_another_file_of_spherec_is_refused(path):
    DATA.save(path)
    with pytest.raises(DataError, match="'spherec-interactions', not 'spherec-checkpoint'"):
        trained(checkpoint=path, resume=True)


@pytest.fixture
def small(path):
    """A finished run on little data, for its checkpoint is to be read many times: the run, how to go on, the bytes."""
    settings = {
        "data": matrix([1, 0, 1], [0, 1, 1]),
        "dim": 2,
        "epochs": 2,
        "validate": lambda _: 1,
        "checkpoint": path,
    }
    return trained(**settings), lambda: trained(**settings, resume=True), path.read_bytes()


def test_a_truncated_checkpoint_is_refused(small, path):
    _, resume, whole = small
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match="start anew"):
            resume()


def test_a_flipped_byte_is_noticed_or_harmless(small, path):
    result, resume, whole = small
    noticed, directory = 0, whole.index(b"PK\1\2")
    for place in [*range(0, directory, 151), *range(directory, len(whole), 13)]:
        for flip in (0x01, 0xFF):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
            try:
                again = resume()
            except DataError:
                noticed += 1
                continue
            assert same(again.vectors, result.vectors)
            assert facts(again.history) == facts(result.history)
    assert noticed > 100


def test_a_checkpoint_is_plain_arrays_without_pickle(path):
    trained(epochs=1, checkpoint=path, validate=falling)
    with np.load(path, allow_pickle=False) as arrays:
        manifest = json.loads(arrays["manifest"].tobytes())
        assert manifest["format"] == "spherec-checkpoint"
        assert manifest["identity"]["seed"] == 0
        assert [record["epoch"] for record in manifest["history"]] == [1]
        assert {"best_users", "best_items", "generator"} <= set(arrays)


@pytest.mark.parametrize("failing", ["os.fsync", "spherec.data.files.npy.write_array", "pathlib.Path.replace"])
def test_a_failed_write_leaves_the_old_checkpoint(failing, path, monkeypatch):
    trained(epochs=1, checkpoint=path)
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(failing, full)
        with pytest.raises(DataError, match="No space left on device"):
            trained(checkpoint=path, resume=True, checkpoint_seconds=0)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    assert same(trained(checkpoint=path, resume=True).vectors, trained().vectors)
