"""One number for a model while it learns: the mean NDCG over users with something held out."""

import numpy as np
import pytest
import torch

from spherec.distributed.crew import ProcessCrew
from spherec.distributed.group import ProcessGroup
from spherec.errors import DataError
from spherec.evaluation import Validation, validation_part
from spherec.geometry import DenseVectors
from tests.oracles import mean_ndcg
from tests.sampling.checks import directions, interactions, random_rows


def parts(seed=0, n_users=25, n_items=30):
    """Rows to train on and rows held out, disjoint; some users have nothing held out, some nothing to train on."""
    whole, held = random_rows(n_users, n_items, 0.4, seed), random_rows(n_users, n_items, 0.3, seed + 1)
    held[:3], whole[3] = 0, held[3]
    return whole * (1 - held), whole * held


def baskets(rows):
    return {user: set(np.flatnonzero(row).tolist()) for user, row in enumerate(rows)}


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("k", [1, 5, 30, 50])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_oracles_mean(seed, k, constraint):
    train, held_out = parts(seed)
    lengths = torch.linspace(0.2, 1, 30)[:, None] if constraint == "ball" else 1.0
    vectors = DenseVectors(directions(25, 6, seed), directions(30, 6, seed + 7) * lengths, constraint)
    validation = Validation(interactions(train), interactions(held_out), k=k)
    users, items = (table.double().tolist() for table in (vectors.user_table, vectors.item_table))
    expected = mean_ndcg(users, items, baskets(train), baskets(held_out), k)
    value = validation(vectors)
    assert type(value) is float
    assert value == pytest.approx(expected)


def test_users_without_held_out_items_do_not_count():
    rows = [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    vectors = DenseVectors(torch.eye(4)[[1, 2, 3]], torch.eye(4))
    assert Validation(interactions(np.zeros((3, 4))), interactions(rows), k=2)(vectors) == 1


@pytest.mark.parametrize(("rows", "share"), [([[1, 0], [0, 1]], 0.9), ([[1, 1], [0, 1]], 1e-9)])
def test_a_share_that_holds_nothing_out_is_refused(rows, share):
    with pytest.raises(DataError, match=f"{share:g}"):
        validation_part(interactions(rows), share, seed=0)


class Together(ProcessGroup):
    """A group of processes in which the others have nobody to rank."""

    def __init__(self, rank, size):
        super().__init__(torch.device("cpu"), rank, size)

    def add_up(self, numbers):
        return numbers


def test_processes_share_the_users_and_a_process_may_have_none():
    rows = np.eye(2, 5, dtype=int)
    vectors = DenseVectors(directions(2, 4, 1), directions(5, 4, 2))
    given = interactions(0 * rows), interactions(rows)
    figures = [Validation(*given, k=3, crew=ProcessCrew(Together(rank, 3)))(vectors) for rank in range(3)]
    assert np.isnan(figures).sum() == 1
    assert np.nanmean(figures) == pytest.approx(Validation(*given, k=3)(vectors))
