"""Weights of pairs: from columns and files, through splits, into the loss."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import spherec
from spherec import Cut, Interactions, splits
from spherec.errors import ArgumentError, DataError, NothingNewWarning
from spherec.losses import Hinge, Softmin
from spherec.recommender.fold_in import FoldIn
from spherec.recommender.growth import initial_vectors, merge
from spherec.sampling import Popularity
from spherec.training.step import PairWeights, Run
from tests.sampling.checks import CPU
from tests.training.runs import DATA, QUICK, same, train

PLAYS = pd.DataFrame(
    {"user": ["a", "a", "b", "b", "b", "c"], "item": ["x", "y", "x", "y", "z", "z"], "plays": [1, 100, 5, 5, 5, 3]}
)


def weighed(data=DATA, seed=0):
    weights = np.random.default_rng(seed).integers(1, 500, len(data)).astype(float)
    return replace(data, weights=weights)


def test_weights_come_from_a_column_and_go_with_their_pairs(tmp_path):
    data = Interactions.from_frame(PLAYS, user="user", item="item", value="plays", weigh=True)
    assert data.weights.tolist() == PLAYS.plays.tolist()
    assert Interactions.from_frame(PLAYS, user="user", item="item", value="plays").weights is None
    assert data.filter(np.arange(6) % 2 == 1).weights.tolist() == [100, 5, 3]
    assert data.cut(Cut(min_per_user=2)).weights.tolist() == [1, 100, 5, 5, 5]
    data.save(tmp_path / "plays.npz")
    loaded = Interactions.load(tmp_path / "plays.npz")
    assert loaded == data
    assert loaded != replace(data, weights=None)
    fold = splits.ratio(weighed(), 0.3)
    keys = {
        (user, item): weight for user, item, weight in zip(DATA.users, DATA.indices, weighed().weights, strict=True)
    }
    for part in (fold.train, fold.test):
        assert [keys[pair] for pair in zip(part.users, part.indices, strict=True)] == part.weights.tolist()


def test_counts_of_repeated_pairs_add_up(tmp_path):
    path = tmp_path / "plays.csv"
    path.write_text("user,item,plays\na,x,900\na,x,1\na,y,5\nb,x,3\n")
    assert spherec.read(path, value="plays", weigh=True).weights.tolist() == [901, 5, 3]
    with pytest.raises(DataError, match="no values to weigh pairs by"):  # not the number of rows
        spherec.read(path, weigh=True)


def test_a_weight_must_be_above_0_unless_a_cut_drops_it_and_none_may_be_below():
    frame = pd.DataFrame({"user": list("aaab"), "item": list("yxxx"), "plays": [5, 9, 3, 0]})
    pairs = {"user": "user", "item": "item", "value": "plays", "duplicates": "sum", "weigh": True}
    assert Interactions.from_frame(frame, cut=Cut(min_value=1), **pairs).weights.tolist() == [12, 5]
    with pytest.raises(DataError, match="got 0"):
        Interactions.from_frame(frame, **pairs)
    with pytest.raises(DataError, match="got -3"):
        Interactions.from_frame(frame.assign(plays=[5, 9, -3, 1]), cut=Cut(min_value=1), **pairs)


def test_pairs_of_each_user_weigh_1_on_average():
    data = weighed()
    weights = PairWeights(data, CPU).look_up(*(torch.tensor(column).long() for column in (data.users, data.indices)))
    for user in range(data.n_users):
        own = slice(data.indptr[user], data.indptr[user + 1])
        expected = [np.log(1 + weight) for weight in data.weights[own]]
        np.testing.assert_allclose(weights[own], np.array(expected) / np.mean(expected), rtol=1e-6)


@pytest.mark.parametrize("balance", [0.0, 0.5])
@pytest.mark.parametrize(
    "settings",
    [{"loss": Hinge()}, {"loss": Softmin(0.2), "sampler": Popularity(9, shared=True)}],
    ids=["hinge", "softmin"],
)
def test_the_loss_of_a_pair_is_multiplied_by_its_weight(settings, balance):
    data, config = weighed(), replace(QUICK, balance=balance, **settings)
    first = spherec.geometry.DenseVectors.random(
        data.n_users, data.n_items, config.dim, torch.Generator().manual_seed(0)
    )
    users, items = (torch.tensor(column[:16].copy()).long() for column in (data.users, data.indices))
    plain, with_weights = (Run(given, config, first) for given in (DATA, data))
    batches = [run.draw(users, items) for run in (plain, with_weights)]
    assert torch.equal(batches[0].numbers, batches[1].numbers)
    of_pairs = PairWeights(data, CPU).look_up(users, items)
    before = torch.ones(16) if batches[0].weights is None else batches[0].weights
    torch.testing.assert_close(batches[1].weights, before * of_pairs)
    rows = with_weights.embedding.training_rows(batches[1].numbers, 16)
    fused, _ = with_weights._gradient(rows, *batches[1][1:])
    slow, _ = with_weights._by_autograd(rows[0].clone(), *batches[1][1:])
    torch.testing.assert_close(fused[0], slow, rtol=1e-3, atol=1e-4)


def test_equal_weights_change_nothing_and_others_do():
    plain = train(DATA, QUICK, device=CPU)
    equal = train(replace(DATA, weights=np.full(len(DATA), 7.0)), QUICK, device=CPU)
    torch.testing.assert_close(plain.vectors.item_table, equal.vectors.item_table, rtol=1e-4, atol=1e-4)
    assert not same(plain.vectors, train(weighed(), QUICK, device=CPU).vectors)


def fitted(data=None, **options):
    return spherec.CML.preset("two-stage", dim=8, epochs=2, device="cpu").fit(
        weighed() if data is None else data, validation=0, **options
    )


def test_a_model_keeps_the_weights_of_its_pairs(tmp_path):
    model, path = fitted(), tmp_path / "m.spherec"
    model.save(path)
    assert spherec.load(path).data == model.data == weighed()
    fitted(DATA).save(path)
    assert spherec.load(path).data.weights is None


def pairs_of(data):
    """User, item and weight of each pair, by their ids."""
    ids = (
        [known[int(at)] for at in column]
        for known, column in ((data.user_ids, data.users), (data.item_ids, data.indices))
    )
    return list(zip(*ids, data.weights, strict=True))


OLD = [("a", "x", 1.0), ("a", "y", 100.0), ("b", "x", 5.0)]
NEW = [("a", "x", 2.0), ("a", "z", 30.0), ("b", "z", 4.0), ("c", "z", 9.0)]


@pytest.mark.parametrize("weigh", [(True, True), (True, False), (False, True)], ids=["both", "old", "new"])
def test_merged_weights_add_up_and_missing_ones_are_those_in_the_middle(weigh):
    old, new = (
        Interactions.from_pairs(*columns[:2], values=columns[2], weigh=has_weights)
        for columns, has_weights in zip((list(zip(*rows, strict=True)) for rows in (OLD, NEW)), weigh, strict=True)
    )
    known = {}
    for user, item, weight in (OLD if weigh[0] else []) + (NEW if weigh[1] else []):
        known[user, item] = known.get((user, item), 0) + weight
    for user, item, weight in pairs_of(merge(old, new).data):
        of_user = [w for (someone, _), w in known.items() if someone == user]
        middle = np.mean([np.log(1 + w) for w in of_user or known.values()])
        assert np.log(1 + weight) == pytest.approx(np.log(1 + known[user, item]) if (user, item) in known else middle)


def later(**weights):
    return Interactions.from_pairs([1, 2, 99], [1, 3, 1], **weights)


@pytest.mark.parametrize("old", [weighed(), DATA], ids=["weighed", "unweighed"])
def test_partial_fit_learns_from_the_weights_of_all_pairs(old, tmp_path):
    """As training on them does that begins with the same vectors."""
    news = later(values=[50, 3, 8], weigh=True)
    model = fitted(old)
    model.save(tmp_path / "m.spherec")
    growth = merge(model.data, news)
    first = initial_vectors(growth, model.artifact, FoldIn(model.artifact))
    expected = train(growth.data, replace(model.config, epochs=3), device=CPU, initial=first).vectors
    loaded = spherec.load(tmp_path / "m.spherec", device="cpu")
    for each in (model, loaded):
        each.partial_fit(news, epochs=3, validation=0)
        assert same(each.vectors, expected)
        assert each.data == growth.data
    plain = fitted(old).partial_fit(later(), epochs=3, validation=0)
    assert not same(plain.vectors, expected)


def test_weights_alone_are_something_new():
    model = fitted(PLAYS, user="user", item="item", weight="plays")
    before, more = model.vectors, PLAYS[:1].assign(plays=7)
    model.partial_fit(more, user="user", item="item", weight="plays")
    assert model.data.weights.tolist() == [8, 100, 5, 5, 5, 3]
    assert not same(model.vectors, before)
    with pytest.warns(NothingNewWarning):
        model.partial_fit(more[["user", "item"]], user="user", item="item")


def test_folded_in_users_count_like_all_others():
    model = fitted(PLAYS, user="user", item="item", weight="plays")
    grown = model.fold_in(pd.DataFrame({"user": ["d", "d"], "item": ["x", "z"]}), user="user", item="item")
    weights = PairWeights(grown.data, CPU).look_up(torch.tensor([3, 3]), torch.tensor([0, 2]))
    torch.testing.assert_close(weights, torch.ones(2))


def test_wrong_weights_are_one_sentence():
    with pytest.raises(DataError, match="no values to weigh pairs by"):
        Interactions.from_pairs(PLAYS.user, PLAYS.item, weigh=True)
    with pytest.raises(DataError, match="115"):
        replace(DATA, weights=np.ones(3))
    with pytest.raises(ArgumentError, match="leave out weight"):
        spherec.CML(device="cpu").fit(DATA, weight="plays")
