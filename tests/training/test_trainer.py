"""The loop: what it looks at, what it remembers, and that only data, config and device decide what it learns."""

import math
import threading

import numpy as np
import pytest
import torch

from spherec.optim import Adam
from spherec.sampling import TwoStage
from spherec.training import History
from spherec.training.step import Run
from tests.training.runs import (
    DATA,
    SAMPLERS,
    STEPS,
    Crash,
    crash,
    facts,
    matrix,
    pairs_of,
    same,
    start,
    trained,
    watch,
)

each_sampler = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)


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
def test_the_same_seed_gives_the_same_vectors_and_another_others(sampler):
    first, again, other = (trained(sampler=sampler, seed=seed) for seed in (4, 4, 5))
    assert same(first.vectors, again.vectors)
    assert facts(first.history) == facts(again.history)
    assert not same(first.vectors, other.vectors)


@each_sampler
def test_global_generators_are_neither_used_nor_touched(sampler):
    before = trained(sampler=sampler).vectors
    torch.manual_seed(7)
    np.random.seed(7)  # noqa: NPY002
    states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    assert same(trained(sampler=sampler).vectors, before)
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


def test_masked_is_the_share_of_places_without_a_negative():
    data = matrix([1, 1, 1], [1, 0, 0])  # the first user has every item
    record = trained(data, epochs=1).history.epochs[0]
    assert record.masked == 3 / 4
    assert record.active <= 1 / 4


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


def test_what_progress_or_validate_raises_is_not_swallowed(each_step):
    for options in ({"progress": lambda *_: crash()}, {"validate": lambda _: crash()}):
        with pytest.raises(Crash):
            trained(**options)


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


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
def test_samplers_see_the_space_as_it_is(constraint, monkeypatch):
    step, longest = Run.step, []

    def look(run, users, positives):
        vectors = run.vectors.copy()
        seen = run.geometry.users(torch.arange(20)), run.geometry.items(torch.arange(30))
        torch.testing.assert_close(seen[0], vectors.user_table, atol=1e-6, rtol=0)
        torch.testing.assert_close(seen[1], vectors.item_table, atol=1e-6, rtol=0)
        longest.append(float(torch.cat(seen).norm(dim=1).max()))
        return step(run, users, positives)

    monkeypatch.setattr(Run, "step", look)
    trained(constraint=constraint, optimizer=Adam(0.3))
    assert len(longest) == 3 * STEPS
    assert max(longest) <= 1 + 1e-6


def test_frozen_vectors_are_those_before_the_first_step(monkeypatch):
    drawn = {}
    for vectors in ("live", "frozen"):
        drawn[vectors] = []
        with monkeypatch.context() as patch:
            watch(patch, lambda *step, into=drawn[vectors]: into.append(step[2].items))
            trained(sampler=TwoStage(3, sharpness=1, vectors=vectors), optimizer=Adam(0.1))
    alike = [torch.equal(*both) for both in zip(*drawn.values(), strict=True)]
    assert alike[0]
    assert not any(alike[1:])


def test_runs_in_threads_of_their_own_do_not_meddle_with_each_other():
    seeds, results = range(3), {}
    threads = [
        threading.Thread(target=lambda seed=seed: results.update({seed: trained(seed=seed, sampler=TwoStage(3))}))
        for seed in seeds
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(results[seed].vectors, trained(seed=seed, sampler=TwoStage(3)).vectors) for seed in seeds)
