"""A run in progress: the vectors that it shows while it learns."""

from dataclasses import replace

import pytest
import torch

from spherec.embedding import EmbeddingTable, LiveVectors
from spherec.geometry import DenseVectors
from spherec.losses import Softmin
from spherec.ranking import ExactRanker
from spherec.sampling import Uniform
from spherec.training.step import Run
from tests.sampling.checks import CPU
from tests.training.runs import DATA, QUICK, copied, same, start, trained


def run_of(constraint="sphere", subspace_dim=None):
    run = Run(DATA, replace(QUICK, constraint=constraint, subspace_dim=subspace_dim), start(constraint=constraint))
    for _ in range(3):
        run.step(torch.arange(8), torch.tensor([int(DATA.items_of(user)[0]) for user in range(8)]))
    return run


@pytest.mark.parametrize("subspace_dim", [None, 4])
@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("block_size", [1, 7, 20, 16384])
def test_blocks_are_the_vectors_of_a_copy_to_the_last_bit(block_size, constraint, subspace_dim):
    run = run_of(constraint, subspace_dim)
    live, copy = LiveVectors(run.embedding, run.config.space, run.n_items, CPU, block_size), run.vectors.copy()
    assert same(copied(live), copy)
    assert [len(block) for block in live.item_blocks()][:-1] == [block_size] * ((DATA.n_items - 1) // block_size)
    assert (live.n_users, live.n_items, live.dim, live.constraint) == (20, 30, 8, constraint)
    index = torch.tensor([[3, 5], [5, 0]])
    assert torch.equal(live.users(index), copy.users(index))
    assert torch.equal(live.items(index), copy.items(index))


def test_rankings_of_a_run_are_those_of_its_copy():
    run = run_of()
    users = DATA.users[:50].astype("int64")
    live = ExactRanker(LiveVectors(run.embedding, run.config.space, run.n_items, CPU, 7)).top(users, 5, without=DATA)
    assert (live.items == ExactRanker(run.vectors.copy()).top(users, 5, without=DATA).items).all()


def test_a_copy_stays_while_the_run_continues():
    run = run_of()
    copy = run.vectors.copy()
    before = DenseVectors(copy.user_table.clone(), copy.item_table.clone())
    run.step(torch.tensor([0]), torch.tensor([1]))
    assert same(copy, before)
    assert not same(run.vectors.copy(), before)


def test_validation_makes_no_copy_of_the_tables(monkeypatch):
    read = []
    block = EmbeddingTable.block
    monkeypatch.setattr(
        EmbeddingTable, "block", lambda self, first, past: read.append(past - first) or block(self, first, past)
    )
    trained(sampler=Uniform(2), validate=lambda vectors: float(vectors.users(torch.tensor([0])).sum()) * 0, epochs=3)
    assert read == [50], "only the first validation is the best, and is copied"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"balance": 0.5},
        {"balance": 0.5, "constraint": "ball", "subspace_dim": 4},
        {"sampler": Uniform(5, shared=True)},
        {"sampler": Uniform(5, shared=True), "loss": Softmin(0.1), "constraint": "ball"},
        {"loss": Softmin(0.1), "reach": True},
    ],
    ids=str,
)
def test_a_batch_without_pairs_moves_nothing(changes):
    run = Run(DATA, replace(QUICK, **changes), start(constraint=changes.get("constraint", "sphere")))
    before, none = run.vectors.copy(), torch.empty(0, dtype=torch.int64)
    assert run.step(none, none) == 0
    assert same(run.vectors.copy(), before)
    assert run.read_sums() == [0.0, 0.0, 0.0]
