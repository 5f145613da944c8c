"""Hard and semi-hard sampling against all the tuples of candidates that there are."""

import pytest
import torch

from spherec.sampling import Hard, SemiHard
from tests.oracles import hardest, image_law, independent_law, law_without, semi_hardest, squared_distance
from tests.sampling.checks import CPU, FEWEST_DRAWS, Space, assert_follows, generator, interactions, pairs

ROWS = [
    [1, 0, 0, 0, 0, 0],
    [1, 1, 0, 1, 0, 0],
    [0, 0, 0, 0, 0, 0],
    [1, 1, 1, 1, 0, 1],
    [1, 1, 1, 1, 1, 1],
]
TRAIN = interactions(ROWS)
USER_ANGLES = [0.0, 0.1, 0.2, 0.3, 0.4]
ITEM_ANGLES = [0.9, 1.2, 0.3, 2.5, 1.05, 0.65]  # seen from user 0, two are nearer than item 0 and one is far beyond it
FEW = [1, 2, 3]
MARGINS = [0.1, 0.25, 0.6, 3.5]


def on_circle(angles):
    angles = torch.tensor(angles, dtype=torch.float64)
    return torch.stack([angles.cos(), angles.sin()], 1).float()


SPACE = Space(on_circle(USER_ANGLES), on_circle(ITEM_ANGLES))


def distances(user):
    return [squared_distance(SPACE.user_table[user].tolist(), item) for item in SPACE.item_table.tolist()]


def enumerated(user, m, choose):
    """[Pr(item)] from all m-tuples of items that the user does not have."""
    free = law_without([1 / 6] * 6, {item for item, has in enumerate(ROWS[user]) if has})
    law = image_law(independent_law(free, m), choose)
    return [law.get(item, 0.0) for item in range(6)]


def hard_law(user, m):
    return enumerated(user, m, lambda places: hardest(places, distances(user)))


def semi_hard_law(user, positive, m, margin):
    of = distances(user)
    return enumerated(user, m, lambda places: semi_hardest(places, of, of[positive], margin))


def make(config):
    return config.build(TRAIN, CPU, initial_items=SPACE.item_table)


def first(config, user, positive, seed=0):
    negatives = make(config).sample(*pairs(user, positive), SPACE, generator(seed))
    assert negatives.valid.all()
    return negatives.items[0].tolist()


@pytest.mark.parametrize("m", FEW)
@pytest.mark.parametrize("user", [0, 1, 2])
def test_hard_draws_the_nearest_to_the_user(user, m):
    assert_follows(first(Hard(FEWEST_DRAWS, m), user, 0, seed=m), hard_law(user, m))


@pytest.mark.parametrize("m", FEW)
@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize(("user", "positive"), [(0, 0), (1, 3), (2, 5)])
def test_semi_hard_draws_the_nearest_that_is_farther_than_the_positive(user, positive, margin, m):
    law = semi_hard_law(user, positive, m, margin)
    assert_follows(first(SemiHard(FEWEST_DRAWS, m, margin), user, positive, seed=m), law)


@pytest.mark.parametrize("m", [*FEW, 5])
def test_hard_states_its_law(m):
    users = [2, 0, 1, 3, 0]
    stated = make(Hard(1, m)).probabilities(torch.tensor(users), torch.zeros(len(users)).long(), SPACE)
    expected = torch.tensor([hard_law(user, m) for user in users])
    torch.testing.assert_close(stated, expected, check_dtype=False, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("m", FEW)
@pytest.mark.parametrize("margin", MARGINS)
def test_semi_hard_states_its_law(margin, m):
    asked = [(0, 0), (1, 3), (2, 5), (2, 4), (3, 1), (0, 0)]
    users, positives = torch.tensor(asked).T
    stated = make(SemiHard(1, m, margin)).probabilities(users, positives, SPACE)
    expected = torch.tensor([semi_hard_law(user, positive, m, margin) for user, positive in asked])
    torch.testing.assert_close(stated, expected, check_dtype=False, rtol=1e-6, atol=1e-12)


def test_a_user_with_every_item_has_no_law():
    assert not make(Hard()).probabilities(torch.tensor([4]), torch.tensor([0]), SPACE).any()
    assert not make(SemiHard()).probabilities(torch.tensor([4]), torch.tensor([0]), SPACE).any()


@pytest.mark.parametrize(
    ("config", "law"), [(Hard(2, 3), hard_law(0, 3)), (SemiHard(2, 3, 0.25), semi_hard_law(0, 0, 3, 0.25))]
)
def test_each_negative_has_candidates_of_its_own(config, law):
    negatives = make(config).sample(*pairs(0, 0, 30_000), SPACE, generator(1))
    both = {(a, b): law[a] * law[b] for a in range(6) for b in range(6)}
    assert_follows(map(tuple, negatives.items.tolist()), both)


@pytest.mark.parametrize("config", [Hard(500, 2), SemiHard(500, 2)])
def test_both_look_at_the_users_vector_as_it_is_now(config):
    sampler = make(config)
    moved = Space(SPACE.user_table.roll(2, 0).neg(), SPACE.item_table)
    before = sampler.sample(*pairs(0, 0), SPACE, generator())
    assert not torch.equal(before.items, sampler.sample(*pairs(0, 0), moved, generator()).items)
