"""Two-stage sampling against its equations: the law of stage two, what is drawn by it, and both stages together."""

from collections import defaultdict
from dataclasses import replace

import pytest
import torch

from spherec.kernels.protocol import Candidates
from spherec.sampling import TwoStage
from tests.oracles import independent_law, popularity_law, stage_two_law, successive_law
from tests.sampling.checks import (
    FEWEST_DRAWS,
    Space,
    around_item_0,
    assert_follows,
    generator,
    interactions,
    pairs,
    two_stage,
)

ROWS = [
    [1, 0, 0, 0, 0, 0, 0],
    [0, 1, 1, 1, 1, 1, 0],
    [1, 0, 1, 0, 0, 1, 0],
    [1, 1, 1, 1, 1, 1, 0],
]
TRAIN = interactions(ROWS)
SIMILARITIES = [1, 0.8, 0.6, 0.3, 0.1, -0.4, 0.95]  # of item 0 to each; nobody has item 6
MANY_SIMILARITIES = [1, 1, 0.97, 0.9, 0.5, 0.5, 0.5, 0.3, 0.02, -0.02, -0.5, -1]


def space(items):
    return Space(torch.zeros(len(ROWS), items.shape[1], dtype=items.dtype), items)


def one_user(n_items, own):
    return interactions([[int(item in own) for item in range(n_items)], [1] * n_items])


def law_of(config, items, own, candidates, multiplicity):
    """The sampler's law and the oracle's, for the pair (0, 0)."""
    sampler = two_stage(one_user(len(items), own), config, items)
    asked = Candidates(torch.tensor(candidates), torch.tensor(multiplicity, dtype=torch.float32))
    stated = sampler.probabilities(
        torch.tensor([0]), torch.tensor([0]), asked, replace(space(items), constraint="ball")
    )[0]
    allowed = [0 if item in own else times for item, times in zip(candidates, multiplicity, strict=True)]
    vectors = items.double().tolist()
    others = [vectors[item] for item in candidates]
    return stated, torch.tensor(stage_two_law(vectors[0], others, config.sharpness, config.cap, allowed)).double()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("cap", [0.3, 0.875, 0.95])
@pytest.mark.parametrize("sharpness", [0, 0.05, 1])
@pytest.mark.parametrize("dim", [2, 3, 8, 128, 512])
def test_stage_two_is_the_inverse_density_of_the_dot_product(dim, sharpness, cap, dtype):
    items = around_item_0(MANY_SIMILARITIES, dim, dtype)
    candidates = [11, 0, 3, 1, 2, 4, 6, 5, 7, 9, 8, 10]
    multiplicity = [1, 1, 1, 2, 1, 1, 3, 1, 0, 1, 1, 1]
    config = TwoStage(negatives=1, sharpness=sharpness, cap=cap)
    stated, expected = law_of(config, items, {0, 4}, candidates, multiplicity)
    tolerance = 1e-6 if dtype == torch.float64 else 2e-3  # in float32 an error of 1e-7 in s is raised to the power D
    torch.testing.assert_close(stated.double(), expected, rtol=tolerance, atol=1e-30)
    assert stated.sum() == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize(
    ("similarities", "own"),
    [([1, -0.1, -0.9, -0.5], {0}), ([1, -0.1, 0.7, -0.5], {0, 2})],
    ids=["none at all", "none but her own"],
)
def test_where_none_is_near_candidates_are_drawn_as_they_came(similarities, own):
    items = around_item_0(similarities, 8)
    stated, expected = law_of(TwoStage(sharpness=1), items, own, [3, 0, 1, 2], [1, 1, 2, 1])
    torch.testing.assert_close(stated.double(), expected)
    assert stated[2] == pytest.approx(2 * stated[0])


def test_a_user_with_all_candidates_has_no_law():
    stated, expected = law_of(TwoStage(), around_item_0([1, 0.5, 0.2], 8), {0, 1, 2}, [0, 1, 2], [1, 1, 1])
    assert stated.tolist() == expected.tolist() == [0, 0, 0]


def test_lengths_of_vectors_play_no_part():
    items = around_item_0(MANY_SIMILARITIES, 8)
    lengths = torch.linspace(0.2, 3, len(items)).double()[:, None]
    asked = {0}, list(range(12)), [1] * 12
    torch.testing.assert_close(
        law_of(TwoStage(sharpness=1), items * lengths, *asked)[0], law_of(TwoStage(sharpness=1), items, *asked)[0]
    )


def items_law(similarities=SIMILARITIES, sharpness=0.5, dim=8):
    """Stage two over all items that anybody has, for user 0 and item 0."""
    vectors = around_item_0(similarities, dim).tolist()
    return stage_two_law(vectors[0], vectors, sharpness, 0.875, [0, 1, 1, 1, 1, 1, 0])


def drawn_at_once(config, similarities=SIMILARITIES, seed=0):
    """User 0's negatives to item 0, in many rows that share their candidates."""
    items = around_item_0(similarities, 8).float()
    return two_stage(TRAIN, config, items).sample(*pairs(0, 0, FEWEST_DRAWS), space(items), generator(seed))


@pytest.mark.parametrize("n", [2, 3])
def test_negatives_are_drawn_one_after_the_other_without_replacement(n):
    negatives = drawn_at_once(TwoStage(negatives=n, sharpness=0.5), seed=n)
    assert negatives.valid.all()
    assert_follows(map(tuple, negatives.items.tolist()), successive_law(items_law(), n))


@pytest.mark.parametrize("replacement", [False, True])
def test_both_stages_together_follow_the_sum_over_all_candidates(replacement):
    config = TwoStage(negatives=1, candidates=3, beta=0.8, sharpness=0.5, replacement=replacement)
    vectors = around_item_0(SIMILARITIES, 8).tolist()
    stage_one = (independent_law if replacement else successive_law)(popularity_law(ROWS, 0.8), 3)
    law = defaultdict(float)
    for places, probability in stage_one.items():
        allowed = [0 if item == 0 else 1 for item in places]
        stage_two = stage_two_law(vectors[0], [vectors[item] for item in places], 0.5, 0.875, allowed)
        for item, chance in zip(places, stage_two, strict=True):
            law[item] += probability * chance
        law["none"] += probability * (not any(allowed))
    stream, at = generator(), space(around_item_0(SIMILARITIES, 8).float())
    sampler, pair = two_stage(TRAIN, config, at.item_table), pairs(0, 0)
    with torch.inference_mode():
        draws = [sampler.sample(*pair, at, stream) for _ in range(FEWEST_DRAWS)]
    assert_follows((one.items.item() if one.valid.item() else "none" for one in draws), dict(law))
