"""A trained model as a file: what was saved comes back, and nothing else is taken for one."""

import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from spherec import artifact
from spherec.data.interactions import Interactions
from spherec.errors import DataError
from spherec.evaluation import evaluate
from spherec.model import MetricModel
from spherec.ranking import ExactRanker
from spherec.sampling import Uniform
from spherec.training import EpochRecord, History, Trained, Training
from tests.oracles import typed
from tests.sampling.checks import directions, random_rows
from tests.strategies import distinct_ids
from tests.training.runs import DATA, QUICK, same_vectors, trained


@pytest.fixture(params=["sphere", "ball"])
def config(request):
    return replace(QUICK, constraint=request.param)


@pytest.fixture
def run(config):
    return trained(constraint=config.constraint)


@pytest.fixture
def saved(run, config, tmp_path):
    artifact.save(tmp_path / "model.npz", run, DATA)
    return tmp_path / "model.npz"


def untrained(data, dim=4):
    model = MetricModel(directions(data.n_users, dim, 1), directions(data.n_items, dim, 2))
    return Trained(model, Training(dim=dim), History(), "all epochs done")


# --- What is written comes back --------------------------------------------------------------------------------------


def test_vectors_come_back_bit_by_bit(saved, run, config):
    vectors = artifact.load(saved).vectors
    assert vectors.constraint == config.constraint
    assert same_vectors(vectors, run.model.vectors)


def test_the_loaded_model_makes_the_same_lists(saved, run):
    held_out = Interactions.from_matrix(1 - DATA.matrix.toarray())
    own, loaded = (evaluate(one, DATA, held_out, k=9) for one in (run.model, ExactRanker(artifact.load(saved).vectors)))
    assert loaded.summary() == own.summary()


def test_data_and_manifest_come_back(saved, run, config):
    loaded = artifact.load(saved)
    assert loaded.data == DATA
    assert loaded.manifest["config"] == config.described()
    assert History.from_records(loaded.manifest["history"]) == run.history
    assert loaded.manifest["ended"] == run.ended


def test_loading_gives_a_model_that_may_be_changed(saved):
    before = saved.read_bytes()
    artifact.load(saved).vectors.user_table.zero_()
    assert saved.read_bytes() == before


