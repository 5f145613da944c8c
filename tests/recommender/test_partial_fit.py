"""Going on with new interactions: what was learned is where training begins, what is new begins well; and the dial."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import spherec
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError, NothingNewWarning, WorseModelError
from spherec.evaluation import Validation, evaluate
from spherec.optim import Adam
from spherec.recommender import CML, cml
from spherec.recommender.fold_in import FoldIn
from spherec.recommender.growth import Growth, initial_vectors, merge
from tests.oracles import pairs_of
from tests.recommender.models import ITEMS, USERS, make, model_of, small
from tests.training.planted import TRAIN as PLANTED

DATA = small()
LATER = np.random.default_rng(0).random(len(PLANTED)) < 0.2
PAIRS = st.lists(st.tuples(st.sampled_from([*USERS, "zoe", "max"]), st.sampled_from([*ITEMS, "new"])), min_size=1)


def as_interactions(pairs):
    return Interactions.from_pairs(*zip(*dict.fromkeys(pairs), strict=True))


def quick(**options):
    settings = {"dim": 6, "sampler": spherec.Uniform(2), "batch_size": 32, "epochs": 3, "device": "cpu"}
    return CML.preset(**{"name": "two-stage"} | settings | options)


@given(pairs=PAIRS)
def test_old_and_new_pairs_come_together(pairs):
    growth = merge(DATA, as_interactions(pairs))
    assert set(pairs_of(growth.data)) == set(pairs_of(DATA)) | set(pairs)
    assert list(growth.data.user_ids)[: len(USERS)] == USERS
    assert list(growth.data.item_ids)[: len(ITEMS)] == ITEMS
    assert set(pairs_of(growth.data.filter(growth.fresh))) == set(pairs) - set(pairs_of(DATA))


@given(pairs=PAIRS)
def test_training_begins_where_the_model_is(pairs):
    model = model_of(DATA)
    growth = merge(DATA, as_interactions(pairs))
    if not growth.fresh.any():
        return
    start = initial_vectors(growth, model.artifact, FoldIn(model.artifact))
    assert torch.equal(start.user_table[:12], model.vectors.user_table)
    assert torch.equal(start.item_table[:30], model.vectors.item_table)
    assert torch.allclose(start.user_table.norm(dim=1), torch.tensor(1.0))
    for user in range(12, growth.data.n_users):
        old = growth.data.items_of(user)[growth.data.items_of(user) < 30]
        if len(old):
            assert torch.equal(start.user_table[user], FoldIn(model.artifact).place(old)), "new users are folded in"
    for item in range(30, growth.data.n_items):
        users = growth.data.users[growth.data.indices == item].astype(np.int64)
        middle = start.user_table[users].sum(0)
        assert torch.allclose(start.item_table[item], middle / middle.norm(), atol=1e-6), "amid its users"


def test_the_model_learns_the_new_and_keeps_the_old():
    data = small(density=0.4)
    model = quick(epochs=20).fit(data, validation=0)
    before = model.vectors.item_table.clone()
    new = as_interactions([("zoe", "i1"), ("zoe", "i2"), ("zoe", "new"), ("u1", "new"), ("u2", "new")])
    model.partial_fit(new, validation=0, epochs=2)
    assert model.data.n_users == 13
    assert model.data.n_items == 31
    assert len(model.history.epochs) == 2
    assert model.config.epochs == 20, "the settings stay"
    moved = (model.vectors.item_table[:30] - before).norm(dim=1)
    assert 0 < moved.max() < 1, "a little, from where they were"
    assert {"i1", "i2", "new"} & {record.item for record in model.recommend("zoe", 40)} == set()
    assert "new" in {record.item for record in model.recommend("u3", 40)}


def test_validation_is_held_out_of_the_new_pairs_alone():
    new = as_interactions([(f"n{n}", item) for n in range(9) for item in ITEMS[n : n + 10]])
    growth = merge(DATA, new)
    learned, validation = growth.hold_out(spherec.training.Training(), 0.2)
    gone = set(pairs_of(growth.data)) - set(pairs_of(learned))
    assert len(gone) == 18
    assert gone <= set(pairs_of(new))
    assert validation is not None
    model = model_of(DATA).partial_fit(new, validation=0.2)
    assert model.history.epochs[0].pairs == len(DATA) + len(new) - 18


def test_the_length_goes_by_the_share_of_new_pairs():
    config = CML.preset("two-stage", epochs=100).config
    known = np.ones(10_000, dtype=bool)
    for new, epochs in ((1, 3), (9, 3), (100, 10), (2_500, 50), (10_000, 100)):
        growth = Growth(Interactions.from_matrix(np.ones((100, 100))), ~known)
        growth.fresh[:new] = True
        assert growth.plan(config, None, None) == (replace(config, epochs=epochs), 0.0)
        assert growth.plan(config, None, 0) == (replace(config, epochs=epochs), 0.0)
        assert growth.plan(config, None, 0.1) == (config, 0.1), "with a share, as long as the first run at most"
        assert growth.plan(config, 7, None) == (replace(config, epochs=7), 0.05 if new > 9 else 0.0)
        short = replace(config, epochs=2)
        assert growth.plan(short, None, None) == (short, 0.0), "never longer than the first run"


def test_where_nothing_is_new_the_model_stays():
    model = quick().fit(DATA, validation=0)
    artifact = model.artifact
    with pytest.warns(NothingNewWarning):
        assert model.partial_fit(as_interactions(list(pairs_of(DATA))[:9])) is model
    assert model.artifact is artifact
    (user, item), *_ = sorted({(u, i) for u in USERS for i in ITEMS} - set(pairs_of(DATA)))
    dislikes = replace(DATA, disliked=np.array([[USERS.index(user), ITEMS.index(item)]], dtype=np.int32))
    assert item in model.recommend(user, 30).columns["item"]
    assert item not in model.partial_fit(dislikes, validation=0).recommend(user, 30).columns["item"], "a dislike is new"


def test_a_gate_refuses_an_update_that_makes_lists_worse(monkeypatch):
    """It is measured on new pairs of users and items that the model knows; the update itself learns from all."""
    model = quick(epochs=30, optimizer={"learning_rate": 0.03}).fit(PLANTED.filter(~LATER), validation=0)
    new, before, seen, validate = PLANTED.filter(LATER), model.artifact, [], Validation.__call__
    monkeypatch.setattr(Validation, "__call__", lambda *given: seen.append(validate(*given)) or seen[-1])
    model.partial_fit(new, epochs=3, validation=0, gate=0.2)
    assert torch.equal(
        model.vectors.item_table, make(before).partial_fit(new, epochs=3, validation=0).vectors.item_table
    )
    assert len(seen) == 2
    assert min(seen) > 0.3, "it is not measured on pairs that it has learned from, but knows the clusters"
    strangers = Interactions.from_pairs([901, 902], [901, 901])  # nothing to measure
    assert model.partial_fit(strangers, gate=0.0).data.n_users == PLANTED.n_users + 2
    with pytest.raises(ArgumentError, match="gate"):
        model.partial_fit(Interactions.from_pairs([903], [901]), gate=2)
    monkeypatch.setattr(Validation, "__call__", lambda *_: 1.0 if seen.pop() else 0.0)
    seen[:] = [0, 1]
    kept = make(before)
    with pytest.raises(WorseModelError, match="gate"):
        kept.partial_fit(new, epochs=1, gate=0.9)
    assert kept.artifact is before


def test_ids_of_another_type_are_not_taken_for_new():
    model = model_of(small(users=list(range(12))))
    with pytest.raises(DataError, match=r"knows the user 3 \(int\), and the new interactions have '3' \(str\)"):
        model.partial_fit(Interactions.from_pairs(["3", "zoe"], ["i1", "i1"]))


# --- Reach -----------------------------------------------------------------------------------------------------------

DIALLED = {"name": "accurate", "dim": 8, "subspace_dim": 4, "epochs": 3}


def test_it_goes_on_alike_before_and_after_a_file(tmp_path):
    """The temperature that came from the data of the first run is kept, however much the data grows."""
    new, newer = (as_interactions([(user, item) for item in ITEMS[::2]]) for user in ("zoe", "max"))
    model = quick(**DIALLED).fit(small(density=0.1))
    model.save(tmp_path / "model.spherec")
    loaded = spherec.load(tmp_path / "model.spherec", device="cpu")
    for data in (new, newer):
        model.partial_fit(data, epochs=2)
        loaded.partial_fit(data, epochs=2)
        assert torch.equal(model.vectors.user_table, loaded.vectors.user_table)
        assert torch.equal(model.vectors.item_reach, loaded.vectors.item_reach)


def test_several_processes_are_refused(monkeypatch):
    model = quick().fit(DATA)
    monkeypatch.setattr(cml, "join", lambda *_: SimpleNamespace(size=2))
    with pytest.raises(ArgumentError, match="2"):
        model.partial_fit(as_interactions([("zoe", "new")]))


# --- The dial --------------------------------------------------------------------------------------------------------

MODEL, PLAIN = model_of(DATA, mainstream=0.4), model_of(DATA)


def test_what_is_similar_and_why_does_not_depend_on_reach():
    assert MODEL.similar_items(ITEMS, 5) == PLAIN.similar_items(ITEMS, 5)
    assert MODEL.similar_users(USERS, 5) == PLAIN.similar_users(USERS, 5)
    assert MODEL.explain("u1", "i1") == PLAIN.explain("u1", "i1")


def reaching(**options):
    settings = {"dim": 6, "reach": True, "mainstream": 0.5, "epochs": 3, "batch_size": 32, "device": "cpu"}
    settings |= {"loss": spherec.Softmin(), "sampler": spherec.Popularity(9, shared=True)}
    return spherec.CML(**settings | options)


@pytest.mark.parametrize("subspace_dim", [None, 2])
def test_more_training_begins_with_the_reach_that_is_there(subspace_dim):
    model = reaching(subspace_dim=subspace_dim, epochs=20).fit(DATA, validation=0)
    new = spherec.Interactions.from_pairs(["zoe", "zoe", "u1", "u2"], ["i1", "new", "new", "other"])
    start = initial_vectors(merge(model.data, new), model.artifact, FoldIn(model.artifact))
    old = model.vectors.item_reach
    assert torch.equal(start.item_reach[:30], old)
    assert start.item_reach.shape == (32, 1 if subspace_dim is None else 3)
    depth = np.log1p(merge(model.data, new).data.users_per_item)
    for part in range(old.shape[1]):
        reach, has_users = old[:, part].double().numpy(), depth[:30] > 0
        line = np.polyfit(depth[:30][has_users], reach[has_users], 1)
        predicted = np.polyval(line, depth[30:]).clip(reach.min(), reach.max())
        np.testing.assert_allclose(start.item_reach[30:, part], predicted, atol=1e-5)
    still = make(replace(model.artifact, config=replace(model.config, optimizer=Adam(1e-9))))
    still.partial_fit(new, validation=0)
    torch.testing.assert_close(still.vectors.item_reach, start.item_reach, atol=1e-6, rtol=0)
    assert still.vectors.mainstream == 0.5
    model.partial_fit(new, validation=0)
    assert model.vectors.item_reach.isfinite().all()
    assert not torch.equal(model.vectors.item_reach[:30], old)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([("u", "i")], [("u", "j")]),
        ([("u", "i")], [("v", "i")]),
        ([("u", "i")], [("v", "j")]),
        ([("u", "i"), ("u", "j")], [("v", "i"), ("v", "k")]),  # items with as many users: no line through them
    ],
)
@pytest.mark.parametrize("subspace_dim", [None, 2])
def test_more_training_from_next_to_nothing(old, new, subspace_dim):
    model = reaching(subspace_dim=subspace_dim).fit(pairs_from(old), validation=0)
    model.partial_fit(pairs_from(new), validation=0)
    assert model.vectors.item_reach.isfinite().all()
    assert model.vectors.item_reach.abs().max() < 10
    for user in model.data.user_ids:
        model.recommend(user, 3, exclude_seen=False, mainstream=1.25)


def pairs_from(rows):
    return spherec.Interactions.from_pairs(*zip(*rows, strict=True))


def test_lists_grow_more_popular_with_the_dial():
    """Groups of taste, in each of which items are liked by few or by many."""
    rng = np.random.default_rng(0)
    liked = np.tile(np.geomspace(0.6, 0.02, 40), 5)  # of 5 groups with 40 items each
    own = np.arange(300)[:, None] % 5 == np.arange(200) // 40
    likes = rng.random((300, 200)) < np.where(own, liked, liked / 20)
    fold = spherec.splits.ratio(spherec.Interactions.from_matrix(likes.astype(int)), 0.3, seed=1)
    model = reaching(
        dim=16, epochs=30, batch_size=256, optimizer=Adam(0.02), sampler=spherec.Popularity(100, beta=0.5, shared=True)
    )
    model.fit(fold.train, validation=0)
    dial = [-0.5, 0.0, 0.5, 0.75, 1.0, 1.25]
    scores = [evaluate(model, fold.train, fold.test, k=10, mainstream=place) for place in dial]
    mmr = [one.mmr for one in scores]
    assert mmr == sorted(mmr)
    assert mmr[-1] > 2 * mmr[0]
    assert scores[dial.index(0.75)].ndcg > scores[0].ndcg
    assert evaluate(model, fold.train, fold.test, k=10).mmr == scores[dial.index(0.5)].mmr
