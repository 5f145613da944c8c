"""Export for Embedding Atlas: a row for each item, in its place, with its nearest items."""

import numpy as np
import pytest

import spherec.export
from spherec.errors import ArgumentError
from spherec.item_map import ItemMap
from tests.recommender.models import ITEMS, model_of, small

polars = pytest.importorskip("polars")


@pytest.mark.parametrize(("constraint", "mainstream"), [("sphere", None), ("sphere", 0.4), ("ball", None)])
def test_rows_are_items_with_places_and_neighbours(tmp_path, constraint, mainstream):
    names = {item: f"Book {item}" for item in ITEMS[:-1]}
    model = model_of(small().with_item_names(names), constraint=constraint, mainstream=mainstream)
    seen = []
    spherec.export.write(tmp_path / "x.parquet", model, format="atlas", progress=lambda done, _: seen.append(done))
    table = polars.read_parquet(tmp_path / "x.parquet")
    assert table.columns == ["id", "name", "users", "x", "y", "neighbors"]
    assert table["id"].to_list() == list(model.data.item_ids)
    assert table["name"].to_list() == list(model.data.item_names)
    assert table["users"].to_list() == model.data.users_per_item.tolist()
    places = ItemMap.draw(model.vectors, model.data.users_per_item).places
    assert (table.select("x", "y").to_numpy() == places).all()
    rows = model.vectors.item_table.numpy()
    for row, neighbours in enumerate(table["neighbors"].to_list()):
        assert [model.data.item_ids[one] for one in neighbours["ids"]] == [
            near.similar for near in model.similar_items(model.data.item_ids[row], k=10)
        ]
        away = np.linalg.norm(rows[neighbours["ids"]] - rows[row], axis=1)
        assert np.allclose(neighbours["distances"], away, atol=1e-3)
    assert seen == sorted(seen)
    assert seen[-1] == len(ITEMS)


def test_users_have_no_place_on_it(tmp_path):
    with pytest.raises(ArgumentError, match="what='items'"):
        spherec.export.write(tmp_path / "x.parquet", model_of(small()), format="atlas", what="both")
    assert not list(tmp_path.iterdir())
