"""The samplers on a GPU: the same answers as on the CPU, the same laws, and no wait for the device."""

import numpy as np
import pytest
import torch

from spherec.kernels.protocol import Candidates
from spherec.rng import torch_stream
from spherec.sampling import Hard, Popularity, SemiHard, TwoStage, Uniform
from tests.oracles import law_without, popularity_law, successive_law
from tests.sampling.checks import (
    FEWEST_DRAWS,
    ROWS,
    assert_follows,
    interactions,
    pairs,
    random_rows,
    space,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode"),
]
CUDA = torch.device("cuda")
SAMPLERS = [
    Uniform(7),
    Uniform(500, shared=True),
    Popularity(7, beta=0.8),
    Popularity(7, beta=-0.7),
    Popularity(500, beta=0.8, shared=True),
    TwoStage(5, candidates=50),
    TwoStage(5, candidates=50, replacement=True),
    TwoStage(5, candidates=50, beta=-1),
    TwoStage.tuned(2),
    TwoStage.as_released(5),
    TwoStage.as_written(5),
    Hard(7),
    SemiHard(7),
]
WIDE = random_rows(200, 300, 0.2)
POSITIVES = torch.tensor(WIDE.argmax(1))

each_sampler = pytest.mark.parametrize("config", SAMPLERS, ids=repr)


def stream(seed=0):
    return torch_stream(seed, "test", device=CUDA)


def on(device, vectors):
    return type(vectors)(vectors.user_table.to(device), vectors.item_table.to(device))


def ready(config, rows=WIDE):
    """A sampler on the GPU, and vectors there."""
    train = interactions(rows)
    at = on(CUDA, space(train, dim=16))
    return config.build(train, CUDA, initial_items=at.item_table), at


@pytest.fixture
def no_waiting():
    """Makes every wait of the host for the device an error, once it is called."""
    yield lambda: torch.cuda.set_sync_debug_mode("error")
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("config", [Uniform(FEWEST_DRAWS), Popularity(FEWEST_DRAWS, 0.8), Popularity(FEWEST_DRAWS, -2)])
@pytest.mark.parametrize("user", [0, 2, 4])
def test_fixed_laws_are_followed(config, user):
    sampler, at = ready(config, np.array(ROWS))
    users, positives = (one.to(CUDA) for one in pairs(user, 0))
    law = [1 / 6] * 6 if isinstance(config, Uniform) else popularity_law(ROWS, config.beta)
    own = {item for item, has in enumerate(ROWS[user]) if has}
    assert_follows(sampler.sample(users, positives, at, stream(user)).items[0].tolist(), law_without(law, own))


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("sharpness", [0.05, 1])
def test_stage_two_is_followed(sharpness, n):
    config = TwoStage(n, sharpness=sharpness)
    sampler, at = ready(config, np.array(ROWS))
    users, positives = (one.to(CUDA) for one in pairs(4, 0, FEWEST_DRAWS))
    every = Candidates(torch.arange(6, device=CUDA), torch.ones(6, device=CUDA))
    law = sampler.probabilities(users[:1], positives[:1], every, at)[0].double()
    negatives = sampler.sample(users, positives, at, stream(n))
    assert negatives.valid.all()
    assert_follows(map(tuple, negatives.items.tolist()), successive_law((law / law.sum()).tolist(), n))


@pytest.mark.parametrize("replacement", [False, True])
def test_stage_one_is_followed(replacement):
    sampler, _ = ready(TwoStage(1, candidates=1, beta=0.8, replacement=replacement), np.array(ROWS))
    generator = stream()
    drawn = torch.cat([sampler.candidates(generator).items for _ in range(FEWEST_DRAWS)])
    assert_follows(drawn.tolist(), popularity_law(ROWS, 0.8))


@each_sampler
def test_sampling_never_waits_for_the_device(config, no_waiting):
    sampler, at = ready(config)
    users, positives, generator = torch.arange(200, device=CUDA), POSITIVES.to(CUDA), stream()
    sampler.sample(users, positives, at, generator)
    torch.cuda.synchronize()
    no_waiting()
    for _ in range(3):
        sampler.sample(users, positives, at, generator)
