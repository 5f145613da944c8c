"""Stage two by rejection: its law, what it never draws, and that it hands over to the other way without a trace."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spherec.geometry import DenseVectors
from spherec.kernels.cpu.negatives import CpuTwoStage, Meeting, threshold_table
from spherec.kernels.protocol import Candidates, TwoStageLaw
from spherec.sampling import TwoStage
from spherec.sampling.draw import items_of_users, make_law_tables
from tests.oracles import stage_two_law, successive_law
from tests.sampling.checks import (
    CPU,
    FEWEST_DRAWS,
    around_item_0,
    assert_follows,
    directions,
    generator,
    interactions,
    pairs,
    two_stage,
)

OWN = [1, 0, 0, 0, 0, 0, 1, 0]  # of user 0
TRAIN = interactions([OWN, [1] * 8, [0] * 8])
SIMILAR = [1, 0.86, 0.6, 0.3, 0.1, -0.4, 0.95, 0.5]  # of item 0 to each


def candidates(items, multiplicity=None):
    multiplicity = [1] * len(items) if multiplicity is None else multiplicity
    return Candidates(torch.tensor(items), torch.tensor(multiplicity, dtype=torch.float32))


def law_of(vectors, asked, sharpness, own=OWN):
    """Of the first place drawn for item 0, by the oracle."""
    items, times = asked.items.tolist(), asked.multiplicity.tolist()
    allowed = [0 if own[item] else count for item, count in zip(items, times, strict=True)]
    table = vectors.tolist()
    return stage_two_law(table[0], [table[item] for item in items], sharpness, 0.875, allowed)


def kernel(train, exponent, cap=0.875):
    """Both stages of draws with these weights in stage two."""
    ones = np.ones(train.n_items)
    law = TwoStageLaw(
        make_law_tables(train, ones, CPU), torch.tensor(ones).log().float(), 8, 8, False, False, exponent, cap
    )
    return CpuTwoStage(law, items_of_users(train), torch.device("cpu"))


@pytest.fixture(params=["as it pays", "always by rejection first", "never by rejection"])
def way(request, monkeypatch):
    """With 8 candidates 8 tries are made: by far too few to find all, so that both ways have a part in it."""
    if request.param != "as it pays":
        monkeypatch.setattr(CpuTwoStage, "rejection_pays", lambda *_: request.param == "always by rejection first")
    return request.param


def sampled(config, vectors, user=0, asked=None, monkeypatch=None):
    vectors = vectors.float()
    sampler = two_stage(TRAIN, config, vectors)
    if asked is not None:
        monkeypatch.setattr(sampler._draws, "candidates", lambda _: asked)
    at = DenseVectors(torch.zeros(3, vectors.shape[1]), vectors)
    return sampler.sample(*pairs(user, 0, FEWEST_DRAWS), at, generator())


@pytest.mark.parametrize(("dim", "sharpness"), [(2, 1), (3, 1), (8, 0), (8, 0.5), (16, 1), (128, 0.05)])
@pytest.mark.parametrize("n", [1, 3])
def test_both_ways_together_follow_the_law(dim, sharpness, n, way, monkeypatch):
    vectors, asked = around_item_0(SIMILAR, dim), candidates([4, 0, 2, 3, 1, 5, 6, 7], [1, 1, 2, 1, 1, 1, 1, 1])
    config = TwoStage(negatives=n, candidates=8, sharpness=sharpness, replacement=True)
    negatives = sampled(config, vectors, asked=asked, monkeypatch=monkeypatch)
    law = {
        tuple(asked.items[list(places)].tolist()): chance
        for places, chance in successive_law(law_of(vectors, asked, sharpness), n).items()
    }
    assert negatives.valid.all()
    assert_follows(map(tuple, negatives.items.tolist()), law)


def test_where_fewer_are_near_than_asked_for_the_rest_is_masked(way):
    negatives = sampled(TwoStage(negatives=7, candidates=8, sharpness=0.1), around_item_0(SIMILAR, 8))
    near = [item for item in range(8) if not OWN[item] and SIMILAR[item] >= 0]
    assert negatives.valid.tolist() == [[True] * len(near) + [False] * (7 - len(near))] * FEWEST_DRAWS
    assert negatives.items[:, : len(near)].sort(1).values.unique(dim=0).tolist() == [near]


def test_where_none_is_near_the_others_are_drawn_alike(way):
    vectors = around_item_0([1, -0.9, -0.1, -0.4, -0.6, -0.2, 0.9, -0.3], 8)  # item 6 is her own
    negatives = sampled(TwoStage(negatives=2, candidates=8, sharpness=0.1), vectors)
    assert negatives.valid.all()
    assert_follows(
        map(tuple, negatives.items.tolist()), successive_law([0 if item in (0, 6) else 1 for item in range(8)], 2)
    )


@settings(max_examples=40)
@given(st.integers(2, 40), st.integers(1, 30), st.integers(1, 6), st.integers(0, 10**6), st.sampled_from([0, 0.3]))
def test_only_open_candidates_are_found_and_none_twice(dim, count, n, seed, sharpness):
    random = np.random.default_rng(seed)
    rows = random.random((5, 30)) < 0.4
    train, vectors = interactions(rows.astype(int)), directions(30, dim, seed=seed)
    items = random.permutation(30)[:count]
    times = random.integers(0, 3, count)
    asked = candidates(items.tolist(), times.tolist() if times.any() else None)
    users, positives = (torch.tensor(random.integers(most, size=12)) for most in (5, 30))
    rejection = kernel(train, -sharpness * (dim - 3) / 2)
    places, found = rejection.draw_by_rejection(
        Meeting(users, vectors[positives], asked, vectors[asked.items]), n, generator(seed)
    )
    for user, positive, row, had in zip(users.tolist(), positives.tolist(), places, found.tolist(), strict=True):
        chosen = row[:had]
        assert 0 <= had <= n
        assert len(set(chosen.tolist())) == had
        assert asked.multiplicity[chosen].gt(0).all()
        assert not rows[user, items[chosen]].any()
        assert (vectors[asked.items[chosen]] @ vectors[positive] > -1e-6).all()


@given(st.floats(-60, 3), st.floats(0.05, 0.999), st.floats(0, 1), st.integers(0, (1 << 32) - 1))
def test_the_table_never_refuses_what_may_be_taken(exponent, cap, s, low):
    least, log_most = threshold_table(exponent, cap)
    share = math.exp(exponent * math.log1p(-(min(s, cap) ** 2)) - log_most)
    assert share <= 1 + 1e-9
    if s < least[low * len(least) >> 32]:
        assert low / (1 << 32) >= share
    assert (least >= 0).all()
    assert least.max() <= cap


def test_it_is_only_used_where_it_takes_fewer_looks_than_there_are_candidates():
    def pays(sharpness, n, count, times=1):
        asked = candidates(list(range(count)), [times] * count)
        return kernel(TRAIN, -sharpness * 125 / 2).rejection_pays(asked, n)

    assert pays(0.05, 5, 2000)
    assert not pays(0.05, 11, 2000)
    assert not pays(0.05, 5, 2000, times=3)
    assert not pays(0.05, 1, 100)
    assert not pays(1, 1, 2000)
    assert pays(0, 1, 3)
