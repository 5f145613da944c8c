import numpy as np
import pytest
import torch

from spherec.sampling import Popularity, Uniform
from tests.oracles import law_without, popularity_law
from tests.sampling.checks import CPU, FEWEST_DRAWS, ROWS, assert_follows, generator, interactions, pairs, space

TRAIN = interactions()
SPACE = space(TRAIN)
UNIFORM_LAW = [1 / 6] * 6
BETAS = [-1.5, -0.3, 0, 0.8, 1, 3]
LAWS = [
    pytest.param(Uniform, {}, UNIFORM_LAW, id="uniform"),
    *(pytest.param(Popularity, {"beta": beta}, popularity_law(ROWS, beta), id=f"beta {beta}") for beta in BETAS),
]


def items_of(user):
    return {item for item, has in enumerate(ROWS[user]) if has}


def make(config, options, **more):
    return config(**options, **more).build(TRAIN, CPU, initial_items=SPACE.item_table)


@pytest.mark.parametrize("user", [0, 2, 4, 6, 7])
@pytest.mark.parametrize(("config", "options", "law"), LAWS)
def test_a_user_is_drawn_for_from_what_she_does_not_have(config, options, law, user):
    negatives = make(config, options, negatives=FEWEST_DRAWS).sample(*pairs(user, 0), SPACE, generator(user))
    assert negatives.valid.all()
    expected = law_without(law, items_of(user))
    if np.count_nonzero(expected) == 1:
        assert set(negatives.items[0].tolist()) == set(np.flatnonzero(expected))
    else:
        assert_follows(negatives.items[0].tolist(), expected)


@pytest.mark.parametrize(("config", "options", "law"), LAWS)
def test_a_shared_draw_leaves_no_item_out(config, options, law):
    sampler, random, drawn = make(config, options, negatives=50, shared=True), generator(2), []
    while len(drawn) < FEWEST_DRAWS:
        negatives = sampler.sample(torch.arange(8), torch.zeros(8).long(), SPACE, random)
        drawn += negatives.items[0].tolist()
    assert negatives.items.shape[1] == min(50, len(law))  # no more than there are items
    assert_follows(drawn, law)


@pytest.mark.parametrize(("config", "options", "law"), LAWS)
def test_a_shared_draw_masks_exactly_what_each_user_has(config, options, law):
    users = torch.tensor([5, 0, 4, 2, 0])
    negatives = make(config, options, negatives=50, shared=True).sample(users, users * 0, SPACE, generator(3))
    expected = [[not ROWS[user][item] for item in negatives.items[0].tolist()] for user in users.tolist()]
    assert negatives.valid.tolist() == expected


@pytest.mark.parametrize(("config", "options", "law"), LAWS)
def test_the_stated_law_is_the_formula(config, options, law):
    torch.testing.assert_close(
        make(config, options).probabilities(), torch.tensor(law, dtype=torch.float64), rtol=1e-6, atol=0
    )


@pytest.mark.parametrize(("config", "options", "law"), LAWS)
def test_the_stated_law_for_users_is_the_formula_without_their_items(config, options, law):
    users = [3, 0, 1, 2, 3, 4, 5, 6, 7]
    expected = torch.tensor([law_without(law, items_of(user)) for user in users], dtype=torch.float64)
    stated = make(config, options).probabilities_for(torch.tensor(users))
    torch.testing.assert_close(stated, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("config", "options", "law"), LAWS)
def test_each_draw_comes_with_the_logarithm_of_its_probability(config, options, law, shared):
    sampler = make(config, options, negatives=40, shared=shared)
    negatives = sampler.sample(torch.tensor([0, 1, 4]), torch.tensor([0, 0, 0]), SPACE, generator(4))
    expected = torch.tensor(law).log()[negatives.items]
    torch.testing.assert_close(negatives.log_q, expected.float(), rtol=1e-5, atol=1e-6)
