"""A trained model as a file: what was saved comes back, and nothing else is taken for one."""

from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

from spherec.artifact import Artifact
from spherec.data.container import read_container, write_container
from spherec.data.interactions import Interactions
from spherec.errors import DataError
from spherec.geometry import DenseVectors
from spherec.losses import Softmin
from spherec.sampling import Popularity
from spherec.training import History, Trained, Training
from tests.sampling.checks import directions, random_rows
from tests.training.runs import DATA, same, trained

REACHING = Training(dim=4, subspace_dim=2, reach=True, mainstream=0.25, loss=Softmin(0.2), sampler=Popularity())


def save(path, trained, data):
    Artifact.of(trained, data).save(path)


def untrained(data, dim=4):
    model = DenseVectors(directions(data.n_users, dim, 1), directions(data.n_items, dim, 2))
    return Trained(model, Training(dim=dim), History(), "all epochs done")


def reaching(data):
    """A model with a reach in each of two subspaces."""
    vectors = replace(untrained(data).vectors, item_reach=directions(data.n_items, 2, 3), mainstream=0.25)
    return replace(untrained(data), vectors=vectors, config=REACHING)


# --- What is written comes back --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("kind", ["sphere", "ball", "reach"])
def test_everything_comes_back_bit_by_bit(kind, mmap, tmp_path):
    run, path = reaching(DATA) if kind == "reach" else trained(constraint=kind), tmp_path / "m.spherec"
    save(path, run, DATA)
    loaded, vectors = Artifact.load(path, mmap=mmap), run.vectors
    assert same(loaded.vectors, vectors)
    assert (loaded.vectors.constraint, loaded.vectors.mainstream) == (vectors.constraint, vectors.mainstream)
    assert (loaded.data, loaded.config, loaded.history, loaded.ended) == (DATA, run.config, run.history, run.ended)
    assert loaded.fold_in.temperature == Artifact.of(run, DATA).fold_in.temperature
    loaded.save(tmp_path / "again.spherec")
    assert (tmp_path / "again.spherec").read_bytes() == path.read_bytes()
    arrays = load_file(path)  # safetensors alone reads the vectors
    tables = {"user_vectors": vectors.user_table, "item_vectors": vectors.item_table, "item_reach": vectors.item_reach}
    for name, table in tables.items():
        assert name not in arrays if table is None else np.array_equal(arrays[name], table.numpy())


@pytest.mark.parametrize(
    "names", [None, ("a", None, "—é", None), (None, None, None, None), ("\n", "[b]", '"', "x" * 999)]
)
def test_names_come_back_where_there_are_any(names, tmp_path):
    data = replace(Interactions.from_matrix(random_rows(3, 4, 0.5)), item_names=names)
    save(tmp_path / "m.spherec", untrained(data), data)
    assert Artifact.load(tmp_path / "m.spherec").data.item_names == names


def test_times_are_left_out(tmp_path):
    data = Interactions.from_pairs("abc", "xyz", times=[1.0, 2.0, 3.0])
    save(tmp_path / "m.spherec", untrained(data), data)
    assert Artifact.load(tmp_path / "m.spherec").data == replace(data, times=None)


# --- What is no model ------------------------------------------------------------------------------------------------


ARRAYS = {
    "vectors missing": {"user_vectors": None},
    "too few users": {"indptr": np.zeros(3, np.int64)},
    "vectors without a number": {"item_vectors": np.full((4, 4), np.nan, np.float32)},
    "vectors of two kinds": {"item_vectors": np.zeros((4, 5), np.float32)},
    "vectors of other numbers": {"item_vectors": np.zeros((4, 4))},
    "more user vectors than users": {"user_vectors": np.zeros((9, 4), np.float32)},
    "items out of range": {"indices": np.arange(90, 99, dtype=np.int32)},
}
REACH = {
    "no reach": {"item_reach": None},
    "a reach in three subspaces": {"item_reach": np.zeros((4, 3), np.float32)},
    "a reach of fewer items": {"item_reach": np.zeros((3, 2), np.float32)},
    "an infinite reach": {"item_reach": np.full((4, 2), np.inf, np.float32)},
}
REACH_CONFIGS = {"reach in the ball": {"constraint": "ball"}, "a dial beyond its end": {"mainstream": 1e9}}
MANIFESTS = {
    "no config": {"config": None},
    "an unknown setting": {"config": {"dims": 4}},
    "an unknown kind": {"config": {"sampler": {"kind": "os.system"}}},
    "other dimensions": {"config": {"dim": 8}},
    "a history of words": {"history": ["good"]},
    "a law beyond numbers": {"config": {"dim": 4, "sampler": {"kind": "Popularity", "beta": 1e308}}},
}


@pytest.mark.parametrize(
    ("make", "arrays", "manifest"),
    [
        *((untrained, wrong, {}) for wrong in ARRAYS.values()),
        *((untrained, {}, wrong) for wrong in MANIFESTS.values()),
        *((reaching, wrong, {}) for wrong in REACH.values()),
        *((reaching, {}, {"config": REACHING.to_dict() | wrong}) for wrong in REACH_CONFIGS.values()),
    ],
    ids=[*ARRAYS, *MANIFESTS, *REACH, *REACH_CONFIGS],
)
def test_parts_that_do_not_fit_are_refused(tmp_path, make, arrays, manifest):
    data = Interactions.from_matrix(random_rows(3, 4, 0.6))
    path = tmp_path / "m.spherec"
    save(path, make(data), data)
    right, good = read_container(path, "spherec-model", remedy="")
    assert set(arrays) <= set(right)
    assert set(manifest) <= set(good)
    changed = {name: array for name, array in {**right, **arrays}.items() if array is not None}
    write_container(path, "spherec-model", changed, {**good, **manifest})
    with pytest.raises(DataError, match=r"m\.spherec is damaged .*; train it again"):
        Artifact.load(path)
