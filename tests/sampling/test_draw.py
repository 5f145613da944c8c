import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spherec.kernels.cpu.negatives import look_up_items, make_guide
from spherec.kernels.reference import Backend
from spherec.sampling.draw import ItemLaw, popularity_weights
from tests.kernels import using
from tests.oracles import law_without
from tests.sampling.checks import CPU, FEWEST_DRAWS, assert_follows, generator, interactions, sparse
from tests.strategies import MATRICES

COUNTS = 10 ** np.arange(6, -1, -1)  # (7,) popularities 10^6 … 1
MANY_USERS = 3_000_000


@pytest.fixture(scope="module")
def long_tail():
    """A million users; item k is with the first COUNTS[k] of them."""
    lengths = np.searchsorted(-COUNTS, -np.arange(COUNTS[0]))  # (U,)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    items = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
    data = sparse(starts, items, len(COUNTS))
    assert data.users_per_item.tolist() == COUNTS.tolist()
    return data


def exact_law(beta):
    logs = beta * np.log(COUNTS.astype(np.float64))
    return np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()


@pytest.mark.parametrize(
    ("beta", "user"), [(-5, 50), (-5, 999_999), (-1, 5_000), (0.8, 50), (0.8, 999_999), (1.2, 5_000), (5, 999_999)]
)
def test_extreme_popularities_are_drawn_by_their_law(long_tail, beta, user):
    draw = ItemLaw(long_tail, popularity_weights(long_tail, beta), CPU)
    items, valid = draw.without(torch.tensor([user]), FEWEST_DRAWS, generator())
    assert valid.all()
    assert_follows(items[0].tolist(), law_without(exact_law(beta).tolist(), set(range(np.sum(user < COUNTS)))))


@pytest.mark.parametrize("beta", [200, -200])
def test_powers_beyond_any_float_leave_the_largest(long_tail, beta):
    draw = ItemLaw(long_tail, popularity_weights(long_tail, beta), CPU)
    assert draw.any(1000, generator()).unique().tolist() == [0 if beta > 0 else len(COUNTS) - 1]


def test_a_million_items_are_drawn_by_their_law():
    weights = 1 / np.arange(1, 10**6 + 1) ** 0.9
    draw = ItemLaw(sparse([0, 2], [0, 7], 10**6), weights, CPU)
    items, _ = draw.without(torch.tensor([0]), 50_000, generator())
    assert not torch.isin(items, torch.tensor([0, 7])).any()
    weights[[0, 7]] = 0
    decades = np.add.reduceat(weights / weights.sum(), [0, 10, 100, 1000, 10_000, 100_000])
    decade_of = torch.tensor([10, 100, 1000, 10_000, 100_000])
    assert_follows(torch.searchsorted(decade_of, items[0], right=True).tolist(), decades.tolist())


@pytest.fixture(scope="module")
def many_users():
    """Three million users, of whom a few have items; every hundred thousandth and the last have two of eight each."""
    lengths = np.zeros(MANY_USERS, dtype=np.int64)
    having = np.append(np.arange(0, MANY_USERS, 100_000), MANY_USERS - 1)
    lengths[having] = 2
    items = np.sort((np.arange(len(having))[:, None] * 3 + [0, 2]) % 8, axis=1)
    return sparse(np.concatenate(([0], np.cumsum(lengths))), items.ravel(), 8), having


@pytest.mark.parametrize("user", [0, 1, 1_500_000, 1_500_001, MANY_USERS - 2, MANY_USERS - 1])
def test_millions_of_users_are_each_drawn_for_by_the_law(many_users, user):
    train, _ = many_users
    weights = np.array([9, 0.1, 4, 1, 1, 7, 0.3, 2])
    items, _ = ItemLaw(train, weights, CPU).without(torch.tensor([user]), FEWEST_DRAWS, generator(user))
    assert_follows(items[0].tolist(), law_without((weights / weights.sum()).tolist(), set(train.items_of(user))))


@given(MATRICES.filter(lambda rows: rows.size), st.data())
def test_what_is_drawn_has_a_weight_and_is_not_her_own(rows, data):
    n_users, n_items = rows.shape
    weights = st.lists(st.sampled_from([0, 1e-12, 0.5, 1, 1, 3, 1e9]), min_size=n_items, max_size=n_items)
    weights = np.array(data.draw(weights.filter(any)), dtype=np.float64)
    users = data.draw(st.lists(st.integers(0, n_users - 1), min_size=1, max_size=6))
    items, valid = ItemLaw(interactions(rows), weights, CPU).without(torch.tensor(users), 20, generator())
    assert items.shape == valid.shape == (len(users), 20)
    assert 0 <= items.min() <= items.max() < n_items
    for user, drawn, found in zip(users, items.tolist(), valid.tolist(), strict=True):
        possible = set(np.flatnonzero((weights > 0) & (rows[user] == 0)))
        assert found == [bool(possible)] * 20
        assert set(drawn) <= possible or not possible


LAWS = {
    "uniform": lambda popularity: np.ones(len(popularity)),
    "some never": lambda popularity: (popularity > 1).astype(float),
    "popular": lambda popularity: popularity**0.8,
    "steep": lambda popularity: np.where(popularity > 0, 10.0 ** (5 * np.minimum(popularity, 3)), 0),
}


@given(MATRICES.filter(np.any), st.sampled_from(sorted(LAWS)), st.integers(1, 4), st.integers(0, 1000))
def test_compiled_loops_name_the_same_items_as_searches_by_torch(rows, law, n, seed):
    train = interactions(rows.astype(int))
    weights = LAWS[law](train.users_per_item.astype(float))
    if not weights.any():
        return
    users = torch.tensor(np.random.default_rng(seed).integers(train.n_users, size=9))
    compiled = ItemLaw(train, weights, CPU)
    with using(Backend()):
        plain = ItemLaw(train, weights, CPU)
    assert torch.equal(compiled.any(50, generator(seed)), plain.any(50, generator(seed)))
    items, valid = compiled.without(users, n, generator(seed))
    expected = plain.without(users, n, generator(seed))
    assert torch.equal(valid, expected[1])
    assert torch.equal(items[valid], expected[0][valid])


@given(st.lists(st.integers(0, 5) | st.integers(0, 10**12), min_size=1, max_size=60).filter(any), st.data())
def test_every_number_names_the_item_that_owns_it(owned, data):
    ends = np.cumsum(owned)
    numbers = np.array(data.draw(st.lists(st.integers(0, int(ends[-1]) - 1), min_size=1)))
    borders = np.concatenate((ends[ends > 0] - 1, ends[ends < ends[-1]], numbers))
    found = np.empty_like(borders)
    look_up_items(borders + ends[-1], ends[-1], ends, *make_guide(ends), found)
    assert found.tolist() == np.searchsorted(ends, borders, side="right").tolist()
