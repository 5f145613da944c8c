"""Hashes of own code: the same for the same code and settings, another after any change, none for our own parts."""

from dataclasses import dataclass

import numpy as np
import pytest

import spherec
from spherec.evaluation import METRICS, FormulaMetric
from spherec.lab import known_models
from spherec.lab.own_code import hash_own_code
from spherec.lab.registry import find_models
from spherec.sampling import Sampling

SOURCE = """
import numpy as np
from dataclasses import dataclass

SHARE = 0.5

def helper(lists):
    return lists.hits[:, 0] * SHARE

def metric(lists):
    # a comment
    return helper(lists) + np.ones(1)

class Base:
    def scale(self):
        return 2

@dataclass(frozen=True)
class Part(Base):
    size: int = 3

    def build(self):
        return Inner(self)

class Inner:
    kinds = {"a", "b", "c"}

    def __init__(self, part):
        self.part = part

    def sample(self, n):
        return [one for one in range(n) if one in {"x", "y"}]
"""


def made(source):
    space = {"__name__": "somebody"}
    exec(compile(source, "somebody.py", "exec"), space)
    return space


@pytest.mark.parametrize("model", known_models())
def test_our_own_parts_have_none(model):
    (found,) = find_models([model])
    assert hash_own_code(*found.parts) is None


def test_our_own_metrics_have_none():
    assert hash_own_code(*METRICS) is None


def test_the_same_code_has_the_same(monkeypatch):
    again = made(SOURCE.replace("# a comment", "# another"))
    for name in ("metric", "Part"):
        assert hash_own_code(made(SOURCE)[name]) == hash_own_code(again[name])
    assert hash_own_code(made(SOURCE)["Part"](4)) == hash_own_code(again["Part"](4))


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("np.ones(1)", "np.ones(2)", "metric"),
        ("lists.hits[:, 0]", "lists.hits[:, 1]", "metric"),
        ("SHARE = 0.5", "SHARE = 0.6", "metric"),
        ("return 2", "return 3", "Part"),
        ("range(n)", "range(n + 1)", "Part"),
        ('"c"}', '"d"}', "Part"),
        ("size: int = 3", "size: int = 4", "Part"),
    ],
)
def test_changed_code_has_another(old, new, part):
    before, after = made(SOURCE)[part], made(SOURCE.replace(old, new))[part]
    assert hash_own_code(before) != hash_own_code(after)


def test_settings_and_arrays_count():
    class Priced:
        def __init__(self, prices):
            self.prices = prices

    def closed(prices):
        return lambda lists: prices[0]

    for make in (Priced, closed, lambda prices: FormulaMetric("x", "X", closed(prices))):
        one, same, other = (make(np.array(values)) for values in ([1.0, 2.0], [1.0, 2.0], [1.0, 3.0]))
        assert hash_own_code(one) == hash_own_code(same) != hash_own_code(other)


@dataclass(frozen=True)
class Mine(Sampling):
    """A sampler of somebody's."""

    negatives: int = 2

    def build(self, train, device, *, initial_items):
        return spherec.Uniform(self.negatives).build(train, device, initial_items=initial_items)


def test_ours_next_to_own_do_not_count():
    assert hash_own_code(spherec.Hinge(), Mine()) == hash_own_code(Mine()) != hash_own_code(Mine(3))
