"""The map of the items: shape, the same again, what is near in the space stays near, its file."""

import numpy as np
import pytest
import torch

from spherec.errors import DataError
from spherec.geometry import DenseVectors, unit
from spherec.item_map import ItemMap, MapSettings, find_near

QUICK = MapSettings(landmarks=120, sweeps=60)


def planted(clusters=6, each=50, dim=16, seed=0):
    """Vectors of items in clusters, the clusters (I,) and popularities (I,)."""
    drawn = np.random.default_rng(seed)
    centres = drawn.standard_normal((clusters, dim))
    cluster = drawn.permutation(np.repeat(np.arange(clusters), each))  # (I,)
    rows = centres[cluster] + 0.3 * drawn.standard_normal((len(cluster), dim))
    items = unit(torch.from_numpy(rows.astype(np.float32)))
    return DenseVectors(items[:3].clone(), items), cluster, drawn.integers(1, 50, len(cluster))


def share_of_own(places, cluster, k=10):
    """How many of the k nearest on the map are of the same cluster, on average."""
    distance = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    near = np.argsort(distance, axis=1)[:, :k]
    return (cluster[near] == cluster[:, None]).mean()


def test_planted_clusters_stay_together():
    vectors, cluster, popularity = planted()
    places = ItemMap.draw(vectors, popularity, QUICK).places
    assert places.shape == (300, 2)
    assert places.dtype == np.float32
    assert share_of_own(places, cluster) > 0.9


def test_items_that_are_no_landmarks_lie_around_their_own():
    vectors, cluster, popularity = planted()
    places = ItemMap.draw(vectors, popularity, MapSettings(landmarks=90, ties=6, sweeps=60)).places
    rare = np.argsort(-popularity, kind="stable")[90:]
    assert share_of_own(places, cluster) > 0.8
    assert share_of_own(places[rare], cluster[rare]) > 0.8


def test_the_same_again_and_another_with_another_seed():
    vectors, _, popularity = planted()
    first, again = (ItemMap.draw(vectors, popularity, QUICK).places for _ in range(2))
    other = ItemMap.draw(vectors, popularity, MapSettings(landmarks=120, sweeps=60, seed=1)).places
    assert (first == again).all()
    assert not np.allclose(first, other)


def test_popular_items_have_room():
    """The nearest other popular item is farther away if popular landmarks push more."""
    vectors, _, _ = planted(clusters=2, each=200)
    popularity = np.ones(400, dtype=np.int64)
    popularity[::10] = 500

    def room(exponent):
        settings = MapSettings(landmarks=400, sweeps=60, room=exponent)
        places = ItemMap.draw(vectors, popularity, settings).places
        places = places / np.std(places)
        away = np.linalg.norm(places[::10][:, None] - places[::10][None], axis=2)
        np.fill_diagonal(away, np.inf)
        return np.median(away.min(1))

    assert room(0.75) > 1.1 * room(0.0)


@pytest.mark.parametrize("n_items", [1, 2, 3, 5])
def test_catalogues_of_a_few_items(n_items):
    vectors, _, popularity = planted(clusters=1, each=n_items)
    places = ItemMap.draw(vectors, popularity, QUICK).places
    assert places.shape == (n_items, 2)
    assert np.isfinite(places).all()


def test_equal_vectors_have_places():
    items = unit(torch.ones(200, 8))
    places = ItemMap.draw(DenseVectors(items[:1], items), np.ones(200, dtype=np.int64), QUICK).places
    assert np.isfinite(places).all()


def test_progress_rises_to_one():
    vectors, _, popularity = planted()
    seen = []
    ItemMap.draw(vectors, popularity, QUICK, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert len(seen) > QUICK.sweeps


def test_nearest_rows_as_by_sorting():
    rows = torch.randn(40, 5, generator=torch.Generator().manual_seed(3))
    near, squared = find_near(rows, 7)
    for row in range(40):
        away = ((rows - rows[row]) ** 2).sum(1)
        away[row] = torch.inf
        assert near[row].tolist() == away.argsort()[:7].tolist()
        torch.testing.assert_close(squared[row], away.sort().values[:7], atol=1e-5, rtol=1e-5)


def test_the_file(tmp_path):
    vectors, _, popularity = planted()
    drawn = ItemMap.draw(vectors, popularity, QUICK, model="1a2b3c4d")
    drawn.save(tmp_path / "m.map")
    loaded = ItemMap.load(tmp_path / "m.map")
    assert loaded.model == "1a2b3c4d"
    assert (loaded.places == drawn.places).all()


def test_a_damaged_file_is_refused(tmp_path):
    vectors, _, popularity = planted()
    file = tmp_path / "m.map"
    ItemMap.draw(vectors, popularity, QUICK).save(file)
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataError, match="delete it"):
        ItemMap.load(file)


def test_a_file_without_places_is_refused(tmp_path):
    ItemMap(np.zeros((3, 3), dtype=np.float32)).save(tmp_path / "m.map")
    with pytest.raises(DataError, match="delete it"):
        ItemMap.load(tmp_path / "m.map")
