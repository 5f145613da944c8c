"""How tests of comparisons run."""

import pytest

from tests.lab.comparison.tiny import tiny_preset


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """The preset two-stage trains in a blink."""
    tiny_preset(monkeypatch)
