import numpy as np
import pytest
import torch

from spherec import rng
from spherec.kernels.cpu import negatives
from spherec.kernels.reference import Backend
from spherec.sampling import TwoStage, two_stage
from spherec.sampling.draw import popularity_weights
from tests.kernels import using
from tests.oracles import image_law, independent_law, successive_law
from tests.sampling.checks import CPU, FEWEST_DRAWS, assert_follows, generator, interactions, random_rows

WEIGHTS = np.array([4.0, 2.0, 0.0, 1.0, 1.0, 0.5])
LAW = (WEIGHTS / WEIGHTS.sum()).tolist()
TRAIN = interactions(np.eye(6))
ALL_DRAWS = 1000  # for each candidate: then noise is never the cheaper way
NO_DRAWS = 0  # then it always is


def source(count, *, replacement=False, weights=WEIGHTS, train=TRAIN):
    """Two-stage draws with these weights in stage one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_stage, "popularity_weights", lambda *_: weights)
        config = TwoStage(1, candidates=count, replacement=replacement)
        return two_stage.TwoStageSampler(train, config, CPU, initial_items=torch.zeros(len(weights), 8))


def drawn(one, times=FEWEST_DRAWS, seed=0):
    stream = generator(seed)
    return [one.candidates(stream) for _ in range(times)]


@pytest.fixture(params=["first distinct of more draws", "noise over all items"])
def only_way(request, monkeypatch):
    """Takes one of the two ways to draw without replacement, and takes the other away."""
    by_noise = request.param == "noise over all items"
    monkeypatch.setattr(two_stage, "_MOST_DRAWS", NO_DRAWS if by_noise else ALL_DRAWS)
    monkeypatch.delattr(*((negatives, "keep_first_distinct") if by_noise else (rng, "draw_without_replacement")))


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.usefixtures("only_way")
def test_sets_are_drawn_one_after_the_other_without_replacement(count):
    sets = [frozenset(one.items.tolist()) for one in drawn(source(count), seed=count)]
    assert_follows(sets, image_law(successive_law(LAW, count), frozenset))


@pytest.mark.parametrize("count", [1, 2, 4, 5, 6, 2000])
@pytest.mark.usefixtures("only_way")
def test_candidates_are_distinct_and_as_many_as_there_are(count):
    for one in drawn(source(count), times=100):
        items = one.items[one.multiplicity > 0].tolist()
        assert len(items) == len(set(items)) == min(count, 5)
        assert set(items) <= {0, 1, 3, 4, 5}
        assert set(one.multiplicity.tolist()) == {1.0}


@pytest.mark.parametrize(("beta", "way"), [(0.5, "keep_first_distinct"), (30, "noise")])
def test_the_way_is_chosen_by_how_many_draws_the_law_would_take(beta, way, monkeypatch):
    train = interactions(random_rows(60, 400, 0.2))
    other = {"keep_first_distinct": (rng, "draw_without_replacement"), "noise": (negatives, "keep_first_distinct")}[way]
    one = source(100, weights=popularity_weights(train, beta), train=train)
    monkeypatch.delattr(*other)
    for each in drawn(one, times=50):
        assert len(set(each.items.tolist())) == 100
        assert each.multiplicity.eq(1).all()


def test_draws_that_hold_too_few_distinct_items_leave_places_without_a_candidate(monkeypatch):
    monkeypatch.setattr(two_stage, "_SIGMAS", float("-inf"))  # as many draws as candidates, so some repeat
    counts = set()
    for one in drawn(source(4), times=200):
        items = one.items[one.multiplicity > 0].tolist()
        assert len(items) == len(set(items))
        assert one.items.shape == (4,)
        assert 0 <= one.items.min() <= one.items.max() < 6
        counts.add(len(items))
    assert counts == {1, 2, 3, 4}


@pytest.mark.parametrize("count", [1, 3])
def test_with_replacement_multiplicities_are_multinomial(count):
    def multiplicities(one):
        counts = torch.zeros(6).index_add_(0, one.items, one.multiplicity)
        return tuple(counts.int().tolist())

    law = image_law(independent_law(LAW, count), lambda places: tuple(places.count(item) for item in range(6)))
    assert_follows(map(multiplicities, drawn(source(count, replacement=True), seed=count)), law)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("replacement", [False, True])
def test_plain_torch_draws_the_same_candidates(count, replacement):
    ours = source(count, replacement=replacement)
    with using(Backend()):
        theirs = source(count, replacement=replacement)
    for one, other in zip(drawn(ours, times=50), drawn(theirs, times=50), strict=True):
        assert torch.equal(one.items, other.items)
        assert torch.equal(one.multiplicity, other.multiplicity)