@settings(max_examples=30)
@given(users=distinct_ids(min_size=1), items=distinct_ids(min_size=1))
def test_ids_of_any_kind_come_back(users, items, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any_ids_model.npz"
    data = Interactions.from_matrix(np.ones((len(users), len(items))), user_ids=users, item_ids=items)
    artifact.save(path, untrained(data), data)
    loaded = artifact.load(path).data
    assert typed(list(loaded.user_ids)) == typed(users)
    assert typed(list(loaded.item_ids)) == typed(items)


@pytest.mark.parametrize(
    "names", [None, ("a", None, "—é", None), (None, None, None, None), ("\n", "[b]", '"', "x" * 999)]
)
def test_names_come_back_where_there_are_any(names, tmp_path):
    data = replace(Interactions.from_matrix(random_rows(3, 4, 0.5)), item_names=names)
    artifact.save(tmp_path / "m.npz", untrained(data), data)
    assert artifact.load(tmp_path / "m.npz").data.item_names == names


def test_times_are_left_out(tmp_path):
    data = Interactions.from_pairs("abc", "xyz", times=[1.0, 2.0, 3.0])
    artifact.save(tmp_path / "m.npz", untrained(data), data)
    assert artifact.load(tmp_path / "m.npz").data == replace(data, times=None)


def test_an_epoch_without_a_metric_comes_back(tmp_path):
    data = Interactions.from_matrix(np.eye(3))
    epochs = tuple(EpochRecord(n, 3, 0.5, 0.1, 1.0, 0.0, 9.5, metric) for n, metric in ((1, None), (2, 0.25)))
    config = Training(dim=4, sampler=Uniform(2))
    artifact.save(tmp_path / "m.npz", replace(untrained(data), config=config, history=History(epochs)), data)
    manifest = artifact.load(tmp_path / "m.npz").manifest
    assert History.from_records(manifest["history"]).epochs == epochs
    assert manifest["config"] == config.described()


def test_numpy_alone_reads_the_vectors(saved, run):
    with np.load(saved, allow_pickle=False) as arrays:
        assert np.array_equal(arrays["user_vectors"], run.model.vectors.user_table.numpy())
        assert np.array_equal(arrays["item_vectors"], run.model.vectors.item_table.numpy())


# --- What is no model ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.6, 0.9, 0.999])
def test_a_truncated_file_is_refused(saved, share):
    saved.write_bytes(saved.read_bytes()[: int(share * saved.stat().st_size)])
    with pytest.raises(DataError, match=r"model\.npz"):
        artifact.load(saved)


def test_a_flipped_byte_is_refused_or_changes_nothing(tmp_path):
    data = Interactions.from_matrix(random_rows(3, 4, 0.6))
    path = tmp_path / "model.npz"
    artifact.save(path, untrained(data), data)
    whole, before = path.read_bytes(), artifact.load(path)
    refused = 0
    for place in range(0, len(whole), max(len(whole) // 150, 1)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            after = artifact.load(path)
        except DataError:
            refused += 1
        else:  # a date or a flag in the zip
            assert after.data == before.data
            assert torch.equal(after.vectors.item_table, before.vectors.item_table)
            assert after.manifest == before.manifest
    assert refused > 50


def test_interactions_are_no_model(tmp_path):
    DATA.save(tmp_path / "data.npz")
    with pytest.raises(DataError, match=r"holds 'spherec-interactions', not 'spherec-model'; give the right file"):
        artifact.load(tmp_path / "data.npz")


def test_a_model_is_no_interactions(saved):
    with pytest.raises(DataError, match="holds 'spherec-model'"):
        Interactions.load(saved)


@pytest.mark.parametrize("content", [b"", b"user,item\nann,a\n", bytes(500)])
def test_other_files_are_no_models(tmp_path, content):
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"x\.npz is damaged or not made by spherec"):
        artifact.load(tmp_path / "x.npz")


def test_an_npz_from_elsewhere_is_no_model(tmp_path):
    np.savez(tmp_path / "x.npz", user_vectors=np.zeros((2, 3)), item_vectors=np.zeros((2, 3)))
    with pytest.raises(DataError, match="not made by spherec"):
        artifact.load(tmp_path / "x.npz")


@pytest.mark.parametrize("path", ["no-such.npz", "."])
def test_what_is_not_there_is_an_error(tmp_path, path):
    with pytest.raises(DataError, match="cannot read"):
        artifact.load(tmp_path / path)


WRONG = {
    "vectors missing": {"user_vectors": None},
    "ids missing": {"item_ids": None},
    "too few users": {"indptr": np.zeros(3, np.int64)},
    "vectors without a number": {"item_vectors": np.full((4, 4), np.nan, np.float32)},
    "vectors of two kinds": {"item_vectors": np.zeros((4, 5), np.float32)},
    "vectors of other numbers": {"item_vectors": np.zeros((4, 4))},
    "more user vectors than users": {"user_vectors": np.zeros((9, 4), np.float32)},
    "fewer item vectors than items": {"item_vectors": np.zeros((2, 4), np.float32)},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
def test_parts_that_do_not_fit_are_refused(tmp_path, changes, monkeypatch):
    data = Interactions.from_matrix(random_rows(3, 4, 0.6))
    write = artifact.archive.write

    def wrongly(path, arrays, manifest, **options):
        assert set(changes) <= set(arrays)
        changed = {name: changes.get(name, array) for name, array in arrays.items()}
        write(path, {name: array for name, array in changed.items() if array is not None}, manifest, **options)

    monkeypatch.setattr(artifact.archive, "write", wrongly)
    artifact.save(tmp_path / "m.npz", untrained(data), data)
    assert zipfile.is_zipfile(tmp_path / "m.npz")
    with pytest.raises(DataError, match=r"m\.npz is damaged .*; train it again"):
        artifact.load(tmp_path / "m.npz")
