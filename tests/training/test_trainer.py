"""The loop: what it looks at, what it remembers and shows, that only data, config and device decide what it learns, and
odd data."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from spherec.embedding import EmbeddingTable, LiveVectors
from spherec.errors import DataError, TrainingError
from spherec.losses import Hinge, Softmin
from spherec.optim import Adam
from spherec.sampling import TwoStage, Uniform
from spherec.training import History
from spherec.training.step import Run
from tests.sampling.checks import CPU
from tests.training.runs import (
    DATA,
    QUICK,
    STEPS,
    copied,
    each_sampler,
    facts,
    matrix,
    pairs_of,
    same,
    start,
    trained,
    watch,
)


@pytest.fixture
def batches(monkeypatch):
    """The batches of the runs to come, as lists of pairs."""
    seen = []
    watch(
        monkeypatch, lambda users, positives, _: seen.append(list(zip(users.tolist(), positives.tolist(), strict=True)))
    )
    return seen


@pytest.fixture
def each_step(monkeypatch):
    """Reports come after each step."""
    monkeypatch.setattr("spherec.training.trainer._SECONDS_BETWEEN_REPORTS", 0)


@pytest.mark.parametrize("batch_size", [1, 16, 23, len(DATA) - 1, len(DATA), len(DATA) + 1, 10_000])
def test_an_epoch_is_one_pass_over_the_pairs(batches, batch_size):
    trained(batch_size=batch_size, epochs=2)
    steps = math.ceil(len(DATA) / batch_size)
    assert len(batches) == 2 * steps
    for epoch in (batches[:steps], batches[steps:]):
        assert [len(batch) for batch in epoch[:-1]] == [batch_size] * (steps - 1)
        assert sorted(pair for batch in epoch for pair in batch) == pairs_of(DATA)


def test_each_epoch_and_each_seed_has_an_order_of_its_own(batches):
    trained(batch_size=len(DATA), epochs=3)
    trained(batch_size=len(DATA), epochs=1, seed=1)
    orders = [tuple(batch) for batch in batches]
    assert len({*orders, tuple(pairs_of(DATA))}) == 5


@each_sampler
def test_the_seed_alone_decides_and_global_generators_are_neither_used_nor_touched(sampler):
    first = trained(sampler=sampler, seed=4)
    torch.manual_seed(7)
    np.random.seed(7)  # noqa: NPY002
    states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    again, other = (trained(sampler=sampler, seed=seed) for seed in (4, 5))
    assert same(first.vectors, again.vectors)
    assert facts(first.history) == facts(again.history)
    assert not same(first.vectors, other.vectors)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002


@each_sampler
def test_history_has_a_record_for_each_epoch(sampler):
    history = trained(sampler=sampler, epochs=4).history
    assert [record.epoch for record in history.epochs] == [1, 2, 3, 4]
    for record in history.epochs:
        assert record.pairs == len(DATA)
        assert record.seconds > 0
        assert 0 < record.loss < math.inf
        assert 0 < record.active <= 1
        assert 0 <= record.masked < 1
        assert record.triplets_per_second == pytest.approx(len(DATA) * sampler.negatives / record.seconds)
        assert record.metric is None
    assert history.epochs[-1].loss < history.epochs[0].loss


def test_progress_tells_how_far_the_epoch_has_come(each_step):
    reports = []
    result = trained(progress=lambda *report: reports.append(report))
    ended = [(record, history) for record, history in reports if record.epoch == len(history.epochs)]
    assert ended == [(record, History(result.history.epochs[: record.epoch])) for record in result.history.epochs]
    reports = [report for report in reports if report not in ended]
    assert len(reports) == 3 * STEPS
    for number, (record, history) in enumerate(reports):
        epoch, step = divmod(number, STEPS)
        assert record.epoch == epoch + 1
        assert record.pairs == min((step + 1) * 16, len(DATA))
        assert record.seconds > 0
        assert 0 < record.loss < 10
        assert history.epochs == result.history.epochs[:epoch]
    for (last, _), told in zip(reports[STEPS - 1 :: STEPS], result.history.epochs, strict=True):
        assert (last.loss, last.active, last.masked) == (told.loss, told.active, told.masked)


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
def test_initial_vectors_are_where_it_starts(constraint):
    initial, other = start(), start()
    other.item_table[0] *= -1
    given = [initial.user_table.clone(), initial.item_table.clone()]
    results = [trained(initial=one, constraint=constraint, optimizer=Adam(1e-6)).vectors for one in (initial, other)]
    torch.testing.assert_close(results[0].user_table, given[0], atol=1e-4, rtol=0)
    torch.testing.assert_close(results[0].item_table, given[1], atol=1e-4, rtol=0)
    assert not same(*results)
    assert torch.equal(initial.user_table, given[0])
    assert torch.equal(initial.item_table, given[1])
    assert results[0].constraint == constraint


@pytest.mark.parametrize("data", [DATA.filter(np.zeros(len(DATA), bool)), matrix([0, 0], [0, 0])], ids=repr)
def test_nothing_to_train_on_is_refused(data):
    with pytest.raises(DataError, match="no pairs to train on"):
        trained(data)


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("penalty", ["covariance", "spread_out"])
@pytest.mark.parametrize("validate", [None, lambda _: 1.0], ids=["unseen", "validated"])
def test_a_loss_that_is_no_number_ends_the_run(validate, penalty, constraint):
    with pytest.raises(TrainingError, match=r"the loss is nan in epoch 1; lower learning_rate"):
        trained(validate=validate, constraint=constraint, **{penalty: 1e300})


@pytest.mark.parametrize("metric", [float("nan"), float("-inf")])
def test_a_metric_that_is_no_number_ends_the_run(metric):
    with pytest.raises(TrainingError, match=str(metric)):
        trained(validate=lambda _: metric)


ODD = {
    "a user with every item": ([1, 1, 1, 1], [1, 0, 0, 1]),
    "everybody has everything": ([1, 1], [1, 1]),
    "one pair in all": ([1],),
    "one user": ([1, 0, 1, 0],),
    "one item": ([1], [1], [1]),
    "users and items without a pair": ([0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]),
}


@each_sampler
@pytest.mark.parametrize("rows", ODD.values(), ids=ODD)
def test_odd_data_gives_finite_vectors(rows, sampler):
    data = matrix(*rows)
    for loss in (Hinge(), Hinge(rank_weight=True), Softmin()):
        for constraint in ("sphere", "ball"):
            settings = {"loss": loss, "constraint": constraint, "covariance": 0.1, "spread_out": 0.1}
            result = trained(data, sampler=sampler, epochs=2, **settings)
            assert result.vectors.user_table.shape == (data.n_users, 8)
            assert result.vectors.user_table.isfinite().all()
            assert result.vectors.item_table.isfinite().all()
            assert all(math.isfinite(record.loss) for record in result.history.epochs)


def test_users_and_items_without_a_pair_stay_where_they_are():
    data = matrix([1, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0])
    initial = start(data)
    model = trained(data, initial=initial, sampler=TwoStage(1, beta=0), loss=Softmin()).vectors
    assert torch.equal(model.user_table[1], initial.user_table[1])
    assert torch.equal(model.item_table[2:], initial.item_table[2:])
    assert not torch.equal(model.user_table[0], initial.user_table[0])


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


def test_validation_makes_no_copy_of_the_tables(monkeypatch):
    read = []
    block = EmbeddingTable.block
    monkeypatch.setattr(
        EmbeddingTable, "block", lambda self, first, past: read.append(past - first) or block(self, first, past)
    )
    trained(sampler=Uniform(2), validate=lambda vectors: float(vectors.users(torch.tensor([0])).sum()) * 0, epochs=3)
    assert read == [50], "only the first validation is the best, and is copied"
