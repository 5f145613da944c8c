"""The file of a checkpoint: whose it is, whether it is whole, and that a new one replaces it whole or not at all."""

import signal
import stat
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from spherec.data.container import read_container, write_container
from spherec.errors import ArgumentError, CheckpointWarning, DataError
from spherec.losses import Hinge, Softmin
from spherec.optim import Adam
from spherec.sampling import Uniform
from spherec.training.checkpoint import remove_checkpoint
from spherec.training.crew import Crew
from tests.sampling.checks import interactions, random_rows
from tests.training.runs import DATA, STEPS, at_step, falling, same, trained, watch

OTHERS = {
    "seed": ({"seed": 1}, "seed is 0, here it is 1"),
    "constraint": ({"constraint": "ball"}, "constraint is sphere, here it is ball"),
    "loss": ({"loss": Hinge(margin=0.5)}, "its loss.margin is 1.0, here it is 0.5"),
    "kind of loss": ({"loss": Softmin()}, "its loss.kind is Hinge, here it is Softmin"),
    "negatives": ({"sampler": Uniform(3)}, "its sampler.negatives is 2, here it is 3"),
    "learning rate": ({"optimizer": Adam(2e-2)}, "its optimizer.learning_rate is 0.01, here it is 0.02"),
    "reach": ({"reach": True}, "reach is False, here it is True"),
    "a pair less": ({"data": DATA.filter(np.arange(len(DATA)) > 0)}, "its data is 20 users, 30 items"),
    "other pairs": ({"data": interactions(random_rows(20, 30, 0.2)[::-1])}, f"{len(DATA)} pairs, checksum"),
    "a user more": ({"data": interactions(np.vstack((random_rows(20, 30, 0.2), np.zeros((1, 30)))))}, "here it is 21"),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.checkpoint"


@pytest.mark.parametrize(("other", "difference"), OTHERS.values(), ids=OTHERS)
def test_the_checkpoint_of_another_run_is_refused(other, difference, path):
    trained(epochs=1, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(DataError) as refused:
        trained(**other, checkpoint=path, resume=True)
    assert str(path) in str(refused.value)
    assert difference in str(refused.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"PK", b"text" * 99], ids=["empty", "two bytes", "text"])
def test_what_is_no_checkpoint_is_refused(content, path):
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"damaged, or another kind of file.*start anew"):
        trained(checkpoint=path, resume=True)


@pytest.mark.parametrize("failing", ["os.fsync", "pathlib.Path.replace"])
def test_a_failed_write_leaves_the_old_checkpoint(failing, path, monkeypatch):
    trained(epochs=1, checkpoint=path)
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(failing, full)
        with pytest.warns(CheckpointWarning, match="no checkpoint in epoch 2: .* No space left on device") as warned:
            result = trained(checkpoint=path, resume=True, checkpoint_seconds=0)
    assert len(warned) == 1, "once for one problem"
    assert same(result.vectors, trained().vectors)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    assert same(trained(checkpoint=path, resume=True).vectors, trained().vectors)


def test_a_disk_that_was_full_for_a_while_costs_a_checkpoint_only(path, monkeypatch):
    whole, calls = Crew.write_checkpoint, iter(range(99))

    def write(*given):
        if next(calls) in (2, 3, 6):
            raise DataError("no room")
        whole(*given)

    monkeypatch.setattr(Crew, "write_checkpoint", write)
    with pytest.warns(CheckpointWarning) as warned:
        trained(checkpoint=path, checkpoint_seconds=0)
    assert len(warned) == 2, "again when it fails again"
    monkeypatch.undo()
    assert same(trained(checkpoint=path, resume=True).vectors, trained().vectors)


def test_a_checkpoint_is_private_and_keeps_its_permissions(path):
    trained(epochs=1, checkpoint=path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    trained(epochs=1, checkpoint=path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_one_run_at_a_time_writes_a_checkpoint(path):
    began, ended = threading.Event(), threading.Event()

    def wait(vectors):
        began.set()
        ended.wait(30)
        return falling(vectors)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(trained, validate=wait, checkpoint=path)
        began.wait(30)
        with pytest.raises(DataError, match=r"another run is writing .*run\.checkpoint"):
            trained(checkpoint=path)
        ended.set()
        assert first.result().ended == "all epochs done"
    assert list(path.parent.iterdir()) == [path]


FORGED = {
    "no history": lambda arrays, manifest: manifest.pop("history"),
    "a record more": lambda arrays, manifest: manifest["history"][0].update(more=1),
    "a missing table": lambda arrays, manifest: arrays.pop("mean"),
    "fewer rows": lambda arrays, manifest: arrays.update(table=arrays["table"][:-1]),
    "another generator": lambda arrays, manifest: arrays.update(generator=arrays["generator"][:9]),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_content_that_does_not_fit_the_run_is_damage(path, forge):
    """All checksums are right."""
    trained(epochs=2, validate=falling, checkpoint=path)
    arrays, manifest = read_container(path, "spherec-checkpoint", remedy="")
    arrays, manifest = dict(arrays), {name: value for name, value in manifest.items() if name != "arrays"}
    forge(arrays, manifest)
    write_container(path, "spherec-checkpoint", arrays, manifest)
    with pytest.raises(DataError, match="start anew"):
        trained(validate=falling, checkpoint=path, resume=True)


@pytest.mark.parametrize("epochs", [1, 2])
def test_fewer_epochs_than_are_done_are_refused(epochs, path, monkeypatch):
    watch(monkeypatch, at_step(2 * STEPS + 2, lambda: signal.raise_signal(signal.SIGINT)))
    trained(checkpoint=path)
    with pytest.raises(ArgumentError, match=rf"epochs is {epochs}, .* has 2 done and epoch 3 begun; give at least 3"):
        trained(checkpoint=path, resume=True, epochs=epochs)
    assert same(trained(checkpoint=path, resume=True).vectors, trained().vectors)


def test_all_parts_are_removed_also_those_that_were_being_written(tmp_path):
    gone = ["m.ck", "m.ck.0-of-2.592c3c57", "m.ck.1-of-2.12345678", ".m.ck.1-of-2.12345678.0a1b2c3d.part"]
    kept = ["m.ck.npz", "m.ck.0-of-2.npz", "m.ck.b", "other.ck.0-of-2.592c3c57"]
    for name in gone + kept:
        (tmp_path / name).touch()
    remove_checkpoint(tmp_path / "m.ck")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
