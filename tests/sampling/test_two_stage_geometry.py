"""Which vectors two-stage sampling looks at, and that no vectors break it."""

import pytest
import torch

from spherec.geometry import DenseVectors
from spherec.sampling import TwoStage
from tests.sampling.checks import CPU, directions, generator, interactions, random_rows, space

ROWS = random_rows(40, 60, 0.15)
TRAIN = interactions(ROWS)
SPACE = space(TRAIN, dim=16)
USERS = torch.arange(40)
POSITIVES = torch.tensor(ROWS.argmax(1))


def make(config, initial=SPACE.item_table):
    return config.build(TRAIN, CPU, initial_items=initial)


def drawn(sampler, at, seed=0):
    return sampler.sample(USERS, POSITIVES, at, generator(seed)).items


def moved(seed=50):
    return space(TRAIN, dim=16, seed=seed)


@pytest.mark.parametrize("config", [TwoStage.as_written(5), TwoStage.tuned(5)], ids=repr)
def test_live_vectors_that_move_in_place_move_the_draws(config):
    sampler, at = make(config), moved()
    before = drawn(sampler, at)
    at.item_table.copy_(directions(60, 16, seed=99))
    assert not torch.equal(before, drawn(sampler, at))


def test_an_item_that_moves_to_the_positive_is_drawn_for_it():
    near = SPACE.item_table.clone()
    near[7] = near[POSITIVES[0]]
    assert not ROWS[0][7]
    sampler = make(TwoStage.as_written(1))
    seeds = range(200)

    def share(at):
        return sum(drawn(sampler, at, seed)[0].item() == 7 for seed in seeds) / len(seeds)

    assert share(DenseVectors(SPACE.user_table, near)) > 0.5 > 0.2 > share(SPACE)


def test_frozen_vectors_are_the_initial_ones_wherever_the_others_go():
    initial = SPACE.item_table.clone()
    frozen, live = make(TwoStage.as_released(5), initial), make(TwoStage.as_written(5))
    assert torch.equal(drawn(frozen, moved()), drawn(live, SPACE))
    initial.zero_()  # the tensor that they came from
    assert torch.equal(drawn(frozen, moved(70)), drawn(live, SPACE))


SAME = torch.ones(60)
TABLES = {"same": SAME, "opposite": SAME * (-1) ** torch.arange(60), "zeros": 0 * SAME}


@pytest.mark.parametrize("lengths", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("sharpness", [0, 1, 1000])
@pytest.mark.parametrize("dim", [1, 2, 3, 512])
@pytest.mark.parametrize("cap", [0.875, 0.999999])
def test_degenerate_vectors_still_give_negatives(lengths, sharpness, dim, cap):
    sampler = make(TwoStage(4, sharpness=sharpness, cap=cap))
    at = DenseVectors(torch.zeros(40, dim), lengths[:, None] * directions(1, dim))
    law = sampler.probabilities(USERS, POSITIVES, sampler.candidates(generator()), at)
    torch.testing.assert_close(law.sum(1), torch.ones(40))
    negatives = sampler.sample(USERS, POSITIVES, at, generator())
    assert negatives.valid.all()
    assert not ROWS[USERS[:, None], negatives.items].any()


@pytest.mark.parametrize("dim", [64, 192, 512])
def test_however_much_the_nearest_outweighs_the_others_all_places_are_filled(dim):
    at = space(TRAIN, dim=dim)
    at.item_table[:] = at.item_table.abs()  # all of them near enough to be drawn
    at.item_table[7] = at.item_table[POSITIVES[0]]
    negatives = make(TwoStage.as_written(5)).sample(USERS, POSITIVES, at, generator())
    assert negatives.valid.all()
