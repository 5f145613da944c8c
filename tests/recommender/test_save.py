"""A model that was saved answers as before, to the last bit."""

from hypothesis import given, settings
from hypothesis import strategies as st

import spherec
from tests.oracles import typed
from tests.recommender.models import model_of, small
from tests.strategies import distinct_ids


def answers(model):
    users, items = list(model.data.user_ids), list(model.data.item_ids)
    return [
        model.recommend(users, 7),
        model.recommend([users[0]], 7, exclude_seen=False),
        model.recommend_for(items[:3], 5),
        model.similar_items(items, 4),
        model.similar_users(users, 3),
        model.explain(users[0], items[0]),
        model.score([users[0]], items).tolist(),
    ]


@settings(max_examples=40)
@given(
    users=distinct_ids(min_size=1),
    items=distinct_ids(min_size=1),
    dim=st.integers(2, 33),
    constraint=st.sampled_from(["sphere", "ball"]),
    seed=st.integers(0, 99),
)
def test_saved_and_loaded_it_answers_bitwise_the_same(users, items, dim, constraint, seed, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "same.spherec"
    data = small(0.5, seed, users, items).with_item_names({items[0]: "first"})
    model = model_of(data, dim, constraint, seed)
    model.save(path)
    loaded = spherec.load(path, device="cpu")
    before, after = answers(model), answers(loaded)
    assert before == after
    assert typed([list(one) for one in before if one]) == typed([list(one) for one in after if one])
    assert loaded.config == model.artifact.config
    assert loaded.data == data
