"""What every sampler keeps to. A new one adds its line to SAMPLERS."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spherec.sampling import Hard, Popularity, SemiHard, TwoStage, Uniform
from tests.sampling.checks import CPU, ROWS, generator, interactions, random_rows, space
from tests.strategies import MATRICES

SAMPLERS = [
    Uniform(7),
    Uniform(7, shared=True),
    Popularity(7, beta=1),
    Popularity(7, beta=0),
    Popularity(7, beta=-0.7),
    Popularity(7, beta=5),
    Popularity(7, beta=0.8, shared=True),
    Popularity(7, beta=-0.7, shared=True),
    TwoStage(7),
    TwoStage(7, vectors="frozen"),
    TwoStage(7, replacement=True),
    TwoStage(2, candidates=3),
    TwoStage(2, candidates=3, replacement=True),
    TwoStage(7, beta=-1, sharpness=0),
    TwoStage(7, beta=0),
    TwoStage.as_released(7),
    TwoStage.as_written(7),
    TwoStage.tuned(1),
    Hard(7),
    Hard(7, candidates=1),
    SemiHard(7),
    SemiHard(7, candidates=2, margin=0.1),
]
ONLY_WHAT_SOMEBODY_HAS = Popularity | TwoStage

each_sampler = pytest.mark.parametrize("config", SAMPLERS, ids=repr)

GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")]
each_device = pytest.mark.parametrize("device", [CPU, pytest.param(torch.device("cuda"), marks=GPU)], ids=str)

WIDE = random_rows(80, 150, 0.3)


def is_shared(config):
    return getattr(config, "shared", False)


def always_finds(config):
    """Whether a user who can have a negative gets at least one."""
    return not is_shared(config) and getattr(config, "candidates", 2000) >= 10


def possible_items(config, rows, user):
    """The items that may come back for a user."""
    drawable = rows.any(0) if isinstance(config, ONLY_WHAT_SOMEBODY_HAS) else np.ones(rows.shape[1], bool)
    return set(np.flatnonzero(drawable & (rows[user] == 0)))


def sample(config, rows, users, seed=0, sampler=None, device=CPU):
    train = interactions(rows)
    at = space(train, dim=5).to(device)
    sampler = sampler or config.build(train, device, initial_items=at.item_table)
    positives = torch.tensor(np.argmax(rows, axis=1))[users]  # the first item of each, or 0
    drawn = sampler.sample(torch.as_tensor(users, device=device), positives.to(device), at, generator(seed, device))
    return replace(drawn, items=drawn.items.cpu(), valid=drawn.valid.cpu())


def check(config, rows, users, seed=0, device=CPU):
    """All that holds for any draw."""
    negatives = sample(config, rows, users, seed, device=device)
    count = min(config.negatives, rows.shape[1]) if is_shared(config) else config.negatives  # a pool is no larger
    size = len(users), count
    assert negatives.items.shape == ((1, count) if is_shared(config) else size)
    assert negatives.items.dtype == torch.int64
    assert negatives.valid.shape == size
    assert negatives.valid.dtype == torch.bool
    assert negatives.log_q is None or negatives.log_q.shape == negatives.items.shape
    assert 0 <= negatives.items.min() <= negatives.items.max() < rows.shape[1], "in range even where masked"
    for user, items, valid in zip(users, negatives.items.expand(size), negatives.valid, strict=True):
        possible = possible_items(config, rows, user)
        assert set(items[valid].tolist()) <= possible
        assert valid.any() or not (possible and always_finds(config))


@st.composite
def batches(draw):
    """A matrix with a pair in it, and users, some of them more than once."""
    rows = draw(MATRICES.filter(np.any)).astype(int)
    return rows, draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=6))


@each_sampler
@settings(max_examples=30)
@example((np.array(ROWS), [5]), 0)
@example((np.array(ROWS), [4, 5, 0, 5, 6, 4]), 1)
@example((np.array([[1]]), [0]), 0)
@example((np.array([[1], [0]]), [0, 1, 0, 1]), 0)
@example((np.array([[0, 1, 0]]), [0]), 0)
@example((np.array([[1, 0, 0], [1, 0, 0]]), [0, 1]), 0)
@given(batches(), st.integers(0, 2**32))
def test_shape_range_and_support_on_small_data(config, batch, seed):
    check(config, *batch, seed)


@each_device
@each_sampler
@pytest.mark.parametrize("seed", range(3))
def test_shape_range_and_support_on_larger_data(config, seed, device):
    check(config, WIDE, list(range(80)) * 3, seed, device)


@each_device
@each_sampler
def test_a_user_with_every_item_gets_none_and_the_others_theirs(config, device):
    rows = np.vstack([np.ones((1, 12), int), random_rows(3, 12, 0.3)])
    negatives = sample(config, rows, [1, 0, 2, 0, 3], device=device)
    assert not negatives.valid[[1, 3]].any()
    assert negatives.valid[[0, 2, 4]].any(1).all() or not always_finds(config)


@each_device
@each_sampler
def test_the_same_seed_draws_the_same_whatever_was_drawn_before_and_another_otherwise(config, device):
    train = interactions(WIDE)
    sampler = config.build(train, device, initial_items=space(train, dim=5).to(device).item_table)
    users = list(range(80))
    before, other, again = (sample(config, WIDE, users, seed, sampler, device) for seed in (3, 4, 3))
    assert torch.equal(before.items, again.items)
    assert torch.equal(before.valid, again.valid)
    assert before.log_q is again.log_q is None or torch.equal(before.log_q, again.log_q)
    assert not torch.equal(before.items, other.items)


@each_sampler
def test_the_global_generator_and_what_comes_in_stay_as_they_are(config):
    train = interactions(WIDE)
    at = space(train, dim=5)
    sampler = config.build(train, CPU, initial_items=at.item_table)
    users, positives = torch.arange(80), torch.tensor(np.argmax(WIDE, axis=1))
    given = [users, positives, at.user_table, at.item_table]
    before, state = [one.clone() for one in given], torch.get_rng_state()
    sampler.sample(users, positives, at, generator())
    assert all(torch.equal(one, other) for one, other in zip(given, before, strict=True))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("device", [pytest.param(torch.device("cuda"), marks=GPU)], ids=str)
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@each_sampler
def test_on_a_gpu_nothing_waits_for_the_device(config, device):
    train = interactions(WIDE)
    at, users = space(train, dim=5).to(device), torch.arange(80, device=device)
    sampler, stream = config.build(train, device, initial_items=at.item_table), generator(device=device)
    sampler.sample(users, users * 0, at, stream)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        sampler.sample(users, users * 0, at, stream)
    finally:
        torch.cuda.set_sync_debug_mode("default")
