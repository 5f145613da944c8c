"""Users and items that are taken out: of the lists, of all tables, and of the bytes of the file."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import spherec
from spherec.errors import ArgumentError, UnknownIdError
from tests.oracles import pairs_of
from tests.recommender.models import ITEMS, USERS, model_of, small

WEIGHTED = {
    "users": st.lists(st.sampled_from(USERS), unique=True),
    "items": st.lists(st.sampled_from(ITEMS), unique=True),
}


@given(**WEIGHTED, mainstream=st.sampled_from([None, 0.4]))
def test_all_others_stay_as_they_are(users, items, mainstream):
    data = small().with_item_names({item: f"The {item}" for item in ITEMS})
    before, model = model_of(data, mainstream=mainstream), model_of(data, mainstream=mainstream)
    assert model.remove_users(users).remove_items(items) is model
    assert list(model.data.user_ids) == [user for user in USERS if user not in users]
    assert list(model.data.item_ids) == [item for item in ITEMS if item not in items]
    assert model.data.item_names == tuple(f"The {item}" for item in model.data.item_ids)
    left = {(user, item) for user, item in pairs_of(data) if user not in users and item not in items}
    assert set(pairs_of(model.data)) == left
    if len(items) < len(ITEMS) and len(users) < len(USERS):
        asked = {"exclude_seen": False, "k": 30}
        lists = before.recommend(list(model.data.user_ids), only=list(model.data.item_ids), **asked)
        assert list(model.recommend(list(model.data.user_ids), **asked)) == list(lists)


def test_nothing_is_left_in_the_bytes_of_the_file(tmp_path):
    users, items = [f"person-{n}" for n in range(12)], [f"thing-{n}" for n in range(30)]
    data = small(users=users, items=items).with_item_names({item: f"Name of {item}." for item in items})
    model, path = model_of(data, mainstream=0.4), tmp_path / "m.spherec"
    rows = [
        model.vectors.user_table[3].clone(),
        model.vectors.item_table[7].clone(),
        model.vectors.item_reach[7].clone(),
    ]
    words = [b"person-3", b"thing-7", b"Name of thing-7.", *(row.numpy().tobytes() for row in rows)]
    model.save(path)
    assert all(word in path.read_bytes() for word in words)
    model.remove_users("person-3").remove_items("thing-7").save(path)
    assert not any(word in path.read_bytes() for word in words)
    loaded = spherec.load(path, device="cpu")
    assert loaded.recommend("person-4", 9) == model.recommend("person-4", 9)
    assert loaded.partial_fit(spherec.Interactions.from_pairs(["person-3"], ["thing-7"])).data.n_users == 12


def test_features_and_their_map_go_with_their_items(tmp_path):
    books = pd.DataFrame({"isbn": ITEMS, "genre": [f"g{n % 3}" for n in range(30)], "year": range(1990, 2020)})
    settings = {"dim": 8, "epochs": 2, "device": "cpu", "reach": True, "loss": {"kind": "Softmin"}}
    model = spherec.CML(**settings, sampler=spherec.Popularity(9, shared=True))
    model.fit(small(), validation=0, item_features=spherec.Features.from_frame(books, item="isbn"))
    kept, lengths = model.artifact.features.matrix[3:], model.artifact.feature_map.lengths[3:]
    model.remove_items(ITEMS[:3])
    assert np.array_equal(model.artifact.features.matrix, kept)
    assert torch.equal(model.artifact.feature_map.lengths, lengths)
    model.save(tmp_path / "m.spherec")
    again = spherec.load(tmp_path / "m.spherec", device="cpu").add_items(books[:1])
    assert again.data.item_ids[-1] == "i0"


def test_who_is_not_there_is_named_and_an_index_is_dropped():
    model = model_of(small())
    artifact = model.artifact
    for remove in (lambda: model.remove_users(["u1", "zoe"]), lambda: model.remove_items("zoe")):
        with pytest.raises(UnknownIdError, match="'zoe'"):
            remove()
    assert model.artifact is artifact
    model.build_index()
    model.remove_items("i3")
    assert "i3" not in model.recommend("u1", 40, exclude_seen=False).columns["item"]
    with pytest.raises(ArgumentError, match="ids must be"):
        model.remove_users([["u1"]])
