"""The exact ranker against plain loops: order, ties, items left out, lists that are too long, blocks."""

import math
from operator import mul

import numpy as np
import pytest
import torch

from spherec.geometry import DenseVectors
from spherec.ranking import ExactRanker
from spherec.ranking.exact import _choose_columns
from tests.sampling.checks import directions, interactions, random_rows, unit


def ranked(users, items, k, *, own=None, constraint="sphere", of=None):
    vectors = DenseVectors(torch.as_tensor(users).float(), torch.as_tensor(items).float(), constraint)
    of = np.arange(len(users)) if of is None else np.array(of)
    return ExactRanker(vectors).top(of, k, without=None if own is None else interactions(own))


SIZES = [(1, 1024, 1 << 17), (7, 5, 1 << 17), (64, 1024, 1 << 17), (1 << 24, 7, 1 << 17), (1 << 24, 3, 7), (20, 9, 1)]


@pytest.fixture(params=SIZES, ids=lambda sizes: " by ".join(map(str, sizes)))
def block(request, monkeypatch):
    """Scores held at once, items multiplied at once, and items in a block."""
    scores, columns, items = request.param
    for name, value in (("_SCORES", scores), ("_COLUMNS", columns), ("_FEW_QUERIES", 2)):
        monkeypatch.setattr(f"spherec.ranking.exact.{name}", value)
    monkeypatch.setattr("spherec.geometry._BLOCK", items)


@pytest.mark.parametrize("n_items", [1023, 1024, 1025, 4097, 9999])
def test_identical_items_tie_wherever_they_are_multiplied(n_items):
    users, items = directions(70, 128), directions(1, 128, 1).repeat(n_items, 1)
    assert ranked(users, items, 9).items.tolist() == [list(range(9))] * 70
    own = np.zeros((70, n_items), int)
    own[:, : n_items - 20] = 1
    assert ranked(users, items, 9, own=own).items.tolist() == [list(range(n_items - 20, n_items - 11))] * 70


def close_items(n, dim, seed=3):
    """Items in a few places, many off by the last bits only: rounding decides how a product orders them."""
    base = directions(8, dim, seed)[torch.arange(n) % 8]
    noise = directions(n, dim, seed + 1) * 2e-7 * (torch.arange(n) % 5)[:, None]
    return torch.nn.functional.normalize(base + noise, dim=1)


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("n_items", [60, 700])
def test_a_list_does_not_depend_on_what_else_is_ranked(n_items, constraint, block):
    users, items = directions(40, 24), close_items(n_items, 24)
    reach = torch.linspace(-0.2, 0.3, n_items)[:, None].round(decimals=1).contiguous()
    vectors = DenseVectors(users, items, constraint, reach)
    ranker, own = ExactRanker(vectors), interactions(random_rows(40, n_items, 0.1))
    dial = np.linspace(-1, 1, 40, dtype=np.float32)
    together = ranker.top(np.arange(40), 12, without=own, mainstream=dial)
    for user in range(0, 40, 7):
        alone = ranker.top(np.array([user]), 12, without=own, mainstream=dial[user : user + 1])
        longer = ranker.top(np.array([user]), 30, without=own, mainstream=dial[user : user + 1])
        for other in (alone.items[0], longer.items[0, :12]):
            assert other.tolist() == together.items[user].tolist()
        assert alone.scores[0].tobytes() == longer.scores[0, :12].tobytes() == together.scores[user].tobytes()


def test_scores_are_rounded_once_and_decide():
    users, items = directions(5, 24), close_items(900, 24)
    result = ExactRanker(DenseVectors(users, items)).top(np.arange(5), 40)
    exact = np.array([[math.fsum(map(mul, u, v)) for v in items.tolist()] for u in users.tolist()])
    rounded = exact.astype(np.float32)  # (5, 900); each product is exact in double precision
    for row, found, scores in zip(rounded, result.items, result.scores, strict=True):
        assert scores.tolist() == np.sort(row)[::-1][:40].tolist()
        assert found.tolist() == np.lexsort((np.arange(900), -row))[:40].tolist()


@pytest.fixture
def set_precision():
    yield torch.set_float32_matmul_precision
    torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(("precision", "bits", "spread"), [("high", 13, 2e-4), ("medium", 16, 2e-3)])
def test_factors_that_torch_shortens_do_not_change_lists(precision, bits, spread, set_precision, monkeypatch):
    items = unit(directions(1, 16) + spread * directions(3000, 16, seed=1))
    users = directions(12, 16, seed=2)
    expected = ranked(users, items, 5)

    def shorten(numbers):
        return (numbers.view(torch.int32) & -(1 << bits)).view(torch.float32)

    def multiply(queries, rows, products):
        torch.mm(shorten(queries.contiguous()), shorten(rows.contiguous()).T, out=products)

    monkeypatch.setattr("spherec.ranking.exact._multiply", multiply)
    set_precision(precision)
    found = ranked(users, items, 5)
    assert found.items.tolist() == expected.items.tolist()
    assert found.scores.tobytes() == expected.scores.tobytes()


@pytest.mark.parametrize("n", [1, 3, 20])
@pytest.mark.parametrize("columns", [5000, 5183])
def test_the_largest_of_many_columns_are_chosen_by_tiles(n, columns):
    scores = directions(9, columns)
    scores[0, :200], scores[1, -3:], scores[2] = float("-inf"), 2.0, float("-inf")
    scores[3, 7], scores[4, 640:660] = float("nan"), 3.0
    best, chosen = _choose_columns(scores, n)
    expected = scores.topk(n, dim=1).values
    assert torch.equal(best.nan_to_num(9.0), expected.nan_to_num(9.0))
    assert torch.equal(scores.gather(1, chosen).nan_to_num(9.0), best.nan_to_num(9.0))
    assert all(len(set(row)) == n for row in chosen.tolist()), "no column twice"
