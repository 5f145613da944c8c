"""Work that is divided among threads gives what one thread gives, bit by bit."""

from contextlib import contextmanager

import pytest
import torch

from spherec import device
from spherec.kernels.cpu import CpuBackend, adam, negatives
from spherec.optim import Adam
from spherec.sampling.draw import items_of_users
from tests.kernels import DenseAdam
from tests.sampling.checks import CPU, interactions, random_rows

PAIRS, DIM = 13, 6


@pytest.fixture
def three_threads(monkeypatch, set_threads):
    """A context in which all work is divided among three threads; outside of it there is one."""
    monkeypatch.setattr(device, "_LARGE", 1)
    set_threads(1)

    @contextmanager
    def divide():
        set_threads(3)
        with device.threads_for(PAIRS, CPU):
            yield
        set_threads(1)

    return divide()


def count_tasks(monkeypatch, module):
    """Record the number of tasks of each call of `run_at_once` in a module."""
    counts = []

    def run(tasks):
        counts.append(len(tasks))
        return device.run_at_once(tasks)

    monkeypatch.setattr(module, "run_at_once", run)
    return counts


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
def test_rows_are_read_and_moved_bit_by_bit_the_same(three_threads, monkeypatch, constraint):
    random = torch.Generator().manual_seed(1)
    steps = [(torch.randint(20, (50,), generator=random), torch.randn(50, DIM, generator=random)) for _ in range(4)]
    steps[1][1][::3] = 0
    first = torch.randn(20, DIM, generator=random)

    def learn():
        optimizer = DenseAdam(first.clone(), Adam(), constraint=constraint)
        for index, gradient in steps:
            optimizer.step(index, gradient)
        return optimizer.rows(torch.arange(20)), optimizer.state()

    rows, state = learn()
    counts = count_tasks(monkeypatch, adam)
    with three_threads:
        divided_rows, divided_state = learn()
    assert set(counts) == {3}
    assert torch.equal(rows, divided_rows)
    assert all(torch.equal(state[name], divided_state[name]) for name in state)


def test_a_mask_is_the_same(three_threads, monkeypatch):
    rows = random_rows(20, 30, 0.3)
    users, items = torch.arange(20).flip(0), torch.arange(0, 30, 2).repeat(2)
    membership = CpuBackend().membership(items_of_users(interactions(rows)), CPU)
    counts = count_tasks(monkeypatch, negatives)
    with three_threads:
        mask = membership.mask(users, items)
    assert counts == [3]
    assert torch.equal(mask, torch.tensor(rows)[users][:, items] > 0)
