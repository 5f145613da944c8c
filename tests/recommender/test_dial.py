"""A model with reach: lists at any place of the dial, by all methods alike, in copies and files, and trained again."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import spherec
from spherec.evaluation import evaluate
from spherec.optim import Adam
from spherec.recommender.growth import initial_vectors, merge
from tests.recommender.models import ITEMS, USERS, make, model_of, small

DATA = small()
MODEL, PLAIN = model_of(DATA, mainstream=0.4), model_of(DATA)
# --- Lists -----------------------------------------------------------------------------------------------------------


def test_what_is_similar_and_why_does_not_depend_on_reach():
    assert MODEL.similar_items(ITEMS, 5) == PLAIN.similar_items(ITEMS, 5)
    assert MODEL.similar_users(USERS, 5) == PLAIN.similar_users(USERS, 5)
    assert MODEL.explain("u1", "i1") == PLAIN.explain("u1", "i1")


# --- More training ---------------------------------------------------------------------------------------------------


def reaching(**options):
    settings = {"dim": 6, "reach": True, "mainstream": 0.5, "epochs": 3, "batch_size": 32, "device": "cpu"}
    settings |= {"loss": spherec.Softmin(), "sampler": spherec.Popularity(9, shared=True)}
    return spherec.CML(**settings | options)


@pytest.mark.parametrize("subspace_dim", [None, 2])
def test_more_training_begins_with_the_reach_that_is_there(subspace_dim):
    model = reaching(subspace_dim=subspace_dim, epochs=20).fit(DATA, validation=0)
    new = spherec.Interactions.from_pairs(["zoe", "zoe", "u1", "u2"], ["i1", "new", "new", "other"])
    start = initial_vectors(merge(model.data, new), model.artifact, model._current.fold_in)
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
    model = reaching(subspace_dim=subspace_dim).fit(pairs(old), validation=0)
    model.partial_fit(pairs(new), validation=0)
    assert model.vectors.item_reach.isfinite().all()
    assert model.vectors.item_reach.abs().max() < 10
    for user in model.data.user_ids:
        model.recommend(user, 3, exclude_seen=False, mainstream=1.25)


def pairs(rows):
    return spherec.Interactions.from_pairs(*zip(*rows, strict=True))


# --- Popularity ------------------------------------------------------------------------------------------------------


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
