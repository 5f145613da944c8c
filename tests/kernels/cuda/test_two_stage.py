"""Negatives: both stages against their laws and what they replace, draws without a user's items, and who has what."""

from bisect import bisect_right

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from scipy.stats import kstest

from spherec.kernels.cuda import CudaBackend, negatives
from spherec.kernels.reference.negatives import first_distinct
from spherec.sampling import TwoStage
from spherec.sampling.draw import ItemLaw, items_of_users, popularity_weights
from tests.kernels import using
from tests.kernels.cuda.conftest import DEVICE, INTERPRETED
from tests.kernels.test_membership import check
from tests.oracles import successive_law
from tests.sampling.checks import ROWS, assert_follows, generator, interactions, random_rows, space, sparse, two_stage

LAW_PAIRS = 200 if INTERPRETED else 20_000


@pytest.mark.parametrize(
    ("n_items", "draws", "count"),
    [(1, 1, 1), (50, 200, 20), (10, 300, 10), (10, 300, 12), (40, 5, 30), (3000, 2500, 700), (9000, 1025, 1025)],
)
def test_the_first_distinct_are_those_without_triton(n_items, draws, count):
    weights = np.maximum(10**6 // np.arange(1, n_items + 1), 1)
    ends = torch.tensor(np.cumsum(weights), device=DEVICE)
    total, first_draws, stream = int(ends[-1]), negatives.make_first_draws(n_items, DEVICE), generator(device=DEVICE)
    for _ in range(2):  # the second batch finds the entries of the first
        random = torch.empty(draws, dtype=torch.int64, device=DEVICE).random_(generator=stream)
        found, known = negatives.find_first_distinct(random, ends, total, count, first_draws)
        expected = first_distinct(torch.searchsorted(ends, random % total, right=True), count)
        assert torch.equal(found, expected.items)
        assert known.tolist() == [expected.multiplicity.sum()]


@triton.jit
def _noise(seed, out, size: tl.constexpr):
    at = tl.arange(0, size)
    tl.store(out + at, tl.rand(tl.load(seed), at))


def noise(seed, shape):
    """What the kernel draws under this seed."""
    size = triton.next_power_of_2(int(np.prod(shape)))
    out = torch.empty(size, device=DEVICE)
    _noise[(1,)](torch.tensor([seed], device=DEVICE), out, size)
    return out[: np.prod(shape)].reshape(shape).cpu()


SEED = 7_000_000_000_000_000_003
HELD = np.vstack((random_rows(6, 40, 0.3), np.zeros((1, 40)), np.ones((1, 40)), np.arange(40) >= 5)).astype(int)
NO_ITEM, EVERY_ITEM, MOST_ITEMS = 6, 7, 8


class Asked:
    """What stage two was asked for, and what it drew: for 27 pairs, of 30 places for candidates with 23 in them."""

    exponent, cap, n, known = -1.3, 0.875, 4, 23
    users = torch.tensor([*range(9), *range(9), *[NO_ITEM] * 9])
    candidates = torch.cat((torch.randperm(40, generator=generator(1))[:23], torch.zeros(7, dtype=torch.int64)))

    def __init__(self):
        self.similarity = torch.empty(27, 30).uniform_(-1, 1, generator=generator(2))
        self.own = torch.tensor(HELD)[self.users][:, self.candidates[:23]] > 0  # (27, 23)
        self.similarity[9:12].abs_().neg_()  # none is near
        self.similarity[12:14, :23] = torch.where(self.own[12:14], 0.9, -0.5)  # none but her own
        self.similarity[20, 5:] = -0.1
        self.similarity[21] = torch.where(torch.arange(30) % 3 == 0, 0.0, -0.5)
        self.near = ~self.own & (self.similarity[:, :23] >= 0)  # (27, 23)
        self.open = torch.where(self.near.any(1, keepdim=True), self.near, ~self.own)  # (27, 23)

    def drawn(self, seed=SEED):
        closed = torch.tensor(HELD)[self.users][:, self.candidates] > 0  # (27, 30)
        items, valid = negatives.draw_distinct(
            self.similarity.to(DEVICE),
            closed.to(DEVICE),
            (self.candidates.to(DEVICE), torch.tensor([self.known], device=DEVICE)),
            torch.tensor([seed], device=DEVICE),
            exponent=self.exponent,
            cap=self.cap,
            n=self.n,
        )
        return items.cpu(), valid.cpu()


@pytest.fixture(scope="module")
def asked():
    asked = Asked()
    asked.items, asked.valid = asked.drawn()
    return asked


def test_what_is_drawn_is_distinct_and_open_until_nothing_is_left(asked):
    assert 0 <= asked.items.min() <= asked.items.max() < 40
    places = {item: place for place, item in enumerate(asked.candidates[:23].tolist())}
    for row, (items, valid) in enumerate(zip(asked.items.tolist(), asked.valid.tolist(), strict=True)):
        left = int(asked.open[row].sum())
        assert valid == [place < left for place in range(4)]
        chosen = items[: min(left, 4)]
        assert len(set(chosen)) == len(chosen)
        assert all(asked.open[row, places[item]] for item in chosen)
    assert not asked.valid[asked.users == EVERY_ITEM].any()
    assert asked.valid[asked.users == NO_ITEM].any(1).all()
    assert ((asked.open.sum(1) > 0) & (asked.open.sum(1) < 4)).any(), "to some, few are left"


def test_what_is_drawn_has_the_largest_of_weight_and_noise(asked):
    s = asked.similarity[:, :23].double().clamp(0, asked.cap)
    log_weights = torch.where(asked.near.any(1, keepdim=True), asked.exponent * torch.log1p(-s.square()), 0.0)
    keys = log_weights - (-noise(SEED, (27, 30))[:, :23].double().log()).log()
    best, places = keys.masked_fill(~asked.open, float("-inf")).topk(4)
    assert torch.equal(asked.valid, best > float("-inf"))
    assert torch.equal(asked.items[asked.valid], asked.candidates[places][asked.valid])


def test_noise_is_uniform_and_another_under_every_seed(asked):
    ones = noise(SEED, (64, 128))
    assert kstest(ones.flatten(), "uniform").pvalue > 1e-4
    for seed in (SEED + 1, SEED - (1 << 40)):  # the upper half of a seed counts, too
        others = noise(seed, (64, 128))
        assert abs(np.corrcoef(ones.flatten(), others.flatten())[0, 1]) < 0.05
    assert not torch.equal(asked.drawn(SEED - (1 << 40))[0], asked.items)


def test_draws_follow_the_law_of_stage_two(monkeypatch):
    monkeypatch.setattr("tests.sampling.checks.FEWEST_DRAWS", LAW_PAIRS)
    s = torch.tensor([0.9, 0.8, -0.2, 0.5, 0.0, 0.95])
    items, valid = negatives.draw_distinct(
        s.repeat(LAW_PAIRS, 1).to(DEVICE),
        (torch.arange(6, device=DEVICE) == 0).repeat(LAW_PAIRS, 1),
        (torch.arange(6, device=DEVICE), torch.tensor([6], device=DEVICE)),
        torch.tensor([SEED], device=DEVICE),
        exponent=-1.5,
        cap=0.875,
        n=2,
    )
    assert valid.all()
    weights = [0, (1 - 0.8**2) ** -1.5, 0, (1 - 0.5**2) ** -1.5, 1, (1 - 0.875**2) ** -1.5]
    assert_follows(map(tuple, items.tolist()), successive_law(weights, 2))


@pytest.mark.parametrize(("count", "candidates"), [(3, 10), (20, 20)], ids=["some", "more than there are"])
def test_the_sampler_draws_what_users_do_not_have_batch_after_batch(monkeypatch, count, candidates):
    monkeypatch.setattr("spherec.sampling.two_stage._MOST_DRAWS", 1000)  # else noise would find all items sooner
    rows = np.vstack((random_rows(4, 16, 0.4), np.ones((1, 16)))).astype(int)
    train, stream = interactions(rows), generator(device=DEVICE)
    config, items = TwoStage(count, candidates=candidates), space(train).item_table.to(DEVICE)
    with using(CudaBackend()):
        sampler = two_stage(train, config, items, DEVICE)
    users = torch.tensor([4, 0, 1, 2, 3, 3], device=DEVICE)
    for _ in range(3):
        drawn = sampler.sample(users, users * 0, space(train).to(DEVICE), stream)
        items, valid = drawn.items.cpu(), drawn.valid.cpu()
        assert items.shape == valid.shape == (6, count)
        assert not rows[users.cpu()[:, None], items][valid.numpy()].any()
        assert valid.any(1).tolist() == [False] + [True] * 5
        assert all(len(set(one[found].tolist())) == found.sum() for one, found in zip(items, valid, strict=True))


@triton.jit
def _search(values, low, high, wanted, out, rounds: tl.constexpr, size: tl.constexpr):
    at = tl.arange(0, size)
    found = negatives.first_above(values, tl.load(low + at), tl.load(high + at), tl.load(wanted + at), rounds)
    tl.store(out + at, found)


@pytest.mark.parametrize("values", [[4], [0, 0, 0], [2, 2, 5, 9], [-3, 1, 1, 1, 7, 8, 1 << 40]], ids=str)
def test_the_first_above_is_found_between_any_two_places(values):
    ends = range(len(values) + 1)
    wanted = [-4, 0, 1, 2, 4, 5, 6, 9, 1 << 40, (1 << 40) - 1]
    asked = [(low, high, one) for low in ends for high in ends if low <= high for one in wanted]
    asked += [(0, 0, 0)] * (512 - len(asked))
    lows, highs, wanteds = torch.tensor(asked, device=DEVICE).T.contiguous()
    found = torch.empty_like(lows)
    _search[(1,)](torch.tensor(values, device=DEVICE), lows, highs, wanteds, found, len(values).bit_length(), 512)
    assert found.tolist() == [bisect_right(values, one, low, high) for low, high, one in asked]


WIDE = random_rows(30, 70, 0.3)
LAWS = {
    "uniform": (ROWS, np.ones(6)),
    "popular": (ROWS, popularity_weights(interactions(ROWS), 0.8)),
    "extreme": (ROWS, np.array([1e9, 0, 1e-12, 1, 3, 0])),
    "last": (ROWS, np.array([0, 0, 0, 0, 0, 2.0])),
    "one item": ([[0], [1]], np.ones(1)),
    "nobody has any": ([[0, 0, 0]], np.array([1.0, 2, 3])),
    "one user": ([[1] * 15 + [0]], np.arange(1.0, 17)),
    "many": (WIDE, popularity_weights(interactions(WIDE), -0.5)),
}


@pytest.mark.parametrize("n", [1, 7])
@pytest.mark.parametrize("law", LAWS)
def test_draws_without_a_users_items_are_those_without_triton(both, law, n):
    rows, weights = LAWS[law]
    ours, theirs = both(lambda: ItemLaw(interactions(rows), weights, DEVICE))
    users = torch.arange(len(rows), device=DEVICE).flip(0).repeat(5)
    (items, valid), expected = (one.without(users, n, generator(device=DEVICE)) for one in (ours, theirs))
    assert torch.equal(items, expected[0])
    assert torch.equal(valid, expected[1])
    assert 0 <= items.min() <= items.max() < len(weights)
    for user, drawn, found in zip(users.tolist(), items.tolist(), valid.tolist(), strict=True):
        possible = {item for item, weight in enumerate(weights) if weight > 0 and not rows[user][item]}
        assert found == [bool(possible)] * n
        assert set(drawn) <= possible or not possible


def test_draws_for_many_users_are_those_without_triton(both):
    many = 1 << 18  # then users times numbers come near to what 64 bits hold
    starts = np.maximum(np.arange(many + 1) - many + 6, 0)  # the last six have one item each
    train, weights = sparse(starts, [0, 1, 2, 3, 4, 0], 5), np.array([5, 1e-3, 1, 9, 2])
    ours, theirs = both(lambda: ItemLaw(train, weights, DEVICE))
    users = torch.arange(many - 8, many, device=DEVICE)
    (items, _), (expected, _) = (one.without(users, 40, generator(device=DEVICE)) for one in (ours, theirs))
    assert torch.equal(items, expected)


NOTHING, EVERYTHING = np.zeros((1, 300)), np.ones((1, 300))


@pytest.mark.parametrize("share", [0, 0.003, 0.1, 0.9])
def test_the_mask_is_the_matrix(share):
    rows = np.vstack((NOTHING, random_rows(10, 300, share), EVERYTHING * (share > 0), NOTHING)).astype(int)
    membership = CudaBackend().membership(items_of_users(interactions(rows)), DEVICE)
    check(membership, rows, [12, 3, 3, 0, 11, *range(1, 11)], [*range(299, -1, -1), *range(0, 300, 7)], DEVICE)
    assert membership.mask(torch.tensor([], device=DEVICE).long(), torch.tensor([0, 2], device=DEVICE)).shape == (0, 2)
